"""Whose turn it is, in memory: the same choices as ``shared/turns.lua`` makes on Redis.

A pure structure that knows neither stores nor clocks, so that a simulation can drive it as well.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from api_client.tenants import DEFAULT_POLICY, EVERY_TENANT, TenantPolicy
from api_client.tenants import RANKS as RANKS

HINT_MS = 5_000
"""Time to give a hint before a sweep sends another."""

UNCLAIMED_MS = 30_000
"""A hint that nobody has taken up for so long, while slots are idle, leaves the window."""

_PRIORITY_STEP = 10**13

Turn = Literal["", "ready", "hinted", "running", "loose"]


@dataclass(slots=True)
class Place:
    """Where a job with a tenant stands; see ``shared/turns.lua``.

    Attributes:
        queue: that it was sent to; empty if it was sent to its agent's own.
        created: in milliseconds; with the rank it orders a tenant's jobs.
    """

    job_id: str
    tenant: str
    agent: str
    queue: str = ""
    rank: int = RANKS["normal"]
    created: int = 0
    turn: Turn = ""
    lane: str = ""

    @property
    def order(self) -> tuple[int, bytes]:
        """Less is earlier."""
        return self.rank * _PRIORITY_STEP + self.created, self.job_id.encode()


@dataclass(slots=True)
class _Lane:
    """A queue for which tenants take turns.

    Attributes:
        time: the tag of the last turn; who comes anew begins here.
        tags: the time at which each tenant's next turn is.
        fair: tenants that have jobs waiting and may start one.
        parked: tenants that have jobs waiting and are at their limit.
        hinted: jobs in the window, of which tenant, and since when.
    """

    time: float = 0.0
    busy: int = 0
    tags: dict[str, float] = field(default_factory=dict)
    fair: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    hinted: dict[str, tuple[str, int]] = field(default_factory=dict)
    ready: dict[str, list[tuple[tuple[int, bytes], Place]]] = field(default_factory=dict)

    def first(self) -> str | None:
        """The tenant whose turn is next."""
        if not self.fair:
            return None
        return min(self.fair, key=lambda tenant: (self.tags[tenant], tenant.encode()))

    def others_wait(self, tenant: str) -> bool:
        """Whether tenants other than this one wait."""
        return len(self.fair) > (tenant in self.fair)

    def others_are_hinted(self, tenant: str) -> bool:
        """Whether jobs of tenants other than this one stand in the window."""
        return any(other != tenant for other, _ in self.hinted.values())

    def join(self, tenant: str) -> None:
        """The tenant waits, from the lane's own time on if it comes anew."""
        self.tags[tenant] = max(self.tags.get(tenant, self.time), self.time)
        self.fair.add(tenant)

    @property
    def idle(self) -> bool:
        """Whether nobody waits or runs here."""
        return not (self.ready or self.hinted or self.busy)


class Turns:
    """The turns of all tenants in all lanes of one store."""

    def __init__(self) -> None:
        self.policies: dict[str, TenantPolicy] = {}
        self.slots: dict[str, int] = {}
        self.agents: dict[str, str] = {}
        self.busy: Counter[tuple[str, str]] = Counter()
        """Jobs of a tenant that are hinted or running."""
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)

    def policy(self, tenant: str) -> TenantPolicy:
        """What a tenant may have."""
        return self.policies.get(tenant) or self.policies.get(EVERY_TENANT) or DEFAULT_POLICY

    def _at_its_limit(self, tenant: str) -> bool:
        limit = self.policy(tenant).concurrency
        return limit is not None and self.busy[tenant, "hinted"] + self.running(tenant) >= limit

    def running(self, tenant: str) -> int:
        """How many jobs of a tenant run."""
        return self.busy[tenant, "running"]

    def window(self, lane: str) -> int:
        """How many jobs a lane's window holds at most."""
        return 1 + math.ceil(math.sqrt(self.slots.get(lane, 1)))

    def set_policy(self, name: str, policy: TenantPolicy | None) -> None:
        """Say what a tenant may have; it holds from the next turn on."""
        if policy is None:
            self.policies.pop(name, None)
        else:
            self.policies[name] = policy
        for lane in self._lanes.values():
            for tenant in [*lane.parked] if name == EVERY_TENANT else [name]:
                self._unpark_in(lane, tenant)

    # --- moving ------------------------------------------------------------------------------

    def _lane_of(self, place: Place) -> str:
        """The lane to which a job belongs, by what workers have announced."""
        own = self.agents.get(place.agent)
        return f"agent:{place.agent}" if own is None else place.queue or own

    def line_up(self, place: Place) -> None:
        """Let a job that could run wait for its turn."""
        place.lane, place.turn = self._lane_of(place), "ready"
        lane = self._lanes[place.lane]
        insort(lane.ready.setdefault(place.tenant, []), (place.order, place))
        if place.tenant not in lane.fair:
            lane.join(place.tenant)

    def step_out(self, place: Place) -> None:
        """Give up the place that a job has, whichever it is."""
        turn, lane = place.turn, self._lanes[place.lane] if place.turn else None
        place.turn = ""
        if lane is None:
            return
        if turn == "ready":
            self._leave_list(lane, place)
        elif turn == "hinted":
            del lane.hinted[place.job_id]
            self.busy[place.tenant, "hinted"] -= 1
            self._charge(place, -1)
            self._unpark(place.tenant)
        elif turn == "running":
            lane.busy -= 1
            self.busy[place.tenant, "running"] -= 1
            self._unpark(place.tenant)

    def _leave_list(self, lane: _Lane, place: Place) -> None:
        waiting = lane.ready[place.tenant]
        waiting.remove((place.order, place))
        if not waiting:
            del lane.ready[place.tenant]
            lane.fair.discard(place.tenant)
            lane.parked.discard(place.tenant)

    def _unpark(self, tenant: str) -> None:
        for lane in self._lanes.values():
            self._unpark_in(lane, tenant)

    def _unpark_in(self, lane: _Lane, tenant: str) -> None:
        if tenant in lane.parked:
            lane.parked.discard(tenant)
            lane.join(tenant)

    def _charge(self, place: Place, steps: int) -> None:
        weight = self.policy(place.tenant).weight
        self._lanes[place.lane].tags[place.tenant] += steps / weight

    def charge_slice(self, place: Place, steps: int) -> None:
        """A slice is over: what it has used, beside the one step that was paid in advance."""
        if place.turn:
            self._charge(place, steps - 1 if place.turn == "running" else steps)

    def fill_window(self, name: str, now: int, only: Place | None = None) -> list[Place]:
        """The jobs whose turn has come; they stand in the window from now on.

        Args:
            only: nobody's turn comes but that job's.
        """
        lane, found = self._lanes[name], []
        while len(lane.hinted) < self.window(name) and (tenant := lane.first()) is not None:
            if self._at_its_limit(tenant):
                lane.fair.discard(tenant)
                lane.parked.add(tenant)
                continue
            place = lane.ready[tenant][0][1]
            if only is not None and place is not only:
                break
            if self._lane_of(place) != name:
                self.step_out(place)
                self.line_up(place)
                continue
            self._into_window(place, name, now)
            found.append(place)
        return found

    def _into_window(self, place: Place, name: str, now: int) -> None:
        lane = self._lanes[name]
        lane.time = max(lane.time, lane.tags[place.tenant])
        self.step_out(place)
        self._charge(place, 1)
        lane.hinted[place.job_id] = place.tenant, now
        self.busy[place.tenant, "hinted"] += 1
        place.turn = "hinted"

    def has_turn(self, place: Place, now: int) -> tuple[bool, list[Place]]:
        """A message has come for a job: whether it may run now, and which jobs are to be hinted."""
        if place.turn == "hinted":
            return True, []
        if place.turn != "ready":
            self.step_out(place)
            self.line_up(place)
        if self._alone(place):
            return True, []
        return False, self.fill_window(place.lane, now)

    def _alone(self, place: Place) -> bool:
        """Whether no other tenant waits or is hinted, and this one may start a job."""
        lane, tenant = self._lanes[place.lane], place.tenant
        others = lane.others_wait(tenant) or lane.others_are_hinted(tenant)
        return not others and not self._at_its_limit(tenant)

    def take_turn(self, place: Place) -> None:
        """The job runs from now on."""
        lane = self._lanes[place.lane]
        if place.turn == "hinted":
            del lane.hinted[place.job_id]
            self.busy[place.tenant, "hinted"] -= 1
        else:
            self.step_out(place)
            self._charge(place, 1)
        lane.busy += 1
        self.busy[place.tenant, "running"] += 1
        place.turn = "running"

    def retake_turn(self, place: Place) -> None:
        """The runner of a job that was taken for dead lives: the job runs after all."""
        self.step_out(place)
        self.line_up(place)
        self.take_turn(place)

    def others_wait(self, place: Place) -> bool:
        """Whether tenants other than the job's wait in its lane: for their turn, or for a slot."""
        lane = self._lanes[place.lane]
        if lane.others_wait(place.tenant):
            return True
        return lane.others_are_hinted(place.tenant) and lane.busy >= self.slots.get(place.lane, 0)

    # --- sweeping ----------------------------------------------------------------------------

    def lanes(self) -> Iterator[str]:
        """Lanes in which somebody waits or runs."""
        yield from list(self._lanes)

    def unclaimed(self, name: str, now: int) -> list[str]:
        """Ids of jobs that nobody claims, though slots are idle and others wait."""
        lane = self._lanes[name]
        if not lane.ready or lane.busy >= self.slots.get(name, 0):
            return []
        return [job for job, (_, since) in lane.hinted.items() if since <= now - UNCLAIMED_MS]

    def loosen(self, place: Place) -> None:
        """Take a job out of the window that is to be hinted on without one."""
        self.step_out(place)
        place.turn = "loose"

    def tidy(self, name: str) -> None:
        """Forget what makes no difference any more."""
        lane = self._lanes[name]
        if lane.idle:
            del self._lanes[name]
            return
        here = {tenant for (tenant, _), number in self.busy.items() if number}
        waiting = {tenant for other in self._lanes.values() for tenant in other.ready}
        behind = [tenant for tenant, tag in lane.tags.items() if tag <= lane.time]
        for tenant in set(behind) - here - waiting:
            del lane.tags[tenant]
