"""One decision about many pauses: choose, try, read what each would say, do it.

What is done is done to the pauses that the try has shown, each by its id, and to no others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from api_client.contract import SIGNAL, Signal
from api_client.deciding import ManyItem, ManyReport
from api_client.errors import StepkeeperError, StoreUnavailable
from worker.web.callers import Role
from worker.web.console.filters import InboxChoice, InboxChoiceHere
from worker.web.console.forms import Problems, one_field, read_field
from worker.web.console.lists import choices
from worker.web.console.templates import page
from worker.web.console.visitors import ActingHere, Visitor, VisitorHere
from worker.web.problems import Problem

router = APIRouter(include_in_schema=False)

MOST = 100
"""Jobs that are decided in one go."""

VALUES: Mapping[str, str] = {
    "approve": "",
    "reject": "reason",
    "answer": "value",
    "extend": "amount",
    "retry": "",
    "did_not_happen": "",
    "finish": "answer",
    "fail": "reason",
    "cancel": "",
}
"""The signals that make sense for many jobs, and what their value is called."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be done, as it was typed."""

    kind: str = ""
    value: str = ""
    note: str = ""

    def signal(self, by: str) -> Signal:
        """The decision.

        Raises:
            Problems: no such kind, or a value that is missing or none of its kind.
        """
        if self.kind not in VALUES:
            raise Problems({"kind": ("error_choice", {})})
        fields: dict[str, Any] = {"kind": self.kind, "note": self.note, "by": by}
        if name := VALUES[self.kind]:
            fields[name] = self._typed()
        try:
            return SIGNAL.validate_python(fields)
        except ValidationError as error:
            texts = "; ".join(str(item["msg"]) for item in error.errors())
            raise Problems({"value": ("error_value", {"text": texts})}) from None

    def _typed(self) -> Any:
        if not self.value.strip():
            raise Problems({"value": ("error_missing", {})})
        if self.kind != "extend":
            return self.value
        return read_field(one_field({"type": "number"}, "value", "value"), {"value": self.value})


@router.get("/bulk")
def bulk(request: Request, visitor: VisitorHere, chosen: InboxChoiceHere) -> Response:
    """The form: which jobs, and what is to be done."""
    visitor.desk.needs(Role.REVIEW)
    return _page(request, visitor, chosen)


@router.post("/bulk")
def act(request: Request, acting: ActingHere) -> Response:
    """Try a decision, or make it about what a try has shown."""
    visitor, form = acting
    chosen = InboxChoice(**{name: form.get(name, "") for name in InboxChoice.FIELDS})
    value = form.get("value", "").replace("\r\n", "\n")
    wish = Wish(form.get("signal", ""), value, form.get("note", ""))
    try:
        signal = wish.signal(visitor.session.name)
        if form.get("do") == "yes":
            report = _done(visitor, signal, _shown(form), form.get("once", ""))
        else:
            report = visitor.desk.decide_many(chosen.wanted(), signal, dry_run=True, limit=MOST)
    except Problems as error:
        return _page(request, visitor, chosen, wish, problems=error.found, code=422)
    except Problem as error:
        return _page(request, visitor, chosen, wish, refusal=error.detail, code=error.status)
    return _page(request, visitor, chosen, wish, report=report)


def _shown(form: Mapping[str, str]) -> list[tuple[str, str]]:
    """The pauses that a try has shown: of which job, and which one.

    Raises:
        Problem: 422, that is not what the form has carried.
    """
    try:
        found = [(str(job), str(pause)) for job, pause in json.loads(form.get("shown", ""))]
    except (ValueError, TypeError):
        raise Problem(422, "invalid", "the form is not whole; try it again") from None
    return found[:MOST]


def _done(
    visitor: Visitor, signal: Signal, shown: Sequence[tuple[str, str]], once: str
) -> ManyReport:
    """Decide each; what one says does not keep the others."""
    items = []
    for job_id, pause_id in shown:
        error = ""
        try:
            visitor.desk.decide(job_id, signal, pause_id=pause_id, signal_id=once or None)
        except StoreUnavailable:
            raise
        except (StepkeeperError, Problem) as refused:
            error = refused.detail if isinstance(refused, Problem) else str(refused)
        items.append(ManyItem(job_id, pause_id, done=not error, error=error))
    return ManyReport(tuple(items), dry_run=False)


def _page(
    request: Request,
    visitor: Visitor,
    chosen: InboxChoice,
    wish: Wish | None = None,
    *,
    report: ManyReport | None = None,
    problems: Mapping[str, tuple[str, dict[str, str]]] | None = None,
    refusal: str = "",
    code: int = 200,
) -> Response:
    """The form, and what became of it."""
    found = visitor.desk.inbox(chosen.wanted(), limit=1)
    taken = [] if report is None else [item for item in report.items if item.done]
    return page(
        request,
        visitor,
        "bulk.html",
        code=code,
        chosen=chosen,
        total=found.total,
        most=MOST,
        signals=tuple(VALUES),
        wish=wish or Wish(),
        report=report,
        shown=json.dumps([(item.job_id, item.pause_id) for item in taken]),
        problems=problems or {},
        refusal=refusal,
        **choices(visitor, found.items),
    )
