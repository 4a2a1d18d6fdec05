"""Jobs on an encrypted store whose keys are missing, changed or swapped: named, and never lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api_client.contract import Answer, JobStatus, Mail, Outcome
from api_client.errors import InvalidInput, JobUnreadable
from api_client.rekeying import RekeyStore
from api_client.sealing import new_key
from tests.contract.acts import answer, bring_to, claim, commit, publish, settle, submit, take
from tests.contract.worlds import MINUTE, RedisWorld
from tests.support.ciphers import UseKeys
from worker.cli import main
from worker.store.base import NotClaimed

SETTING = "STEPKEEPER_ENCRYPTION_KEYS"
OLD, NEW = new_key(), new_key()


@pytest.fixture
def world(redis_url: str, encryption: UseKeys) -> Iterator[RedisWorld]:
    """A store that is empty."""
    encryption(OLD)
    world = RedisWorld(redis_url)
    yield world
    world.close()


@pytest.mark.parametrize("keys", ["", NEW], ids=["no key", "another key"])
@pytest.mark.parametrize("status", [JobStatus.QUEUED, JobStatus.SUCCEEDED])
def test_a_worker_without_the_key_changes_nothing(
    world: RedisWorld,
    encryption: UseKeys,
    keys: str,
    status: JobStatus,
    caplog: pytest.LogCaptureFixture,
) -> None:
    spec = bring_to(world, status)
    world.advance(MINUTE)
    before = world.raw(spec.job_id)
    encryption(keys)
    for _ in range(10):
        found = claim(world)
        assert isinstance(found, NotClaimed)
        assert (found.why, SETTING in found.detail) == ("locked", True)
    assert world.raw(spec.job_id) == before
    assert f"job {spec.job_id} is left alone" in caplog.text
    with pytest.raises(JobUnreadable, match=f"job {spec.job_id}: its record .*{SETTING}"):
        world.store.read(spec.job_id)
    assert not world.store.sweep(limit=10, grace_ms=1, cap_ms=1)


def test_a_part_of_a_newer_key_counts_as_no_start(world: RedisWorld, encryption: UseKeys) -> None:
    job_id = bring_to(world, JobStatus.PAUSED).job_id
    encryption(NEW)
    answer(world, Answer(value="yes", by="anna"))
    encryption(OLD)
    for _ in range(8):
        found = claim(world)
        assert isinstance(found, NotClaimed)
        assert found.why == "locked"
        world.advance(2 * MINUTE)
    encryption(f"{OLD},{NEW}")
    held = take(world)
    assert held.tries == 1
    assert held.signal == Answer(value="yes", by="anna")
    assert world.store.read(job_id).status is JobStatus.RUNNING


@pytest.mark.parametrize("field", ["spec", "run", "outcome", "messages"])
def test_what_is_swapped_between_jobs_is_noticed(world: RedisWorld, field: str) -> None:
    for job_id in ("job-a", "job-b"):
        submit(world, job_id, input=f"of {job_id}")
        held = take(world, job_id)
        commit(world, held, 1, f"said in {job_id}")
        settle(world, held, 2, JobStatus.SUCCEEDED, Outcome(ok=True, value=f"of {job_id}"))
    a, b = world._keys("job-a"), world._keys("job-b")
    if field == "messages":
        world.client.lset(b.messages("job-b"), 0, world.client.lindex(a.messages("job-a"), 0))
        with pytest.raises(JobUnreadable, match=r"job job-b: its message 0 .*another job or place"):
            world.store.messages("job-b")
        return
    world.client.hset(b.job("job-b"), field, world.client.hget(a.job("job-a"), field))
    with pytest.raises(JobUnreadable, match=r"job job-b: its record .*another job or place"):
        world.store.read("job-b")
    assert world.store.read("job-a").outcome == Outcome(ok=True, value="of job-a")


@pytest.mark.parametrize("before", ["", OLD], ids=["in the clear", "sealed"])
def test_rekey_seals_everything_with_the_first_key(
    world: RedisWorld, redis_url: str, encryption: UseKeys, before: str
) -> None:
    encryption(before)
    for status in JobStatus:
        bring_to(world, status, f"job-{status}")
    publish(world, "job-succeeded")
    world.store.message("job-paused", Mail(text="hear", by="anna"), "m1")
    shown = {status: everything(world, status) for status in JobStatus}
    encryption(f"{NEW},{OLD}")
    store = RekeyStore.from_url(redis_url)
    assert store.rekey(dry_run=True).changed == len(JobStatus)
    left = world.client.pttl(world._keys("job-succeeded").trace("job-succeeded"))
    assert left > 0
    found = store.rekey()
    assert (found.jobs, found.changed, found.unreadable) == (len(JobStatus), len(JobStatus), [])
    assert store.rekey().changed == 0
    assert 0 < world.client.pttl(world._keys("job-succeeded").trace("job-succeeded")) <= left
    encryption(NEW)
    assert {status: everything(world, status) for status in JobStatus} == shown
    assert take(world, "job-queued").tries == 1


def everything(world: RedisWorld, status: JobStatus) -> tuple[object, ...]:
    job_id = f"job-{status}"
    return world.store.read(job_id), world.store.messages(job_id), world.store.events(job_id)


def test_a_job_with_messages_goes_on_after_a_rekey(world: RedisWorld, encryption: UseKeys) -> None:
    """How many there are stays a number, which scripts read."""
    submit(world)
    held = take(world)
    world.store.message(held.spec.job_id, Mail(text="one"), "m1")
    encryption(f"{NEW},{OLD}")
    assert RekeyStore(world.client).rekey().changed == 1
    encryption(NEW)
    world.store.message(held.spec.job_id, Mail(text="two"), "m2")
    assert commit(world, held, 1, "on") == "mail"
    assert [mail.text for mail in world.store.mail(held.spec.job_id)] == ["one", "two"]


def test_rekey_names_what_it_cannot_open_and_goes_on(
    world: RedisWorld, redis_url: str, encryption: UseKeys, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(world, "job-a")
    encryption(NEW)
    submit(world, "job-b")
    third = new_key()
    encryption(f"{third},{NEW}")
    assert main(["rekey", "--redis-url", redis_url]) == 1
    told = capsys.readouterr().out
    assert "2 jobs, 1 encrypted anew" in told
    assert "job job-a" in told
    assert SETTING in told
    encryption(f"{third},{OLD}")
    assert world.store.read("job-a").spec.job_id == "job-a"
    assert world.store.read("job-b").spec.job_id == "job-b"


def test_rekey_needs_a_key(redis_url: str) -> None:
    with pytest.raises(InvalidInput, match=f"{SETTING} is not set"):
        RekeyStore.from_url(redis_url).rekey()


def test_a_new_key_is_taken(capsys: pytest.CaptureFixture[str], encryption: UseKeys) -> None:
    assert main(["new-key"]) == 0
    encryption(capsys.readouterr().out.strip())
