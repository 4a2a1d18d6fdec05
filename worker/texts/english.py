"""The English texts, and what each text is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Texts:
    """English; the base of the other catalogs."""

    language = "en"
    separator = ", "

    def names(self, names: Iterable[str]) -> str:
        """Names in a row, or the word for none."""
        return self.separator.join(names) or "none"

    # Calls that cannot be run

    def unknown_tool(self, name: str, available: Iterable[str]) -> str:
        """The model called a tool that the agent does not have."""
        return f"Error: there is no tool called {name}. Available tools: {self.names(available)}."

    def not_json(self, reason: str, position: int, excerpt: str) -> str:
        """The arguments do not parse; ``position`` counts characters from 0."""
        return (
            f"Error: the arguments are not valid JSON: {reason} at character {position}, "
            f"near {excerpt}. Send the call again with one JSON object as arguments."
        )

    def not_object(self, kind: str) -> str:
        """The arguments are JSON, but not an object."""
        return (
            f"Error: the arguments must be a JSON object, but a value of type {kind} was sent. "
            "Send the call again with an object that names each argument."
        )

    def cut_call(self) -> str:
        """The reply ended at its length limit inside this call."""
        return (
            "Error: this call was cut off by the length limit and was not run. "
            "Send it again with shorter arguments, or split the work into several calls."
        )

    def bad_arguments(self, tool: str, problems: Sequence[str]) -> str:
        """The arguments do not fit the tool's parameters."""
        listed = "\n".join(f"- {problem}" for problem in problems)
        return (
            f"Error: wrong arguments for {tool}:\n{listed}\n"
            "Nothing was run. Correct them and send the call again."
        )

    def missing_argument(self, name: str) -> str:
        """A required argument is absent."""
        return f"{name}: required, but missing"

    def unknown_argument(self, name: str, allowed: Iterable[str]) -> str:
        """An argument that the tool does not have."""
        return f"{name}: there is no such argument. Arguments: {self.names(allowed)}"

    def bad_value(self, name: str, reason: str, shown: str) -> str:
        """An argument whose value is refused; ``shown`` is the value as JSON, shortened."""
        return f"{name}: {reason} (got {shown})"

    def more_problems(self, count: int) -> str:
        """Problems beyond those that are listed."""
        return f"and {count} more"

    def too_many_calls(self, tool: str, limit: int) -> str:
        """The tool may not be called any more in this job."""
        return (
            f"Error: {tool} may be called at most {limit} times in one task, and this is used up. "
            "Go on without it."
        )

    # Tools that fail

    def tool_error(self, kind: str, text: str) -> str:
        """A tool raised ``kind``, an exception's name, with this text."""
        what = f"Error: {kind}: {text}" if text else f"Error: {kind}"
        return f"{what}\nCorrect the arguments, or go another way."

    def tool_retry(self, text: str) -> str:
        """A tool asks for another call with other arguments."""
        return f"Error: {text}\nCall the tool again accordingly."

    def tool_failed(self, text: str) -> str:
        """A tool's work failed for good."""
        return f"Error: {text}\nCalling the tool again will not help; go another way."

    def timeout(self, seconds: float) -> str:
        """A tool did not come back in its time."""
        return (
            f"Error: no result within {seconds:g} seconds. The tool may have done part of its work "
            "or all of it: check before you call it again, or ask for less at a time."
        )

    def died(self, how: str) -> str:
        """The process in which a tool ran ended without a result."""
        return (
            f"Error: the tool's process ended without a result ({how}). It may have done part of "
            "its work: check before you call it again, or ask for less at a time."
        )

    def overloaded(self, count: int) -> str:
        """So many timed-out calls still run that no more are begun."""
        return (
            f"Error: {count} earlier calls that timed out are still running, so this one was not "
            "begun. Go on without the tool, or call it again later."
        )

    # Results

    def no_result(self) -> str:
        """A tool returned None."""
        return "(done, no result)"

    def empty_text(self) -> str:
        """A tool returned an empty text, or only blanks."""
        return "(empty text)"

    def empty_collection(self, written: str) -> str:
        """A tool returned a list, set or dict without content, written as ``[]`` or ``{}``."""
        return f"{written} (empty)"

    def unwritable(self, kind: str) -> str:
        """A tool returned something that has no written form; ``kind`` names its type."""
        return (
            f"Error: the tool ran, but returned {kind}, which cannot be written as text. "
            "Do not call it again for this; go another way."
        )

    def truncated(self, total: int) -> str:
        """Notice behind a text that was cut; ``total`` is its full length in characters."""
        return f"... (content too long, truncated; {total} characters in total)"

    # The way of a job

    def skipped_after_answer(self) -> str:
        """A call behind the one that ended the job."""
        return "(not run: the task was already finished by an earlier call of this reply)"

    def rejected(self, note: str) -> str:
        """A person refused a call that needs approval."""
        reason = f" Reason: {note}" if note else ""
        return f"Error: a person refused this call; it was not run.{reason} Go another way."

    def ran_with_changes(self, arguments: str, result: str) -> str:
        """A person changed a call's arguments, given as JSON, before it was run."""
        return f"A person changed the arguments to {arguments}. Result:\n{result}"

    def human_answer(self, text: str) -> str:
        """A person's answer to ``hand_to_human`` or to a tool's question."""
        return f"Answer of a person: {text}"

    def outcome_unknown(self, note: str) -> str:
        """A person could not say either whether an interrupted call took effect."""
        known = f" What is known: {note}" if note else ""
        return f"Error: the call was interrupted, and its outcome is unknown.{known}"

    def outcome_reported(self, note: str) -> str:
        """A person says what became of an interrupted call."""
        return f"The call was interrupted. A person checked its outcome: {note}"

    def same_action(self, times: int) -> str:
        """The model repeats one call that always has the same result."""
        return (
            f"Error: this is the same call with the same result for the {times}th time. "
            "Do something else, or give your answer."
        )

    def accepted(self) -> str:
        """The final result was accepted; nothing follows it."""
        return "(accepted: the task is finished)"

    def terminate_too_early(self) -> str:
        """The model ended the job in the same reply in which it asked for a person."""
        return (
            "Error: not accepted yet, because another call of this reply is not answered yet. "
            "Read its answer first, then give the final result."
        )

    def answer_cut(self) -> str:
        """The final text was cut off by the length limit."""
        return "Your answer was cut off by the length limit. Give it again, shorter."

    def text_call(self) -> str:
        """The model wrote a tool call as text."""
        return (
            "Your reply holds a tool call written as text, which is not executed. "
            "Call the tool through the tool interface, or answer without it."
        )

    def empty_reply(self) -> str:
        """The model replied with neither text nor a call."""
        return "Your reply was empty. Call a tool, or give your answer."

    def answer_by_tool(self, tool: str) -> str:
        """The model answered in text where the answer must be typed."""
        return f"This is not yet an answer: call {tool} with the final result."

    def long_history(self, dropped: int) -> str:
        """Stands in a shortened history for the messages that are not shown."""
        return f"({dropped} earlier messages are not shown here.)"

    def summarise(self) -> str:
        """Asks a model to summarise the steps that follow as a text."""
        return (
            "Summarise the following steps of an agent's work for the agent itself: what was "
            "asked, what was found out (names, numbers, sources), what was done, and what is "
            "still open. Write only the summary."
        )

    def summary(self, text: str) -> str:
        """Stands in a shortened history for messages that were summarised."""
        return f"Summary of the earlier steps:\n{text}"

    # Built-in tools

    def delegated_task(self) -> str:
        """Description of the parameter of a tool that is another agent."""
        return "The complete task, with everything that is needed to do it."

    def sub_job_failed(self, text: str) -> str:
        """Another agent ended without an answer."""
        return f"Error: the other agent ended without an answer: {text}. Go another way."

    def terminate(self, kind: str) -> str:
        """Description of the tool that ends a job; ``kind`` names the answer's type."""
        return f"Provide the final result ({kind}) and end the task."

    def terminate_result(self) -> str:
        """Description of that tool's only parameter, when the answer is one value."""
        return "The final result."

    def hand_to_human(self) -> str:
        """Description of the tool that hands a job to a person."""
        return "Hands the conversation to a colleague, with the reason."

    def hand_to_human_reason(self) -> str:
        """Description of that tool's parameter."""
        return "Why a person is needed, and what is to be decided."


ENGLISH = Texts()
