"""What a model would say to the tasks of the examples: for tests and the demo, and for nothing.

Every reply is chosen by the messages alone, so a job that is resumed in another process goes on at
the right place, and one model serves any number of jobs.

    python -m worker.devserver --model worker.examples.scripts:model
"""

from __future__ import annotations

from collections.abc import Sequence

from worker.examples.calculator import calculator
from worker.examples.docs import docs
from worker.examples.shop import shop
from worker.models.base import Message, Model, ModelError, ModelReply, ModelRequest
from worker.models.function import FunctionModel
from worker.models.scripted import ScriptedModel, act, say

DOCS_TASK = "任务暂停等人的时候还占用什么？请注明文件和行号。"
DOCS_SCRIPT = [
    act("先搜索一下。", ("grep_docs", {"keyword": "paused worker"})),
    act("没有结果。直接读文件。", ("read_doc", {"path": "jobs.md", "start": 1, "end": 200})),
    act("再看一个文件。", ("read_doc", {"path": "job.md"})),  # misspelt on purpose
    say("只占用 Redis 里的记录，没有工作进程、线程和队列消息（见 jobs.md 第 64～68 行）。"),
]

CALCULATOR_TASK = "Add 200 and 10, then multiply the result by 2. Save the result as a paper."
CALCULATOR_SCRIPT = [
    act("First the sum.", ("add", {"a": 200, "b": 10})),
    act("Then twice that.", ("multiply", {"a": 210, "b": 2})),
    act("I save it.", ("save_paper", {"title": "Twice the sum", "content": "420"})),
    act(None, ("terminate", {"value": 420})),
]

RETURN_TASK = "Die Kopfhörer aus Bestellung 1187 sind kaputt. Ich möchte sie zurückgeben."
COURIER_TASK = "Wann kommt 1042 an? Der Kurier hat gesagt, heute."
COMPENSATION_TASK = "Ich möchte 20 € Entschädigung, weil 1042 zu spät kommt."
NOT_DELIVERED = (
    "Die Bestellung ist noch nicht zugestellt. Du kannst sie nach der Lieferung zurückgeben."
)
THANKS = "Gern geschehen! Schreib, wenn du eine Frage hast."


def shop_reply(messages: Sequence[Message]) -> Message:
    """The next reply to a customer, by the words of the task and the observations so far."""
    task = next(m["content"] for m in messages if m["role"] == "user")
    seen = [m["content"] for m in messages if m["role"] == "tool"]
    order = "1187" if "1187" in task else "1042"
    if "zurückgeben" in task:
        return _return(order, seen)
    if "Entschädigung" in task:
        return _compensation(order, seen)
    if "Kurier" in task:
        plan = "Keine Änderung. Ich frage noch einmal." if seen else _FIRST_ASK
        return _do(plan, "estimate_delivery", seen, order_id=order)
    return say(THANKS)


_FIRST_ASK = "Ich frage den Kurier nach dem Termin."


def _return(order: str, seen: list[str]) -> Message:
    if not seen:
        plan = "Zuerst prüfe ich, ob die Bestellung zugestellt wurde."
        return _do(plan, "get_order_status", seen, order_id=order)
    if len(seen) == 1 and "zugestellt" in seen[0]:
        plan = "Sie ist zugestellt. Ich öffne eine Rückgabeanfrage."
        return _do(plan, "open_return_request", seen, order_id=order)
    if len(seen) == 1:
        return say(NOT_DELIVERED)
    request = seen[-1].split(" ")[0]
    return say(
        f"Ich habe die Anfrage {request} zur Rückgabe von Bestellung {order} geöffnet. "
        "Ein Kollege gibt sie frei und schreibt dir."
    )


def _compensation(order: str, seen: list[str]) -> Message:
    if not seen:
        return _do("Ich prüfe die Bestellung.", "get_order_status", seen, order_id=order)
    if len(seen) == 1:
        plan = "Über eine Entschädigung entscheidet ein Mensch, nicht ich."
        return _do(plan, "hand_to_human", seen, reason=f"Entschädigung für {order}")
    decision = seen[-1].partition(": ")[2] or seen[-1]
    return say(f"Ein Kollege hat über die Entschädigung für {order} entschieden: {decision}")


def _do(plan: str, tool: str, seen: list[str], **arguments: str) -> Message:
    """A plan and one action; the ids count the actions of the job."""
    return act(plan, (tool, arguments, f"call_{len(seen) + 1}"))


class ExampleModel:
    """Answers for all three agents; tells them apart by their goals."""

    name = "examples"

    def __init__(self) -> None:
        self._models: dict[str, Model] = {
            docs.goal: ScriptedModel(DOCS_SCRIPT),
            shop.goal: FunctionModel(shop_reply),
            calculator.goal: ScriptedModel(CALCULATOR_SCRIPT),
        }

    def reply(self, request: ModelRequest) -> ModelReply:
        """The next line for the job whose messages these are.

        Raises:
            ModelError: with fate ``fail``, for an agent that is none of the examples.
        """
        goal = str(request.messages[0].get("content"))
        if goal not in self._models:
            raise ModelError(f"there is no script for the goal {goal[:80]!r}", "fail")
        return self._models[goal].reply(request)


def model() -> Model:
    """One that follows these scripts."""
    return ExampleModel()
