"""Reading a list from its indexes, without looking at jobs that do not belong to the page.

Every condition is an index of its own. The smallest of those that a job must stand in is walked,
and membership in the others is asked for by the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from api_client.connection import Client
from api_client.keys import Keys
from api_client.lists import JobFilter, ListName, Place, status_of

CHUNK = 500
MAX_LOOKED_AT = 20_000
"""Entries of indexes that one page walks over at most; behind them it ends early."""

Entry = tuple[Place, Keys]


class Walk:
    """One walk through a list.

    Args:
        name: of the list.
        latest: only jobs that stand in the list since this time (ms) or longer.
        order: ``oldest``, ``newest``, or another index of the list that is to be walked.
    """

    def __init__(
        self,
        client: Client,
        partitions: Sequence[Keys],
        name: ListName,
        chosen: JobFilter,
        order: str,
        latest: float | None = None,
    ) -> None:
        self._redis = client
        self._partitions = partitions
        self._name = name
        self._order = order
        self._by_time = order in ("oldest", "newest")
        self._backwards = order == "newest"
        self._latest = latest
        self._facets = chosen.facets
        self._any_of = chosen.any_of

    # --- counting --------------------------------------------------------------------------

    def total(self) -> int:
        """How many there are at most."""
        cards = self._cards([*self._facets, *self._any_of, ""])
        limits = [cards[name] for name in (*self._facets, "")]
        if self._any_of:
            limits.append(sum(cards[name] for name in self._any_of))
        return min(limits)

    def _cards(self, facets: Sequence[str]) -> dict[str, int]:
        """How many jobs stand in each index; the empty name is that of the whole list."""
        pipeline = self._redis.pipeline(transaction=False)
        for facet in facets:
            for keys in self._partitions:
                pipeline.zcard(self._index(keys, facet))
        counts = pipeline.execute()
        width = len(self._partitions)
        return {facet: sum(counts[i * width : (i + 1) * width]) for i, facet in enumerate(facets)}

    # --- walking ---------------------------------------------------------------------------

    def page(self, limit: int, after: Place | None) -> tuple[list[Entry], Place | None]:
        """The next jobs, and the place behind which there may be more."""
        found: list[Entry] = []
        entries = self._entries(after)
        last = None
        for _ in range(0, MAX_LOOKED_AT, CHUNK):
            batch = list(islice(entries, CHUNK))
            found += self._fitting(batch)
            if len(found) > limit:
                return found[:limit], found[limit - 1][0]
            if len(batch) < CHUNK:
                return found, None
            last = batch[-1][0]
        return found, last

    def _entries(self, after: Place | None) -> Iterator[Entry]:
        """Entries of the index that is walked, over all partitions, each job once."""
        walks = [
            self._walk(keys, self._index(keys, facet), after)
            for keys in self._partitions
            for facet in self._walked()
        ]
        before = None
        for entry in merge(*walks, key=lambda entry: entry[0], reverse=self._backwards):
            if entry[0] != before:
                yield entry
            before = entry[0]

    def _walked(self) -> list[str]:
        if not self._by_time:
            return [self._order]
        choices = [[""], *([facet] for facet in self._facets)]
        if self._any_of:
            choices.append(self._any_of)
        if len(choices) == 1:
            return [""]
        cards = self._cards([facet for choice in choices for facet in choice])
        return min(choices, key=lambda choice: sum(cards[facet] for facet in choice))

    def _walk(self, keys: Keys, name: str, after: Place | None) -> Iterator[Entry]:
        """One index, from a place on."""
        place, offset = after, 0
        while True:
            raw = self._read(name, place, offset)
            fresh = [entry for entry in raw if place is None or self._is_behind(entry, place)]
            yield from ((entry, keys) for entry in fresh)
            if len(raw) < CHUNK:
                return
            offset = _next_offset(raw, place, offset)
            place = raw[-1] if fresh else place

    def _is_behind(self, entry: Place, place: Place) -> bool:
        return entry < place if self._backwards else entry > place

    def _read(self, name: str, place: Place | None, offset: int) -> list[Place]:
        low, high = "-inf", "+inf"
        if self._latest is not None and self._by_time:
            high = repr(self._latest)
        if place is not None and self._backwards:
            high = repr(min(place.score, float(high)))
        elif place is not None:
            low = repr(place.score)
        ends = (high, low) if self._backwards else (low, high)
        found = self._redis.zrange(
            name, *ends, desc=self._backwards, byscore=True, offset=offset, num=CHUNK,
            withscores=True,
        )  # fmt: skip
        return [Place(score, job_id.decode()) for job_id, score in found]

    def _index(self, keys: Keys, facet: str) -> str:
        if not facet:
            return keys.index_prefix + self._name
        return keys.facet(status_of(self._name), facet)

    # --- choosing --------------------------------------------------------------------------

    def _fitting(self, batch: Sequence[Entry]) -> list[Entry]:
        """Those of a batch that stand in all indexes that they must stand in."""
        needed = ["", *self._facets, *self._any_of]
        if not batch or (needed == [""] and self._by_time):
            return list(batch)
        by_keys: dict[int, list[str]] = {}
        for place, keys in batch:
            by_keys.setdefault(keys.partition, []).append(place.job_id)
        scores = self._scores(by_keys, needed)
        return [entry for entry in batch if self._fits(scores, entry[0].job_id)]

    def _scores(
        self, by_keys: Mapping[int, Sequence[str]], facets: Sequence[str]
    ) -> dict[tuple[str, str], float]:
        """The times of jobs in indexes, by index and job."""
        asked = [(number, facet) for number in by_keys for facet in facets]
        pipeline = self._redis.pipeline(transaction=False)
        for number, facet in asked:
            keys = next(keys for keys in self._partitions if keys.partition == number)
            pipeline.zmscore(self._index(keys, facet), by_keys[number])
        scores: dict[tuple[str, str], float] = {}
        for (number, facet), reply in zip(asked, pipeline.execute(), strict=True):
            for job_id, score in zip(by_keys[number], reply, strict=True):
                if score is not None:
                    scores[facet, job_id] = score
        return scores

    def _fits(self, scores: Mapping[tuple[str, str], float], job_id: str) -> bool:
        since = scores.get(("", job_id))
        if since is None or (self._latest is not None and since > self._latest):
            return False
        if any((facet, job_id) not in scores for facet in self._facets):
            return False
        return not self._any_of or any((facet, job_id) in scores for facet in self._any_of)


def _next_offset(raw: Sequence[Place], place: Place | None, offset: int) -> int:
    """How many entries to leave out next: those of one millisecond may fill more than a chunk."""
    if raw[0].score != raw[-1].score:
        return 0
    goes_on = place is not None and place.score == raw[0].score
    return offset + CHUNK if goes_on else CHUNK
