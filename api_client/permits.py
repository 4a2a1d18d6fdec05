"""What a Redis user may do to jobs, as names of keys that nothing ever writes.

Redis checks a user's permissions for every key that a script is called with, before the script
begins. So each script whose caller matters is also given the key of its act, such as
``{sk:0}:may:signal``, and does nothing with it: a user whose ACL lacks that key is refused, and
nothing has changed. ``deploy/redis/users.acl`` says who has which.

This keeps apart programs that use this package as it is. A user who may write a record can still
write it by plain commands: see ``docs/deployment.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

ACTS = {
    "create": "submit",
    "cancel": "cancel",
    "signal": "signal",
    "message": "tell",
    "halt": "tell",
    "fork": "operate",
    "purge": "operate",
    "policy": "operate",
    "cap": "operate",
    "rekey": "operate",
    "rekey_events": "operate",
    "claim": "run",
    "sweep": "run",
    "abandon": "run",
    "excuse": "run",
    "published": "run",
    "pace": "run",
    "slots": "run",
}
"""The act of each script. What needs a lease, such as a commit, needs a claim before it."""


def act_of(script: str) -> str:
    """What a script does to jobs; empty for one that is open to whoever may use its keys."""
    return ACTS.get(script, "")


def with_permit(script: str, keys: Sequence[str]) -> Sequence[str]:
    """A script's keys, and behind them that of its act, in the same slot."""
    act = act_of(script)
    return [*keys, permit(keys[0].partition("}")[0] + "}:", act)] if act else keys


def permit(prefix: str, act: str) -> str:
    """The key that stands for an act in one partition, whose keys begin with ``prefix``."""
    return f"{prefix}may:{act}"
