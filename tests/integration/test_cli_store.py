"""Commands against a real store, without a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from api_client.contract import JobStatus
from api_client.errors import JobUnreadable
from api_client.keys import Keys, partition_of
from tests.support.paused import ended_job, paused_job
from worker.cli import failures, main
from worker.embedded import EmbeddedServer, find_server
from worker.store.redis import RedisCheckpointStore

Stepkeeper = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stepkeeper(
    redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Stepkeeper:
    """Runs a command on an empty store; returns exit code, output and errors."""
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", redis_url)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def store(redis_url: str) -> RedisCheckpointStore:
    """The same store."""
    return RedisCheckpointStore.from_url(redis_url)


def test_a_job_is_handed_in_looked_at_and_cancelled(
    stepkeeper: Stepkeeper, store: RedisCheckpointStore
) -> None:
    code, out, err = stepkeeper("submit", "shop", "x", "--no-check", "--label", "a", "--label", "b")
    job = out.strip()
    assert (code, err) == (0, "")
    assert store.read(job).spec.labels == ("a", "b")
    assert json.loads(stepkeeper("status", job, "--json")[1])["status"] == "queued"
    assert stepkeeper("cancel", job, "--by", "anna") == (0, f"job {job} is cancelled\n", "")
    assert "cancel        wanted by anna" in stepkeeper("trace", job, "--follow")[1]
    assert json.loads(stepkeeper("jobs", "--json")[1])["cancelled"] == 1


def test_no_agent_is_known_before_a_worker_has_announced_it(
    stepkeeper: Stepkeeper, store: RedisCheckpointStore
) -> None:
    code, out, err = stepkeeper("submit", "shop", "x")
    assert (code, out) == (failures.REFUSED, "")
    assert "unknown agent 'shop'; workers have announced: none yet" in err
    assert sum(store.count(status) for status in JobStatus) == 0


def test_waiting_ends_in_time_where_no_worker_is(stepkeeper: Stepkeeper) -> None:
    words = ("submit", "shop", "x", "--no-check", "--wait", "--timeout", "0.2")
    code, out, err = stepkeeper(*words)
    assert (code, out) == (failures.TIMED_OUT, "")
    assert "is still queued after 0.2 s and goes on" in err


def test_a_pause_is_answered_once(stepkeeper: Stepkeeper, store: RedisCheckpointStore) -> None:
    paused_job(store)
    words = ("answer", "job-1", "yes", "--by", "anna", "--pause", "p1")
    assert stepkeeper(*words)[0] == failures.OK
    code, out, err = stepkeeper(*words)
    assert (code, out) == (failures.REFUSED, "")
    assert err.startswith("stepkeeper: job job-1: this pause was answered by anna (answer) at ")
    assert store.events("job-1")[-1].kind == "signal"


def test_jobs_are_found_over_all_partitions(
    stepkeeper: Stepkeeper, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisCheckpointStore.from_url(redis_url, partitions=3)
    ids = [f"job-{number}" for number in range(9)]
    for job_id in ids:
        ended_job(store, job_id, value=job_id)
    assert len({partition_of(job_id, 3) for job_id in ids}) == 3
    monkeypatch.setenv("STEPKEEPER_PARTITIONS", "3")
    found = json.loads(stepkeeper("jobs", "--status", "succeeded", "--json")[1])
    assert sorted(item["spec"]["job_id"] for item in found) == ids
    assert stepkeeper("status", "job-4", "--partitions", "1")[0] == failures.REFUSED


def test_a_url_of_another_form_is_refused(stepkeeper: Stepkeeper) -> None:
    code, _, err = stepkeeper("agents", "--redis-url", "http://:secret@127.0.0.1/")
    assert code == failures.REFUSED
    assert "begins with none of redis, rediss, unix, sentinel" in err
    assert "secret" not in err


def test_an_embedded_server_keeps_its_data(stepkeeper: Stepkeeper, tmp_path: Path) -> None:
    here = f"--embedded={tmp_path / 'data'}"
    code, out, err = stepkeeper("submit", "shop", "x", "--no-check", here)
    assert code == failures.OK
    assert err.startswith("stepkeeper: started the server at redis://127.0.0.1:")
    assert f"data in {tmp_path / 'data'}\n" in err
    assert find_server(tmp_path / "data") is None
    code, shown, err = stepkeeper("status", out.strip(), here, "--json")
    assert (code, err) == (failures.OK, "")
    assert json.loads(shown)["spec"]["input"] == "x"


def test_an_embedded_server_that_runs_is_joined(
    stepkeeper: Stepkeeper, own_valkey: EmbeddedServer
) -> None:
    code, _, err = stepkeeper("jobs", f"--embedded={own_valkey.data_dir}")
    assert code == failures.OK
    assert err.startswith(f"stepkeeper: joined the server at {own_valkey.url}, data in ")
    assert own_valkey.running


def test_a_folder_that_cannot_be_written_is_one_line(
    stepkeeper: Stepkeeper, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    code, _, err = stepkeeper("agents", f"--embedded={tmp_path / 'file' / 'data'}")
    assert code == failures.UNREACHABLE
    assert err.startswith("stepkeeper: cannot keep data in ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "--json"], ["--version"]])
@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (">/dev/full", failures.OUTPUT_LOST, "standard output cannot be written: No space"),
        (">&-", failures.OK, ""),
    ],
    ids=["full", "closed"],
)
def test_an_output_that_takes_nothing_is_one_line(
    redis_url: str, words: list[str], output: str, code: int, said: str
) -> None:
    command = [sys.executable, "-m", "worker.cli", *words]
    done = subprocess.run(
        ["sh", "-c", f'"$@" {output}', "sh", *command],
        env={**os.environ, "STEPKEEPER_REDIS_URL": redis_url},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == bool(said)


def test_a_job_that_cannot_be_read_is_listed_by_its_id(
    stepkeeper: Stepkeeper, store: RedisCheckpointStore
) -> None:
    paused_job(store, "whole")
    paused_job(store, "by-hand")
    paused_job(store, "newer")
    key = Keys(0).job
    store._redis.hset(key("by-hand"), "spec", "not JSON")
    store._redis.hset(key("newer"), "v", 99)
    for words in (["inbox"], ["jobs", "--status", "paused"]):
        code, out, err = stepkeeper(*words)
        assert (code, "whole" in out) == (failures.OK, True)
        assert "job by-hand: its record cannot be read: value: Invalid JSON" in err
        assert "job newer: its record cannot be read: the job record has schema version 99" in err
        told = [json.loads(line) for line in stepkeeper(*words, "--json")[2].splitlines()]
        assert sorted(one["unreadable"] for one in told) == ["by-hand", "newer"]
    for words in (["status", "by-hand"], ["answer", "newer", "x"], ["trace", "by-hand"]):
        code, _, err = stepkeeper(*words)
        assert (code, err.count("\n")) == (failures.REFUSED, 1), err
        assert "its record cannot be read" in err
    code, out, err = stepkeeper("bulk", "cancel", "--json")
    assert code == failures.REFUSED
    assert {item["job_id"]: item["done"] for item in json.loads(out)["items"]} == {
        "by-hand": False, "newer": False, "whole": True
    }  # fmt: skip
    assert stepkeeper("top", "--once")[0] == failures.OK
    assert "its message 0 cannot be read: not JSON" in _broken_message(stepkeeper, store)


def _broken_message(stepkeeper: Stepkeeper, store: RedisCheckpointStore) -> str:
    """What is said of a job in whose transcript and trace somebody has written."""
    ended_job(store, "told")
    store._redis.rpush(Keys(0).messages("told"), "{")
    store._redis.xadd(Keys(0).trace("told"), {"what": "ever"})
    assert [event.kind for event in store.events("told")][-1] == "unreadable"
    assert stepkeeper("status", "told")[0] == failures.OK
    with pytest.raises(JobUnreadable) as caught:
        store.messages("told")
    return str(caught.value)


@pytest.mark.parametrize("words", [["jobs"], ["jobs", "--json"], ["trace", "job-1"]])
def test_a_reader_that_has_had_enough_is_no_error(
    redis_url: str, store: RedisCheckpointStore, words: list[str]
) -> None:
    """As in ``stepkeeper trace JOB | head -n 1``."""
    ended_job(store, "job-1", value="x")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "worker.cli", *words, "--redis-url", redis_url],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (failures.OK, "")
