"""What the OpenAPI says of every operation: its errors, its examples, its roles."""

from __future__ import annotations

from typing import Any

from worker.web.callers import Role
from worker.web.problems import MEDIA_TYPE, TITLES, TYPES, ProblemBody

DESCRIPTION = """\
Submit agent jobs, follow them, and decide for the people whom they wait for.

- Send the key as `Authorization: Bearer sk_…`. Each key has roles: `submit`, `review`, `operate`.
- Errors are `application/problem+json` (RFC 9457); go by the last part of `type`.
- Times are milliseconds since the epoch.
- A job of another label or tenant than the key's is answered like one that is not there.
"""

# The names of the problems that an operation can meet, by status.
_ALWAYS: dict[int, tuple[str, ...]] = {
    400: ("bad-request",),
    401: ("no-key",),
    403: ("not-allowed",),
    413: ("too-large",),
    422: ("invalid",),
    429: ("too-many",),
    431: ("head-too-large",),
    503: ("unavailable",),
}
_DETAILS = {
    "bad-request": "the body is not JSON",
    "no-key": "send an API key: Authorization: Bearer sk_…",
    "not-allowed": "key 'desk' has no role submit",
    "job-not-found": "no job 'x': it was never accepted here, or its retention has passed",
    "job-unreadable": "job x: its record cannot be read: spec: Invalid JSON",
    "not-paused": "job x is running, not paused; there is nothing to answer",
    "wrong-pause": "job x: pause 'p1' is not the open one; answer 'p2'",
    "already-answered": "this pause was answered by anna (approve) at 2026-03-01 09:12:44 UTC",
    "signal-refused": "job x: this pause takes no 'retry', but: approve, reject, finish",
    "conflict": "job x is running; cancel it first, then purge it",
    "too-large": "the body is larger than 4194304 bytes",
    "head-too-large": "address and headers: 20000 bytes, at most 16384 are allowed",
    "invalid": "body.agent: Field required",
    "key-reused": "the key came before with another body",
    "too-many": "this key has made its requests for now; the next one in 0.5 s",
    "storage-full": "tenant 'acme' holds 1.2 GB, and may hold 1 GB; purge jobs, or raise it",
    "backlog-full": "tenant 'acme': 5000 jobs wait already, and at most 5000 may",
    "unavailable": "cannot reach Redis at redis://127.0.0.1:6379/0 (connection refused)",
}
_MORE: dict[str, dict[str, Any]] = {
    "invalid": {"errors": [{"field": "body.agent", "detail": "Field required"}]},
    "already-answered": {
        "answered": {"pause_id": "p1", "by": "anna", "kind": "approve", "at": 1772356364000}
    },
}


POLICY: dict[str, Any] = {"weight": 3.0, "concurrency": 10, "backlog": 5000}
BACKLOG: dict[str, Any] = {"kind": "agent", "name": "shop", "cap": 500}
BACKLOGS = {"backlogs": [{**BACKLOG, "present": 12, "set_by": "command"}]}
TENANTS = {
    "tenants": [
        {
            "name": "acme",
            "policy": POLICY,
            "own": True,
            "running": 10,
            "ready": 812,
            "waiting": 3,
            "paused": 40,
            "steps": 5120,
        }
    ],
    "policies": {"*": {**POLICY, "weight": 1.0}},
}


def errors(*, job: bool = False, extra: dict[int, tuple[str, ...]] | None = None) -> dict[Any, Any]:
    """The error responses of one operation.

    Args:
        job: its path names a job, which may not be there.
        extra: problems of its own, by status, besides those that every operation can meet.
    """
    found = dict(_ALWAYS)
    if job:
        found[404] = ("job-not-found",)
        found[409] = ("job-unreadable",)
    for status, names in (extra or {}).items():
        found[status] = (*found.get(status, ()), *names)
    return {status: _response(status, names) for status, names in sorted(found.items())}


def _response(status: int, names: tuple[str, ...]) -> dict[str, Any]:
    examples = {name: {"summary": TITLES[name], "value": _example(status, name)} for name in names}
    described: dict[str, Any] = {
        "description": "; ".join(TITLES[name] for name in names),
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": f"#/components/schemas/{ProblemBody.model_config['title']}"},
                "examples": examples,
            }
        },
    }
    if status in (429, 503):
        schema = {"type": "string", "pattern": "^[0-9]+$"}
        text = "Seconds after which to try again."
        described["headers"] = {"Retry-After": {"description": text, "schema": schema}}
    return described


def _example(status: int, name: str) -> dict[str, Any]:
    return {
        "type": TYPES + name,
        "title": TITLES[name],
        "status": status,
        "detail": _DETAILS[name],
        **_MORE.get(name, {}),
    }


def answer(
    description: str, example: Any = None, *, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """A good response with an example.

    Args:
        headers: that it carries, with what each says.
    """
    found: dict[str, Any] = {"description": description}
    if example is not None:
        found["content"] = {"application/json": {"example": example}}
    if headers:
        found["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in headers.items()
        }
    return found


def for_roles(*roles: Role) -> dict[str, Any]:
    """What an operation's OpenAPI says of who may call it."""
    return {"x-roles": [str(role) for role in roles or tuple(Role)]}


def example_body(**examples: dict[str, Any]) -> dict[str, Any]:
    """Examples of a request's body, by name."""
    return {name: {"summary": name.replace("_", " "), "value": v} for name, v in examples.items()}


SUBMIT = example_body(
    a_text={"agent": "shop", "input": "The headphones of order 1187 are broken."},
    with_labels={
        "agent": "shop",
        "input": {"order": "1187", "wish": "refund"},
        "labels": ["support"],
        "metadata": {"customer": 17},
    },
)
SIGNALS = example_body(
    answer={"kind": "answer", "value": "Yes, up to 20 €.", "by": "anna"},
    approve={"kind": "approve", "by": "anna"},
    approve_with_changes={
        "kind": "approve",
        "arguments": {"order_id": "1187", "amount": 25.0},
        "by": "anna",
        "note": "half of it",
    },
    reject={"kind": "reject", "reason": "The order is too old.", "by": "anna"},
    extend={"kind": "extend", "amount": 10},
    finish={"kind": "finish", "answer": "We called the customer."},
    decide_several={
        "kind": "decide",
        "calls": {
            "call_1": {"approve": True},
            "call_2": {"approve": False, "reason": "The order is too old."},
        },
    },
    edit={"kind": "edit", "answers": {"call_2": "refunded by hand"}, "message": "Be brief."},
    retry={"kind": "retry"},
    happened={"kind": "happened", "result": "refund 4711"},
    did_not_happen={"kind": "did_not_happen"},
)
JOB = {
    "job_id": "6f1c0b9e-3b8f-4c39-9d0e-0d6d5a1f2c11",
    "agent": "shop",
    "status": "paused",
    "input": "The headphones of order 1187 are broken.",
    "tenant": "",
    "labels": ["support"],
    "parent": "",
    "children": [],
    "created": 1772356300000,
    "due": None,
    "steps": 2,
    "usage": {
        "prompt_tokens": 812,
        "completion_tokens": 60,
        "cached_tokens": 0,
        "estimated": False,
        "cost": None,
    },
    "active_ms": 2140,
    "granted": {},
    "worker": None,
    "tries": 0,
    "pause": {
        "id": "p1",
        "kind": "approval",
        "question": "May the agent run refund with these arguments?",
        "accepts": ["approve", "reject", "finish"],
        "action": {
            "call_id": "call_2",
            "tool": "refund",
            "arguments": {"order_id": "1187", "amount": 50.0},
        },
        "details": {},
        "step": 2,
        "labels": ["support"],
        "created": 1772356310000,
        "deadline": 1772442710000,
        "answer_schema": {
            "reject": {
                "type": "object",
                "properties": {
                    "kind": {"const": "reject"},
                    "reason": {"type": "string", "minLength": 1},
                },
                "required": ["kind", "reason"],
            }
        },
    },
    "answered": None,
    "outcome": None,
    "cancel_requested": False,
}
RESULT = {
    "job_id": JOB["job_id"],
    "status": "succeeded",
    "outcome": {"ok": True, "value": "refunded 25.00 for 1187", "reason": "", "text": ""},
}
MESSAGES = example_body(a_message={"text": "The customer has called again.", "by": "anna"})
MANY = example_body(
    try_it={
        "filter": {"agent": "shop", "kind": "model_error"},
        "signal": {"kind": "retry", "note": "the account has credit again"},
    },
    do_it={
        "filter": {"label": "support", "older_than_s": 86400},
        "signal": {"kind": "reject", "reason": "too late"},
        "dry_run": False,
    },
)
EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The offset to go on from."},
        "event": {"type": "string", "description": "The kind of the record; `end` is the last."},
        "data": {"type": "string", "description": "The record as JSON."},
    },
    "required": ["event", "data"],
}
"""One server-sent event."""

EVENT = {
    "id": "1772356310000-0",
    "event": "paused",
    "data": '{"id":"1772356310000-0","at":1772356310000,"kind":"paused","data":{"pause":"p1"}}',
}
