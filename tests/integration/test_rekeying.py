"""A new key for what is beside the jobs: announcements, events, results; and what is left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from api_client.contract import JobStatus, Outcome, Pause
from api_client.live import LIVE_TTL_S
from api_client.rekeying import RekeyStore
from api_client.rekeying_jobs import Rekeyed
from api_client.rekeying_results import ResultKeys
from api_client.sealing import new_key
from tests.contract.acts import BROKEN, DONE, JOB, QUESTION, settle, submit, take
from tests.contract.worlds import MINUTE, RedisWorld, run_json
from tests.support.ciphers import UseKeys
from worker.celery_config import bare_app
from worker.cli import main
from worker.settings import Settings
from worker.store.base import Progress, Settlement, Ticket

OLD, NEW = new_key(), new_key()
BOTH = f"{NEW},{OLD}"


@pytest.fixture
def world(redis_url: str, encryption: UseKeys) -> Iterator[RedisWorld]:
    """A store that is empty, with the old key."""
    encryption(OLD)
    world = RedisWorld(redis_url)
    yield world
    world.close()


def announce(world: RedisWorld, job_id: str, told: Pause | Outcome) -> None:
    """Lead a job to where this is announced."""
    submit(world, job_id)
    held = take(world, job_id)
    if isinstance(told, Pause):
        settlement = Settlement(JobStatus.PAUSED, told, channels=("webhook",))
        ticket = Ticket(job_id, held.epoch, held.seq + 1)
        world.store.settle(ticket, Progress(run_json(1), "paused"), settlement)
        return
    settle(world, held, 1, JobStatus.SUCCEEDED if told.ok else JobStatus.FAILED, told)
    world.store.published(job_id, ("webhook",))


@pytest.mark.parametrize("before", ["", OLD], ids=["in the clear", "sealed"])
def test_announcements_that_wait_are_sealed_anew(
    world: RedisWorld, redis_url: str, encryption: UseKeys, before: str
) -> None:
    encryption(before)
    given: dict[str, Pause | Outcome] = {"asks": QUESTION, "done": DONE, "broken": BROKEN}
    for job_id, told in given.items():
        announce(world, job_id, told)
    world.client.delete(world._keys("done").job("done"))  # forgotten, and not delivered yet
    encryption(BOTH)
    store = RekeyStore.from_url(redis_url)
    assert store.rekey(dry_run=True).announcements == 3
    assert store.rekey().announcements == 3
    assert store.rekey().announcements == 0
    encryption(NEW, required=True)
    world.advance(MINUTE)
    posts = {post.job_id: post.payload for post in world.store.fetch_post(8, MINUTE)}
    assert Pause.model_validate_json(posts["asks"]) == QUESTION
    assert Outcome.model_validate_json(posts["done"]) == DONE
    assert Outcome.model_validate_json(posts["broken"]) == BROKEN


def test_announcements_that_are_forgotten_meanwhile_do_not_come_back(
    world: RedisWorld, redis_url: str
) -> None:
    store = RekeyStore.from_url(redis_url)
    key = world._keys(JOB).post_prefix + JOB
    store._run("rekey", [key], [1, "1:payload", "", "new", 0, ""])
    assert not world.client.exists(key)


@pytest.mark.parametrize("before", ["", OLD], ids=["in the clear", "sealed"])
def test_what_was_told_of_jobs_is_sealed_anew(
    world: RedisWorld, redis_url: str, encryption: UseKeys, before: str
) -> None:
    encryption(before)
    announce(world, "asks", QUESTION)
    submit(world)
    world.store.cancel(JOB, by="anna", note="sent twice")
    told, left = world.store.job_events(), world.client.pttl(world._keys(JOB).events)
    encryption(BOTH)
    store = RekeyStore.from_url(redis_url)
    assert (store.rekey(dry_run=True).events, store.rekey().events) == (1, 1)
    assert store.rekey().events == 0
    encryption(NEW, required=True)
    assert world.store.job_events() == told
    assert 0 < world.client.pttl(world._keys(JOB).events) <= left
    store._run("rekey_events", [world._keys(JOB).events], ["0-1", "{}", "gone"])
    assert world.store.job_events() == told


def test_a_live_stream_is_told_of_until_it_is_forgotten(
    world: RedisWorld, redis_url: str, encryption: UseKeys, capsys: pytest.CaptureFixture[str]
) -> None:
    for job_id in (JOB, "silent"):
        submit(world, job_id)
    held = take(world)
    world.store.emit(JOB, held.epoch, [{"step": 1, "kind": "text", "text": "a"}])
    encryption(BOTH)
    world.store.emit(JOB, held.epoch, [{"step": 1, "kind": "text", "text": "b"}])
    before = world._now()
    (left,) = RekeyStore.from_url(redis_url).rekey().remaining
    assert before + LIVE_TTL_S * 900 < left.until <= world._now() + LIVE_TTL_S * 1000
    assert main(["rekey", "--redis-url", redis_url]) == 0
    assert "left: live streams of 1 jobs" in capsys.readouterr().out
    world.client.delete(world._keys(JOB).live(JOB))
    world.store.emit(JOB, held.epoch, [{"step": 1, "kind": "text", "text": "c"}])
    assert RekeyStore.from_url(redis_url).rekey().remaining == []


# --- results --------------------------------------------------------------------------------------


class Results:
    """Celery's results of our own app."""

    def __init__(self, url: str) -> None:
        self.settings = Settings(redis_url=url)
        self.client: Any = self.backend.client

    @property
    def backend(self) -> Any:
        """As an app with the present keys has it."""
        return bare_app(self.settings).backend

    def store(self, task_id: str, value: str, *, plain: bool = False) -> None:
        """One that has ended."""
        meta = {"status": "SUCCESS", "result": value, "task_id": task_id, "children": []}
        text = json.dumps(meta) if plain else self.backend.encode(meta)
        self.client.set(self.backend.get_key_for_task(task_id), text, ex=1000)

    def gather(self, group: str, values: Sequence[str]) -> None:
        """What a chord has gathered so far."""
        members = {self.backend.encode([1, v, "SUCCESS", v]): n for n, v in enumerate(values)}
        self.client.zadd(self.backend.get_key_for_group(group, ".j"), members)
        self.client.set(self.backend.get_key_for_group(group, ".t"), "2")

    def gathered(self, group: str) -> list[str]:
        """The same, in the chord's order."""
        key = self.backend.get_key_for_group(group, ".j")
        return [self.backend.decode(item)[3] for item in self.client.zrange(key, 0, -1)]


@pytest.fixture
def results(redis_url: str, encryption: UseKeys) -> Iterator[Results]:
    """An empty backend, with the old key."""
    encryption(OLD)
    results = Results(redis_url)
    yield results
    results.client.close()


def rekeyed(results: Results, **how: Any) -> Rekeyed:
    """What becomes of all results."""
    found = Rekeyed()
    keys = ResultKeys(bare_app(results.settings), plain=how.pop("plain", False))
    keys.rekey(how.pop("job_ids", ()), 1_700_000_000_000, found, **how)
    return found


def test_results_are_sealed_anew(results: Results, encryption: UseKeys) -> None:
    results.store("t", "true")
    results.gather("g", ["a", "b", "c"])
    encryption(BOTH)
    assert rekeyed(results, dry_run=True).results == 2
    found = rekeyed(results)
    assert (found.results, found.unreadable, found.remaining) == (2, [], [])
    assert rekeyed(results).results == 0
    encryption(NEW, required=True)
    assert results.backend.get_result("t") == "true"
    assert results.gathered("g") == ["a", "b", "c"]
    assert 0 < results.client.ttl(results.backend.get_key_for_task("t")) <= 1000


def test_results_in_the_clear_are_sealed_if_their_app_is_named(
    results: Results, encryption: UseKeys
) -> None:
    results.store("t", "true", plain=True)
    encryption(NEW)
    found = rekeyed(results)
    assert found.results == 0
    (left,) = found.remaining
    assert left.what.startswith("1 results in the clear; --app")
    assert 0 < left.until - 1_700_000_000_000 <= 1_000_000
    assert (rekeyed(results, plain=True).results, rekeyed(results).remaining) == (1, [])
    encryption(NEW, required=True)
    assert results.backend.get_result("t") == "true"


def test_a_result_whose_key_is_gone_is_named(results: Results, encryption: UseKeys) -> None:
    results.store("t", "true")
    encryption(NEW)
    (told,) = rekeyed(results).unreadable
    assert told.startswith("result celery-task-meta-t: it cannot be read: it is encrypted with")


def test_who_may_not_look_for_results_is_told_so(results: Results, encryption: UseKeys) -> None:
    for task_id in ("of-a-job", "of-another-task"):
        results.store(task_id, "true")
    client = results.client
    client.acl_setuser(
        "narrow", enabled=True, passwords=["+pass"], keys=["*"], commands=["+@all", "-scan"]
    )
    try:
        url = results.settings.redis_url.replace("redis://", "redis://narrow:pass@")
        results.settings = Settings(redis_url=url)
        encryption(BOTH)
        found = rekeyed(results, job_ids=["of-a-job", "without-a-result"])
        assert found.results == 1
        (left,) = found.remaining
        assert "may not SCAN" in left.what
        assert left.until > 1_700_000_000_000
    finally:
        client.acl_deluser("narrow")


def test_another_backend_is_named_with_the_time_for_which_its_results_stay(
    redis_url: str, encryption: UseKeys, tmp_path: Any
) -> None:
    app = bare_app(Settings(redis_url=redis_url, result_backend=f"file://{tmp_path}"))
    found = Rekeyed()
    ResultKeys(app).rekey((), 1_700_000_000_000, found)
    (left,) = found.remaining
    assert left.what == "results in Celery's FilesystemBackend, which were not looked at"
    assert left.until == 1_700_000_000_000 + 30 * 24 * 3600 * 1000
