"""The Chinese texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worker.texts.english import Texts


class ChineseTexts(Texts):
    """中文。"""

    language = "zh"
    separator = "、"

    def names(self, names: Iterable[str]) -> str:
        return self.separator.join(names) or "无"

    def unknown_tool(self, name: str, available: Iterable[str]) -> str:
        return f"错误：没有叫 {name} 的工具。可用的工具：{self.names(available)}。"

    def not_json(self, reason: str, position: int, excerpt: str) -> str:
        return (
            f"错误：参数不是合法的 JSON：{reason}，位于第 {position} 个字符，"
            f"附近是 {excerpt}。请用一个 JSON 对象作为参数，重新调用。"
        )

    def not_object(self, kind: str) -> str:
        return (
            f"错误：参数必须是一个 JSON 对象，收到的却是 {kind} 类型的值。"
            "请写明每个参数的名字，重新调用。"
        )

    def cut_call(self) -> str:
        return "错误：这次调用因长度限制被截断，没有执行。请缩短参数后重新调用，或者分成几次调用。"

    def bad_arguments(self, tool: str, problems: Sequence[str]) -> str:
        listed = "\n".join(f"- {problem}" for problem in problems)
        return f"错误：{tool} 的参数不对：\n{listed}\n没有执行任何操作。请改正后重新调用。"

    def missing_argument(self, name: str) -> str:
        return f"{name}：必填，但没有给出"

    def unknown_argument(self, name: str, allowed: Iterable[str]) -> str:
        return f"{name}：没有这个参数。参数有：{self.names(allowed)}"

    def bad_value(self, name: str, reason: str, shown: str) -> str:
        return f"{name}：{reason}（收到 {shown}）"

    def more_problems(self, count: int) -> str:
        return f"还有 {count} 处"

    def too_many_calls(self, tool: str, limit: int) -> str:
        return f"错误：每个任务最多调用 {tool} {limit} 次，次数已用完。请不要再用它，继续完成任务。"

    def tool_error(self, kind: str, text: str) -> str:
        what = f"错误：{kind}: {text}" if text else f"错误：{kind}"
        return f"{what}\n请改正参数，或者换一种办法。"

    def tool_retry(self, text: str) -> str:
        return f"错误：{text}\n请照此重新调用这个工具。"

    def tool_failed(self, text: str) -> str:
        return f"错误：{text}\n再次调用也没有用，请换一种办法。"

    def timeout(self, seconds: float) -> str:
        return (
            f"错误：{seconds:g} 秒内没有结果。工具可能已经完成了部分或全部操作，"
            "再次调用前请先查清楚，或者减少每次的工作量。"
        )

    def died(self, how: str) -> str:
        return (
            f"错误：工具的进程没有给出结果就结束了（{how}）。它可能已经完成了部分操作，"
            "再次调用前请先查清楚，或者减少每次的工作量。"
        )

    def overloaded(self, count: int) -> str:
        return (
            f"错误：还有 {count} 个已超时的调用没有结束，这次调用没有开始。"
            "请不用这个工具继续，或者稍后再调用。"
        )

    def no_result(self) -> str:
        return "（已完成，没有返回内容）"

    def empty_text(self) -> str:
        return "（空文本）"

    def empty_collection(self, written: str) -> str:
        return f"{written}（空）"

    def unwritable(self, kind: str) -> str:
        return (
            f"错误：工具已经运行，但返回的是 {kind}，无法写成文字。请不要为此再次调用，换一种办法。"
        )

    def truncated(self, total: int) -> str:
        return f"……（内容太长，已截断，共 {total} 字符）"

    def skipped_after_answer(self) -> str:
        return "（没有执行：同一条回复里前面的调用已经结束了任务）"

    def rejected(self, note: str) -> str:
        reason = f"理由：{note}。" if note else ""
        return f"错误：这次调用被人拒绝了，没有执行。{reason}请换一种办法。"

    def ran_with_changes(self, arguments: str, result: str) -> str:
        return f"人工已把参数改为 {arguments}。结果：\n{result}"

    def human_answer(self, text: str) -> str:
        return f"人工回复：{text}"

    def outcome_unknown(self, note: str) -> str:
        known = f"已知情况：{note}" if note else ""
        return f"错误：这次调用被中断，结果不明。{known}"

    def outcome_reported(self, note: str) -> str:
        return f"这次调用被中断。有人查过结果：{note}"

    def same_action(self, times: int) -> str:
        return f"错误：同样的调用、同样的结果，已经是第 {times} 次。请换一种做法，或者给出回答。"

    def accepted(self) -> str:
        return "（已接受，任务结束）"

    def terminate_too_early(self) -> str:
        return (
            "错误：暂不接受，因为本次回复里还有一个调用没有结果。请先看它的结果，再给出最终结果。"
        )

    def answer_cut(self) -> str:
        return "你的回答因长度限制被截断了。请重新给出，写短一些。"

    def text_call(self) -> str:
        return (
            "你的回复把工具调用写成了文字，不会被执行。请通过工具接口调用，或者不用工具直接回答。"
        )

    def empty_reply(self) -> str:
        return "你的回复是空的。请调用工具，或者给出回答。"

    def answer_by_tool(self, tool: str) -> str:
        return f"这还不是最终回答：请调用 {tool} 给出最终结果。"

    def long_history(self, dropped: int) -> str:
        return f"（这里省略了更早的 {dropped} 条消息。）"

    def summarise(self) -> str:
        return (
            "请为智能体自己总结下面的工作步骤：任务是什么，查到了什么（名称、数字、出处），"
            "做了什么，还有什么没做完。只写总结。"
        )

    def summary(self, text: str) -> str:
        return f"前面步骤的摘要：\n{text}"

    def delegated_task(self) -> str:
        return "完整的任务，包括完成它所需的全部信息。"

    def sub_job_failed(self, text: str) -> str:
        return f"错误：另一个智能体没有给出答案就结束了：{text}。请换一种办法。"

    def terminate(self, kind: str) -> str:
        return f"给出最终结果（{kind}）并结束任务。"

    def terminate_result(self) -> str:
        return "最终结果。"

    def hand_to_human(self) -> str:
        return "把对话交给同事，并说明理由。"

    def hand_to_human_reason(self) -> str:
        return "为什么需要人工处理，以及需要决定什么。"
