"""What a benchmark is asked to do."""

from __future__ import annotations

from dataclasses import dataclass

from api_client.errors import InvalidInput

REPEAT = 5
QUICK_REPEAT = 3


@dataclass(frozen=True, slots=True)
class Options:
    """One run of the benchmark.

    Attributes:
        quick: smaller sizes, so that each part ends within 40 seconds.
        repeat: samples of each figure; by default 5, or 3 in a quick run.
    """

    quick: bool = False
    repeat: int | None = None

    def __post_init__(self) -> None:
        if self.repeat is not None and self.repeat < 1:
            raise InvalidInput(f"repeat={self.repeat}: must be at least 1")

    @property
    def samples(self) -> int:
        """How often each thing is measured."""
        return self.repeat or (QUICK_REPEAT if self.quick else REPEAT)
