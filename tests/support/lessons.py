"""Runs of the example agents, written down line by line as a lesson would print them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from worker.inline import InlineRun

HTTPX_DOCS = Path(__file__).resolve().parents[1] / "data" / "httpx-docs"


def german_lines(run: InlineRun) -> list[str]:
    """The task, and for each step its plan, action and observation; then how the run stopped."""
    task, rest = run.messages[1]["content"], run.messages[2:]
    lines, step = [f"Aufgabe: {task}"], 0
    for message in rest:
        if message["role"] == "tool":
            lines.append(f"    Beobachtung: {message['content']}")
            continue
        step += 1
        calls = message.get("tool_calls", ())
        lines.append(f"  Schritt {step}. {'Plan' if calls else 'Ende'}: {message['content']}")
        lines += [f"    Aktion: {_german_action(call)}" for call in calls]
    return [*lines, *_german_stop(run, step)]


def _german_action(call: dict[str, Any]) -> str:
    values = json.loads(call["function"]["arguments"]).values()
    return f"{call['function']['name']}({', '.join(values)})"


def _german_stop(run: InlineRun, step: int) -> list[str]:
    if run.pause is None:
        return []
    return [
        {
            "hand_to_human": f"  Stopp: ein Mensch wird gebraucht — {run.pause.question}",
            "repeated_action": "  Stopp: dieselbe Aktion zweimal → an einen Kollegen",
            "budget": f"  Stopp: {step} Schritte ohne Antwort → an einen Kollegen",
        }[run.pause.kind]
    ]


def chinese_lines(run: InlineRun) -> list[str]:
    """Each call with the beginning of what came of it; then the answer, or that there is none."""
    lines, step = [], 0
    calls: dict[str, dict[str, Any]] = {}
    for message in run.messages[2:]:
        if message["role"] == "tool":
            call = calls[message["tool_call_id"]]
            shown = message["content"].replace("\n", " | ")[:90]
            lines.append(f"[第 {step} 步] {call['name']}({call['arguments']}) → {shown}")
            continue
        step += 1
        calls = {call["id"]: call["function"] for call in message.get("tool_calls", ())}
        if not calls:
            lines.append(f"[第 {step} 步] 回答：{message['content']}")
    if run.outcome is not None and run.outcome.reason == "max_steps":
        lines.append(f"达到最大步数 {step}，停止。")
    return lines
