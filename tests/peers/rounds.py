"""Measuring all contenders in turns, so that whatever disturbs the machine disturbs each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.peers.contenders import Contender, ScriptFailed
from tests.peers.script import Figures, NotDone
from tests.peers.servers import PeerMissing, ServerFailed


@dataclass(slots=True)
class Found:
    """What was found of one contender.

    Attributes:
        samples: its figures, one a round.
        missing: why it cannot be measured here.
        failed: what went wrong; figures of such a contender are none.
    """

    contender: Contender
    samples: list[Figures] = field(default_factory=list)
    missing: str = ""
    failed: str = ""

    @property
    def why_not(self) -> str:
        """Why there are no figures; empty: there are."""
        return self.missing or self.failed


def measure_in_turns(
    contenders: Sequence[Contender], rounds: int, say: Callable[[str], None]
) -> list[Found]:
    """Measure each once a round, on an empty server; who cannot be measured is not tried again.

    Args:
        say: told in one line what is being measured, and what went wrong.
    """
    found = [Found(contender) for contender in contenders]
    for number in range(1, rounds + 1):
        for one in found:
            if not one.why_not:
                say(f"round {number} of {rounds}: {one.contender.name}")
                _measure(one, say)
    return found


def _measure(found: Found, say: Callable[[str], None]) -> None:
    try:
        found.samples.append(found.contender.measure(found.contender.asked))
    except PeerMissing as missing:
        found.missing = str(missing)
        say(found.missing)
    except (ServerFailed, ScriptFailed, NotDone) as error:
        found.failed = str(error)
        say(found.failed)
