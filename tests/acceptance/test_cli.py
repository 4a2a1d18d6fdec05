"""The command ``stepkeeper`` against real workers."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from api_client.redis_store import RedisJobStore
from tests.support.command import Place, WorkerCommand
from tests.support.workers import eventually
from worker.cli import failures
from worker.embedded import EmbeddedServer, find_server
from worker.rendering import follow, rests


@pytest.fixture(scope="module")
def place(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder with agents, and an empty store."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    folder = tmp_path_factory.mktemp("cli")
    return Place(folder, ("--redis-url", valkey.url)).write_agents()


@pytest.fixture(scope="module")
def worker(place: Place) -> Iterator[WorkerCommand]:
    """One worker for all tests that don't stop it."""
    with place.worker() as worker:
        eventually(lambda: len(place.json("agents")) == 2, "both agents announced")
        yield worker


@pytest.fixture
def paused(place: Place, worker: WorkerCommand) -> str:
    """A job that waits for a person."""
    done = place.run("submit", "shop", "look ask", "--wait")
    assert done.returncode == failures.PAUSED, done.stderr
    return str(place.json("inbox")[-1]["spec"]["job_id"])


def everything(place: Place) -> dict[str, bytes | None]:
    """All that is in the store, to see that a command changed nothing."""
    with redis.Redis.from_url(place.store[1]) as client:
        names = sorted(client.scan_iter("{sk:*"))
        return {name.decode(): client.dump(name) for name in names}


def refused(place: Place, *words: str) -> str:
    """The one line with which a command refuses its input, having changed nothing."""
    before = everything(place)
    done = place.run(*words)
    assert done.returncode == failures.REFUSED, done
    assert done.stdout == ""
    assert done.stderr.startswith("stepkeeper: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert everything(place) == before
    return done.stderr


def test_a_worker_says_as_json_what_it_runs(place: Place, worker: WorkerCommand) -> None:
    assert worker.ready["event"] == "ready"
    assert worker.ready["agents"] == ["echo", "shop"]
    assert worker.ready["node"].startswith("stepkeeper@")
    assert worker.ready["store"] == place.store[1]
    assert worker.ready["pid"] == worker.process.pid


def test_submit_and_wait_prints_the_answer_alone(place: Place, worker: WorkerCommand) -> None:
    done = place.run("submit", "shop", "look", "--wait", "--timeout", "60")
    assert (done.returncode, done.stdout) == (failures.OK, "1187: delivered\n"), done.stderr
    assert '  action      look(order="1187")\n' in done.stderr
    assert "succeeded · 2 steps · 800 in + 60 out tokens" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_task_may_come_from_a_pipe(place: Place, worker: WorkerCommand) -> None:
    done = place.run("submit", "echo", "-", "--wait", stdin="Say hello.\n")
    assert (done.returncode, done.stdout) == (failures.OK, "hello\n"), done.stderr


def test_a_pause_is_answered_and_the_job_goes_on(place: Place, paused: str) -> None:
    shown = place.run("status", paused).stdout
    assert f'stepkeeper answer {paused} "TEXT"' in shown
    done = place.run("answer", paused, "yes, 10 %", "--note", "goodwill")
    assert done.stdout == f"answer by tester accepted; job {paused} goes on\n"
    trace = place.run("trace", paused, "--follow")
    assert trace.returncode == failures.OK
    assert "signal        answer by tester: yes, 10 % (note: goodwill)" in trace.stdout
    assert "answer        Answer of a person: yes, 10 %\n" in trace.stdout
    records = [
        json.loads(line) for line in place.run("trace", paused, "--json").stdout.splitlines()
    ]
    kinds = [record["kind"] for record in records if record["kind"] != "claimed"]
    assert kinds == [
        *("submitted", "reply", "observation", "reply"),
        *("paused", "signal", "observation", "finished"),
    ]
    assert records[-1]["outcome"]["value"] == "Answer of a person: yes, 10 %"
    later = place.run("trace", paused, "--json", "--after", records[-2]["id"]).stdout
    assert [json.loads(line)["kind"] for line in later.splitlines()] == ["finished"]


def test_a_job_that_is_cancelled_ends_waiting_with_a_failure(place: Place, paused: str) -> None:
    assert place.run("cancel", paused, "--note", "sent twice").returncode == failures.OK
    assert place.json("status", paused)["outcome"]["text"] == "cancelled by tester: sent twice"
    assert place.run("cancel", paused).returncode == failures.OK


def test_an_unknown_agent_is_refused(place: Place, worker: WorkerCommand) -> None:
    said = refused(place, "submit", "shpo", "look")
    assert "unknown agent 'shpo'; workers have announced: echo, shop" in said


def test_an_argument_of_the_wrong_type_is_refused(place: Place, worker: WorkerCommand) -> None:
    assert "--metadata: not JSON" in refused(place, "submit", "shop", "x", "--metadata", "user=1")
    assert "'high', 'normal' or" in refused(place, "submit", "shop", "x", "--priority", "urgent")
    assert "the input is missing" in refused(place, "submit", "shop", "null", "--as-json")


def test_a_signal_of_the_wrong_type_is_refused(place: Place, paused: str) -> None:
    assert "valid number" in refused(place, "signal", paused, "extend", "much")
    assert "takes no 'approve', but: answer, finish" in refused(place, "approve", paused)
    assert "no signal 'dance'" in refused(place, "signal", paused, "dance")
    assert place.run("finish", paused, "enough").returncode == failures.OK


def test_a_signal_for_a_job_that_is_not_paused_is_refused(
    place: Place, worker: WorkerCommand
) -> None:
    key = "done"
    place.run("submit", "echo", "x", "--wait", "--idempotency-key", key)
    job = place.json("submit", "echo", "x", "--idempotency-key", key)["job_id"]
    eventually(lambda: place.json("status", job)["published"], "the result is published")
    assert "is succeeded, not paused; there is nothing to answer" in refused(
        place, "answer", job, "yes"
    )


def test_a_second_signal_is_refused_and_told_who_was_first(place: Place, paused: str) -> None:
    assert place.run("finish", paused, "enough", "--by", "anna", "--pause", "p1").returncode == 0
    eventually(lambda: place.json("status", paused)["published"], "the result is published")
    said = refused(place, "answer", paused, "no", "--by", "bo", "--pause", "p1")
    assert "was answered by anna (finish) at " in said


def test_an_unknown_job_is_refused(place: Place, worker: WorkerCommand) -> None:
    for words in (["status", "nobody"], ["trace", "nobody"], ["answer", "nobody", "yes"]):
        assert "no job 'nobody'" in refused(place, *words)
    assert "no job 'not a job'" in refused(place, "cancel", "not a job")


@pytest.mark.parametrize("words", [["submit", "shop", "x"], ["agents"], ["answer", "j", "yes"]])
def test_a_store_that_is_away_is_one_line(tmp_path: Path, words: list[str]) -> None:
    place = Place(tmp_path, ("--redis-url", "redis://:secret@127.0.0.1:1/0"))
    done = place.run(*words)
    assert (done.returncode, done.stdout) == (failures.UNREACHABLE, "")
    assert done.stderr.startswith("stepkeeper: cannot reach Redis at redis://127.0.0.1:1/0 (")
    assert "check STEPKEEPER_REDIS_URL" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_refusal_is_json_where_json_is_asked_for(place: Place, worker: WorkerCommand) -> None:
    done = place.run("submit", "shpo", "look", "--json")
    assert (done.returncode, done.stdout) == (failures.REFUSED, "")
    error = json.loads(done.stderr)
    assert error["error"] == "UnknownAgent"
    assert error["message"].startswith("unknown agent 'shpo'; workers have announced: echo, shop")


def test_a_worker_without_agents_does_not_start(place: Place) -> None:
    assert "no agent to run; give import paths with --agents" in refused(place, "worker")
    said = refused(place, "worker", "--agents", "no.such.module")
    assert "cannot import 'no.such.module'" in said


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_sigterm_hands_a_job_over_and_the_next_worker_ends_it(
    own_valkey: EmbeddedServer, tmp_path: Path, pool: str
) -> None:
    place = Place(tmp_path, ("--redis-url", own_valkey.url)).write_agents()
    options = ("--pool", pool, "--concurrency", "2", "--name", "w1@test", "--log-level", "warning")
    with place.worker(*options) as worker:
        assert worker.ready["node"] == "w1@test"
        eventually(lambda: place.json("agents"), "the agents announced")
        job = place.run("submit", "shop", "look hold look").stdout.strip()
        eventually((tmp_path / "holding").exists, "the tool runs")
        worker.process.send_signal(signal.SIGTERM)
        (tmp_path / "free").touch()
        assert worker.process.wait(60) == 0, worker.log
        assert worker.rest_of_output() == ""
        assert "printed by a tool" in worker.log
    store = RedisJobStore.from_url(own_valkey.url)
    kinds = [event.kind for event in store.events(job)]
    assert kinds[-1] == "released"
    with place.worker(*options):
        last = list(follow(store, job, until=rests, timeout_s=60))[-1]
    assert last.kind == "finished"
    assert sum(event.kind == "reply" for event in store.events(job)) == 3


def test_ctrl_c_ends_a_worker_and_its_embedded_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    place = Place(tmp_path, (f"--embedded={data}",)).write_agents()
    with place.worker("--pool", "threads") as worker:
        assert f"data in {data}" not in worker.log
        eventually(lambda: place.json("agents"), "the agents announced")
        done = place.run("submit", "echo", "x", "--wait", "--idempotency-key", "one")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        assert f"stepkeeper: joined the server at {worker.ready['store']}, data in {data}" in (
            done.stderr
        )
        assert worker.stop(signal.SIGINT) == failures.INTERRUPTED, worker.log
    assert find_server(data) is None
    job = place.json("submit", "echo", "x", "--idempotency-key", "one", "--no-check")["job_id"]
    assert place.json("status", job)["outcome"]["value"] == "hello"
    assert find_server(data) is None
