"""The helper threads: used again, counted when left behind, bounded, fresh after a fork."""

import asyncio
import contextvars
import functools
import multiprocessing
import threading
import time
from typing import Any

import pytest

from worker.tools.threads import Crew, TimedOut, TooManyLeftBehind, crew


def context() -> contextvars.Context:
    return contextvars.copy_context()


def test_one_thread_serves_call_after_call() -> None:
    own = Crew()
    threads = {own.run(threading.get_ident, context(), 10).value for _ in range(50)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_calls_at_the_same_time_have_threads_of_their_own() -> None:
    own, meet, found = Crew(), threading.Barrier(5, timeout=10), []

    def call() -> int:
        meet.wait()
        return threading.get_ident()

    def caller() -> None:
        found.append(own.run(call, context(), 10).value)

    callers = [threading.Thread(target=caller) for _ in range(5)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert len(set(found)) == 5


def test_d2_leftover_threads_are_counted_and_bounded() -> None:
    own, release = Crew(most_left_behind=2), threading.Event()
    for number in (1, 2):
        with pytest.raises(TimedOut):
            own.run(release.wait, context(), 0.01)
        assert own.left_behind == number
    with pytest.raises(TooManyLeftBehind) as refused:
        own.run(lambda: 1, context(), 10)
    assert refused.value.count == 2
    release.set()
    wait_until(lambda: own.left_behind == 0)
    assert own.run(lambda: 1, context(), 10).value == 1


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def test_the_model_is_told_when_too_many_are_left_behind(run: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("worker.tools.threads._crew", Crew(most_left_behind=0))

    def sync() -> None: ...
    async def later() -> None: ...

    for function in (sync, later):
        seen = run(function)
        assert seen.error
        assert "was not begun" in seen.content


def test_an_async_call_that_ignores_its_cancellation_is_left_behind() -> None:
    own, release = Crew(cancel_seconds=0.05), threading.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    with pytest.raises(TimedOut):
        own.run_async(stubborn, context(), 0.01)
    assert own.left_behind == 1
    release.set()
    wait_until(lambda: own.left_behind == 0)


def test_an_async_call_that_blocks_its_loop_does_not_block_the_next() -> None:
    own, release = Crew(cancel_seconds=0.05), threading.Event()

    async def blocking() -> None:
        release.wait()

    async def good() -> str:
        return "fine"

    with pytest.raises(TimedOut):
        own.run_async(blocking, context(), 0.01)
    assert own.run_async(good, context(), 10).value == "fine"
    release.set()
    wait_until(lambda: own.left_behind == 0)


def test_an_async_call_that_had_no_turn_is_cancelled_before_it_begins() -> None:
    own, release, begun = Crew(), threading.Event(), []

    async def blocking() -> None:
        release.wait()

    async def never() -> None:
        begun.append(True)

    blocked = threading.Thread(target=lambda: own.run_async(blocking, context(), 30))
    blocked.start()
    wait_until(lambda: own._loop is not None and not own._loop.responds(0.05))
    threading.Timer(0.3, release.set).start()
    with pytest.raises(TimedOut):
        own.run_async(never, context(), 0.01)
    blocked.join()
    assert own.left_behind == 0
    assert begun == []


def test_calls_on_the_loop_run_side_by_side_and_share_it() -> None:
    own = Crew()
    loops = {own.run_async(_running_loop, context(), 10).value for _ in range(5)}
    assert len(loops) == 1


async def _running_loop() -> int:
    return id(asyncio.get_running_loop())


def _call_in_child(answer: Any) -> None:
    answer.put(crew().run(lambda: "from the child", context(), 10).value)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own() -> None:
    assert crew().run(lambda: 1, context(), 10).value == 1
    forking = multiprocessing.get_context("fork")
    answer = forking.SimpleQueue()
    child = forking.Process(target=_call_in_child, args=(answer,))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert answer.get() == "from the child"


def test_a_finished_call_keeps_nothing_alive() -> None:
    import gc
    import weakref

    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    own = Crew()
    own.run(functools.partial(str, thing), context(), 10)
    del thing
    wait_until(lambda: gc.collect() >= 0 and gone() is None)
