"""What a ledger of model calls promises, in memory and on Redis."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.ledgers import (
    HOLD,
    KEY,
    MINUTE,
    LedgerWorld,
    MemoryLedgerWorld,
    RedisLedgerWorld,
)
from worker.flow.base import KEPT_MS, Granted, Limit, TooLarge, Use, Wait


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest) -> Iterator[LedgerWorld]:
    """A ledger without a call, and its clock."""
    if request.param == "memory":
        yield MemoryLedgerWorld()
        return
    redis_world = RedisLedgerWorld(request.getfixturevalue("redis_url"))
    yield redis_world
    redis_world.close()


def test_requests_of_a_minute_are_granted_and_the_next_one_waits_for_the_first_to_be_past(
    world: LedgerWorld,
) -> None:
    limit = Limit(rpm=3)
    for number in range(3):
        world.granted(limit, f"c{number}")
        world.settle(f"c{number}")
    wait = world.ask(limit, "late")
    assert isinstance(wait, Wait)
    assert MINUTE - 1000 <= wait.ms <= MINUTE + 2000
    world.advance(wait.ms)
    world.granted(limit, "c4", job="late")


def test_no_call_is_forgotten_before_a_minute_is_over(world: LedgerWorld) -> None:
    limit = Limit(rpm=1)
    world.granted(limit, "a")
    for _ in range(60):
        assert isinstance(world.ask(limit, "b"), Wait)
        world.advance(1000)
    world.advance(1000)
    world.granted(limit, "c", job="b")


def test_tokens_are_reserved_and_settled(world: LedgerWorld) -> None:
    limit = Limit(tpm=1000)
    granted = world.granted(limit, "a", tokens=800)
    assert isinstance(world.ask(limit, "b", tokens=300), Wait)
    world.settle("a", granted.part, more=-500)
    assert world.ledger.use(KEY).tokens == 300
    world.granted(limit, "b1", job="b", tokens=300)


def test_what_was_used_beyond_the_reservation_counts(world: LedgerWorld) -> None:
    limit = Limit(tpm=1000)
    granted = world.granted(limit, "a", tokens=100)
    world.settle("a", granted.part, more=850)
    assert isinstance(world.ask(limit, "b", tokens=100), Wait)
    world.granted(limit, "c", tokens=50)


def test_calls_in_flight_are_places(world: LedgerWorld) -> None:
    limit = Limit(in_flight=2)
    world.granted(limit, "a")
    world.granted(limit, "b")
    wait = world.ask(limit, "waiting")
    assert isinstance(wait, Wait)
    world.settle("a")
    world.granted(limit, "c", job="waiting")
    assert isinstance(world.ask(limit), Wait)


def test_a_place_that_nobody_renews_is_free_again(world: LedgerWorld) -> None:
    limit = Limit(in_flight=1)
    world.granted(limit, "of a worker that dies")
    world.advance(HOLD - 5000)
    world.ledger.renew(KEY, ["of a worker that dies", "unknown"])
    world.advance(HOLD - 5000)
    assert isinstance(world.ask(limit, "next"), Wait)
    world.advance(6000)
    world.granted(limit, "c", job="next")
    assert world.ledger.use(KEY).in_flight == 1


def test_the_same_call_asked_again_is_granted_once(world: LedgerWorld) -> None:
    limit = Limit(rpm=1, in_flight=1)
    world.granted(limit, "a", job="j")
    world.granted(limit, "a", job="j")
    assert world.ledger.use(KEY).requests == 1


def test_the_same_settlement_again_changes_nothing(world: LedgerWorld) -> None:
    limit = Limit(tpm=1000, in_flight=1)
    part = world.granted(limit, "a", tokens=500).part
    for _ in range(2):
        world.settle("a", part, more=-100)
    assert world.ledger.use(KEY) == Use(requests=1, tokens=400)


def test_no_wait_helps_a_call_that_is_larger_than_the_minute(world: LedgerWorld) -> None:
    assert isinstance(world.ask(Limit(tpm=100), tokens=101), TooLarge)
    assert isinstance(world.ask(Limit(tpm=100), tokens=150), TooLarge)
    assert isinstance(world.ask(Limit(tpm=100), tokens=120), TooLarge)
    assert world.ledger.use(KEY).too_large == 150


def test_a_provider_closes_the_key_for_everybody(world: LedgerWorld) -> None:
    limit = Limit(rpm=100)
    world.granted(limit, "a")
    world.settle("a", close_ms=7000)
    world.settle("b", close_ms=2000)
    first, second = world.ask(limit, "j1"), world.ask(limit, "j2")
    assert isinstance(first, Wait)
    assert isinstance(second, Wait)
    assert first.closed
    assert 6000 <= first.ms < second.ms < 10_000
    world.advance(8000)
    world.granted(limit, "c", job="j1")


def test_everybody_who_waits_has_a_moment_of_its_own(world: LedgerWorld) -> None:
    limit = Limit(rpm=60)
    for number in range(60):
        world.granted(limit, f"c{number}")
    waits = [world.ask(limit, f"w{number}") for number in range(100)]
    moments = [wait.ms for wait in waits if isinstance(wait, Wait)]
    assert len(moments) == 100
    assert all(later - sooner >= 900 for sooner, later in pairwise(moments))


def test_tenants_take_turns(world: LedgerWorld) -> None:
    """One job of a tenant waits behind one of another's hundred, not behind all of them."""
    limit = Limit(rpm=1)
    world.granted(limit, "now")
    busy = [world.ask(limit, f"a{number}", tenant="a") for number in range(100)]
    other = world.ask(limit, "b0", tenant="b")
    assert isinstance(other, Wait)
    assert isinstance(busy[1], Wait)
    assert other.before <= 2
    assert other.ms <= 3 * MINUTE + 3000
    third = world.ask(limit, "a100", tenant="a")
    assert isinstance(third, Wait)
    assert third.before == 101


def test_whoever_is_there_first_may_not_take_the_share_of_one_that_is_expected(
    world: LedgerWorld,
) -> None:
    limit = Limit(rpm=1)
    world.granted(limit, "now")
    first = world.ask(limit, "first")
    assert isinstance(first, Wait)
    world.advance(first.ms)
    assert isinstance(world.ask(limit, "pushing"), Wait)
    world.granted(limit, "c", job="first")


def test_one_who_does_not_come_back_holds_nobody_up_for_long(world: LedgerWorld) -> None:
    limit = Limit(rpm=1)
    world.granted(limit, "now")
    gone = world.ask(limit, "gone")
    assert isinstance(gone, Wait)
    world.advance(gone.ms + 3000)
    world.granted(limit, "c", job="here")
    assert world.ledger.use(KEY).waiting == 1
    world.advance(KEPT_MS + MINUTE)
    world.granted(limit, "d", job="also here")
    assert world.ledger.use(KEY).waiting == 0


def test_a_late_one_keeps_its_turn(world: LedgerWorld) -> None:
    limit = Limit(rpm=1)
    world.granted(limit, "now")
    late = world.ask(limit, "late")
    assert isinstance(late, Wait)
    world.ask(limit, "behind it")
    world.advance(late.ms + 10_000)
    world.granted(limit, "c", job="late")


def test_one_who_withdraws_is_waited_for_no_more(world: LedgerWorld) -> None:
    limit = Limit(rpm=1)
    world.granted(limit, "now")
    world.ask(limit, "gone")
    world.ledger.withdraw(KEY, "gone")
    world.ledger.withdraw(KEY, "gone")
    wait = world.ask(limit, "next")
    assert isinstance(wait, Wait)
    assert wait.before == 0
    assert world.ledger.use(KEY).waiting == 1


def test_limits_are_kept(world: LedgerWorld) -> None:
    ledger = world.ledger
    assert ledger.limits() == {}
    assert ledger.set_limit(KEY, Limit(rpm=5)) is False
    assert ledger.set_limit(KEY, Limit(tpm=7)) is True
    assert ledger.set_limit("other", Limit(in_flight=1)) is False
    assert ledger.limits() == {KEY: Limit(tpm=7), "other": Limit(in_flight=1)}
    assert ledger.set_limit(KEY, None) is True
    assert ledger.set_limit(KEY, None) is False
    assert list(ledger.limits()) == ["other"]


# --- whatever happens ------------------------------------------------------------------------

_ACTS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "settle", "die", "wait", "long"]),
        st.integers(0, 9),
        st.integers(0, 60),
    ),
    max_size=60,
)


def _live(world: LedgerWorld, limit: Limit, acts: list[tuple[str, int, int]]) -> None:
    """Do as the acts say, and check every minute and every moment that has been."""
    grants: list[tuple[int, int]] = []
    flying: dict[str, int] = {}
    for number, (act, who, amount) in enumerate(acts):
        if act == "ask":
            call = f"call-{number}"
            verdict = world.ask(limit, f"j{who}", tenant=f"t{who % 3}", tokens=amount, call=call)
            if isinstance(verdict, Granted):
                grants.append((world.moved, amount))
                flying[call] = world.moved + HOLD
        elif act == "settle" and flying:
            call = list(flying)[who % len(flying)]
            del flying[call]
            world.settle(call)
        elif act == "wait":
            world.advance(amount * 100)
        elif act == "long":
            world.advance(amount * 1000)
        flying = {call: until for call, until in flying.items() if until > world.moved}
        assert len(flying) <= (limit.in_flight or 1000)
    for begin, _ in grants:
        minute = [tokens for at, tokens in grants if begin <= at < begin + MINUTE]
        assert len(minute) <= (limit.rpm or 1000)
        assert sum(minute) <= (limit.tpm or 10**6)


_LIMITS = st.sampled_from(
    [
        Limit(rpm=4),
        Limit(tpm=100),
        Limit(in_flight=2),
        Limit(rpm=6, tpm=120, in_flight=3),
        Limit(rpm=1, in_flight=1),
    ]
)


@settings(max_examples=300, deadline=None)
@given(limit=_LIMITS, acts=_ACTS)
def test_no_minute_has_more_than_the_limit_in_memory(
    limit: Limit, acts: list[tuple[str, int, int]]
) -> None:
    _live(MemoryLedgerWorld(), limit, acts)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(limit=_LIMITS, acts=_ACTS)
def test_no_minute_has_more_than_the_limit_on_redis(
    redis_url: str, limit: Limit, acts: list[tuple[str, int, int]]
) -> None:
    world = RedisLedgerWorld(redis_url)
    world.client.flushall()
    _live(world, limit, acts)
    world.close()


@settings(max_examples=30, deadline=None)
@given(acts=_ACTS, limit=_LIMITS)
def test_after_a_while_a_key_is_as_new(limit: Limit, acts: list[tuple[str, int, int]]) -> None:
    world = MemoryLedgerWorld()
    _live(world, limit, acts)
    world.advance(20 * MINUTE)
    world.granted(limit, "anew", tokens=50)
    use = world.ledger.use(KEY)
    assert (use.requests, use.tokens, use.in_flight, use.waiting) == (1, 50, 1, 0)
