"""Operators' commands on a real store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from api_client.contract import JobSpec, JobStatus
from tests.support.paused import ended_job, paused_job
from worker.agent import Agent, by_name
from worker.cli import failures, main, operating
from worker.inline import _Unrenewed
from worker.models import FunctionModel
from worker.runner import Runner
from worker.store.redis import RedisCheckpointStore
from worker.tools import tool

Said = tuple[int, str, str]


@pytest.fixture
def stepkeeper(
    redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs a command; returns exit code, output and errors."""
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", redis_url)

    def run(*words: str) -> Said:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def store(redis_url: str) -> RedisCheckpointStore:
    """The same store."""
    return RedisCheckpointStore.from_url(redis_url)


def poison(store: RedisCheckpointStore, job_id: str = "job-1") -> None:
    """A job whose only try has died."""
    store.create(JobSpec(job_id=job_id, agent="shop", input="buy"))
    for owner in ("a", "b"):
        store.claim(job_id, owner=owner, nonce=owner, lease_ms=1, max_tries=1)
        store.abandon(owner, delay_ms=0)
    assert store.read(job_id).status is JobStatus.FAILED


# --- quarantine ------------------------------------------------------------------------------


def test_a_poison_job_is_listed_and_released(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    assert stepkeeper("quarantine", "list")[1] == "no job is in quarantine\n"
    poison(store)
    assert "job-1" in stepkeeper("quarantine", "list")[1]
    code, out, _ = stepkeeper("quarantine", "release", "job-1", "--json")
    said = json.loads(out)
    assert (code, said["released_from"]) == (failures.OK, "job-1")
    assert store.read(said["job_id"]).status is JobStatus.QUEUED
    assert json.loads(stepkeeper("quarantine", "list", "--json")[1]) == []
    code, _, err = stepkeeper("quarantine", "release", said["job_id"])
    assert (code, "not in quarantine" in err) == (failures.REFUSED, True)


def test_a_poison_job_is_dropped_and_no_other_is(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    poison(store)
    ended_job(store, "good", value="x")
    assert stepkeeper("quarantine", "drop", "good")[0] == failures.REFUSED
    assert stepkeeper("quarantine", "drop", "job-1")[:2] == (0, "job job-1 is forgotten\n")
    assert stepkeeper("status", "job-1")[0] == failures.REFUSED
    assert stepkeeper("status", "good")[0] == failures.OK


# --- purge -----------------------------------------------------------------------------------


def test_one_job_is_purged_when_it_has_ended(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    paused_job(store, "waits")
    ended_job(store, "done", value="x")
    code, _, err = stepkeeper("purge", "waits")
    assert (code, "cancel it first" in err) == (failures.REFUSED, True)
    assert "would be forgotten" in stepkeeper("purge", "done", "--dry-run")[1]
    assert store.read("done").status is JobStatus.SUCCEEDED
    assert stepkeeper("purge", "done", "--force")[:2] == (0, "job done: forgotten\n")
    assert stepkeeper("purge", "done")[0] == failures.REFUSED


def test_jobs_are_purged_by_age_and_status(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore, redis_url: str
) -> None:
    ended_job(store, "old-good", value="x")
    ended_job(store, "old-bad", reason="refused")
    ended_job(store, "new-bad", reason="refused")
    with redis.Redis.from_url(redis_url) as client:
        for status, job in (("succeeded", "old-good"), ("failed", "old-bad")):
            client.zincrby(f"{{sk:0}}:is:{status}", -8 * 86_400_000, job)
    words = ("purge", "--ended-before", "7d", "--force", "--json")
    dry = json.loads(stepkeeper(*words, "--dry-run")[1])
    assert sorted(dry["purged"]) == ["old-bad", "old-good"]
    done = json.loads(stepkeeper(*words, "--status", "failed")[1])
    assert (done["purged"], done["kept"]) == (["old-bad"], [])
    assert store.read("old-good").status is JobStatus.SUCCEEDED
    assert store.read("new-bad").status is JobStatus.FAILED


def test_what_is_not_published_yet_is_kept_and_told(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore, redis_url: str
) -> None:
    store.create(JobSpec(job_id="job-1", agent="shop", input="buy"))
    store.cancel("job-1")
    with redis.Redis.from_url(redis_url) as client:
        client.zincrby("{sk:0}:is:cancelled", -8 * 86_400_000, "job-1")
    code, out, _ = stepkeeper("purge", "--ended-before", "7d")
    assert code == failures.REFUSED
    assert "has not reached the result backend" in out
    assert out.endswith("0 jobs forgotten\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "give a job, or --ended-before"),
        (["job-1", "--ended-before", "7d"], "give a job, or --ended-before"),
        (["job-1", "--status", "failed"], "--status goes with --ended-before"),
        (["--ended-before", "yesterday"], "write a number and s, m, h, d or w"),
        (["--ended-before", "7d", "--status", "running"], "give one of succeeded, failed"),
    ],
)
def test_what_cannot_be_purged_is_refused(
    stepkeeper: Callable[..., Said], words: list[str], says: str
) -> None:
    code, _, err = stepkeeper("purge", *words)
    assert (code, says in err) == (failures.REFUSED, True), err


def test_ages_are_read() -> None:
    assert [operating.seconds_of(age) for age in ("90s", "30m", "12h", "7d", "2w")] == [
        90, 1800, 43_200, 604_800, 1_209_600,
    ]  # fmt: skip


# --- the rest --------------------------------------------------------------------------------


def test_a_job_is_forked(stepkeeper: Callable[..., Said], store: RedisCheckpointStore) -> None:
    ended_job(store, "done", value="x")
    assert stepkeeper("fork", "done", "--id", "again")[:2] == (0, "again\n")
    assert store.events("again")[0].data == {"fork": "done"}
    assert stepkeeper("fork", "done", "--id", "again")[0] == failures.REFUSED
    assert stepkeeper("fork", "again")[0] == failures.REFUSED


def test_durability_is_told(stepkeeper: Callable[..., Said]) -> None:
    value = json.loads(stepkeeper("durability", "--json")[1])
    assert (value["survives"], value["appendfsync"]) == ("power_loss", "always")
    assert "a power loss" in stepkeeper("durability")[1]


def test_a_jobs_keys_are_told(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore, redis_url: str
) -> None:
    ended_job(store, "done", value="x")
    code, out, err = stepkeeper("redis-keys", "done", "--json")
    assert (code, err) == (failures.OK, "")
    found = json.loads(out)
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        assert {key["name"] for key in found} <= set(client.keys("{sk:*done"))
    assert {key["kind"] for key in found} >= {"hash", "stream"}
    assert all(key["size"] > 0 for key in found)
    assert stepkeeper("redis-keys", "nobody")[0] == failures.REFUSED


# --- rerun -----------------------------------------------------------------------------------


@tool(effects="safe")
def echo(text: str) -> str:
    """Say it again."""
    return f"heard {text}"


def follow(messages: list[dict[str, Any]]) -> Any:
    """Echo the task twice, then tell the goal, the task and how often."""
    done = sum(message["role"] == "assistant" for message in messages)
    goal, task = messages[0]["content"], messages[1]["content"]
    if done == 2:
        heard = [m["content"] for m in messages if m["role"] == "tool"]
        return f"{goal} {task}: {heard}"
    arguments = json.dumps({"text": f"{task} {done}"})
    function = {"name": "echo", "arguments": arguments}
    return {"tool_calls": [{"id": f"c{done}", "type": "function", "function": function}]}


AGENT = Agent(name="parrot", goal="Help.", tools=[echo], model=FunctionModel(follow))


def run(store: RedisCheckpointStore, job_id: str) -> Any:
    """Run a job to its end; returns its outcome."""
    runner = Runner(
        store=store,
        agents=by_name([AGENT]),
        owner="w@t/b/1/",
        leases=_Unrenewed(store, 0),
        clock_ms=lambda: 0,
        default_model=lambda: pytest.fail("it has a model"),
    )
    runner.run(job_id)
    return store.read(job_id).outcome


def test_a_job_runs_again_from_a_past_step_with_another_task(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    store.create(JobSpec(job_id="old", agent="parrot", input="one"))
    assert run(store, "old").value == "Help. one: ['heard one 0', 'heard one 1']"
    code, out, _ = stepkeeper("rerun", "old", "--from", "2", "--input", "two", "--goal", "Hm.")
    assert code == failures.OK
    new = out.strip()
    assert store.read(new).steps == 1
    assert store.read(new).spec.input == "two"
    assert run(store, new).value == "Hm. two: ['heard one 0', 'heard two 1']"
    view, old = store.read(new), store.read("old")
    assert view.steps == 3
    assert view.usage.prompt_tokens > 0
    assert store.events(new)[0].data == {"rerun_of": "old", "from_step": 2}
    assert old.outcome is not None
    assert old.outcome.value == "Help. one: ['heard one 0', 'heard one 1']"
    assert "rerun of" in stepkeeper("trace", new)[1]


def test_a_job_that_still_waits_may_be_run_again(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    store.create(JobSpec(job_id="old", agent="parrot", input="one"))
    run(store, "old")
    code, _, err = stepkeeper("rerun", "old", "--from", "4")
    assert (code, "has made 3 steps" in err) == (failures.REFUSED, True)
    assert stepkeeper("rerun", "old", "--id", "old")[0] == failures.REFUSED
    assert stepkeeper("rerun", "nobody")[0] == failures.REFUSED
    code, _, err = stepkeeper("rerun", "old", "--as-json", "--input", r'"\ud800"')
    assert (code, "half of a surrogate pair" in err) == (failures.REFUSED, True)


def test_another_model_is_asked_for(
    stepkeeper: Callable[..., Said], store: RedisCheckpointStore
) -> None:
    store.create(JobSpec(job_id="old", agent="parrot", input="one"))
    run(store, "old")
    new = stepkeeper("rerun", "old", "--model", "large", "--id", "new")[1].strip()
    assert store.read(new).spec.model == "large"
    assert run(store, new).reason == "no_such_model"
