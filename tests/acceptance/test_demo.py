"""``stepkeeper demo``: what it shows, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from worker.devserver import Fault, ModelServer
from worker.examples.scripts import DOCS_SCRIPT, ExampleModel

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[Any]]]:
    """Starts the demo, with ``tmp_path`` as the place for its scratch folder."""
    started: list[subprocess.Popen[Any]] = []

    def popen(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-m", "worker.cli", "demo", *arguments],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "200", **(env or {})},
            start_new_session=True,
            # A test that runs in the background has SIGINT ignored, and would hand that down.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **{"stdin": subprocess.DEVNULL, "text": True, **options},
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def run(
    start: Callable[..., subprocess.Popen[str]],
) -> Callable[..., tuple[int, str, str]]:
    """Runs the demo to its end; its exit code, output and errors."""

    def finished(*arguments: str, **options: Any) -> tuple[int, str, str]:
        process = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    return finished


def processes_in(folder: Path) -> list[int]:
    """The processes that work in a folder, which may be deleted by now."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str((entry / "cwd").readlink()).startswith(str(folder)):
                found.append(int(entry.name))
        except OSError:  # it has ended meanwhile, or is not ours
            continue
    return found


def left_in(folder: Path) -> list[Any]:
    """What is still there: scratch folders and processes."""
    return [*folder.iterdir(), *processes_in(folder)]


def eventually_gone(pids: list[int], timeout_s: float = 30) -> bool:
    """Whether all of these processes end."""
    deadline = time.monotonic() + timeout_s
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        select.select([], [], [], 0.05)
    return True


def test_three_answers_one_after_a_sigkill_one_after_a_person(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    began = time.monotonic()
    code, out, err = run()

    assert (code, err) == (0, "")
    assert time.monotonic() - began < LIMIT_S
    traces, answers = out.split("\nThe answers\n")
    assert_answers(answers)
    assert_traces(traces)
    assert left_in(tmp_path) == []


def assert_answers(text: str) -> None:
    """Three of them, and what happened on their way."""
    assert f"docs         {DOCS_SCRIPT[-1]['content']}" in text
    resumed = re.search(
        r'calculator   \{"value": 420\.0\}\n'
        r" +resumed after SIGKILL: process (\d+) died in step 4, process (\d+) went on; "
        r"4 replies from 5 model calls, runs of save_paper: 1\n",
        text,
    )
    assert resumed is not None
    assert resumed[1] != resumed[2]
    assert re.search(r"shop +Ein Kollege .*: Ein Gutschein .*\n +after a human signal", text)


def assert_traces(text: str) -> None:
    """Plan, action, observation and tokens of each step; the kill, the pause, the signal."""
    assert len(re.findall(r"^answer +", text, re.MULTILINE)) == 3
    docs, calculator, shop = re.split(r"^(?:docs|calculator|shop): .*$", text, flags=re.MULTILINE)[
        1:
    ]
    step = r"^step 1 .* tokens .*\n  plan .*\n  action +grep_docs\(.*\n  observation "
    assert re.search(step, docs, re.MULTILINE)
    assert [int(n) for n in re.findall(r"^step (\d)", docs, re.MULTILINE)] == [1, 2, 3, 4]
    killed = calculator.index(">>> SIGKILL to worker process")
    assert calculator.index("saved as paper 1") < killed < calculator.index("taken over")
    assert calculator.count("save_paper(") == 1
    assert re.search(r"^paused +Entschädigung für 1042", shop, re.MULTILINE)
    assert re.search(r"^signal +answer by demo: Ein Gutschein", shop, re.MULTILINE)


def test_json_lines_for_programs(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, _ = run("--json")

    *jobs, end = [json.loads(line) for line in out.splitlines()]
    assert (code, end["ok"], end["answers"]) == (0, True, 3)
    by_agent = {job["agent"]: job for job in jobs}
    assert by_agent["calculator"]["answer"] == {"value": 420.0}
    claims = [r["data"] for r in by_agent["calculator"]["trace"] if r["kind"] == "claimed"]
    assert [claim["was"] for claim in claims] == ["queued", "running"]
    assert claims[0]["worker"] != claims[1]["worker"]
    kinds = [record["kind"] for record in by_agent["shop"]["trace"]]
    assert (kinds.count("paused"), kinds.count("signal"), kinds[-1]) == (1, 1, "finished")
    assert left_in(tmp_path) == []


def test_a_person_is_asked_at_the_terminal(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    env = {"TERM": "xterm", "LINES": "50"}
    process = start(stdin=theirs, stdout=theirs, stderr=theirs, env=env, text=False)
    os.close(theirs)
    try:
        seen = read_until(ours, "Your answer")
        os.write(ours, b"Nein, heute nicht.\n")
        seen += read_until(ours, "Done in")
    finally:
        os.close(ours)
    assert process.wait(LIMIT_S) == 0
    assert "entschieden: Nein, heute nicht." in seen
    assert left_in(tmp_path) == []


def read_until(terminal: int, text: str) -> str:
    """What stands on a terminal until a text has come."""
    seen = b""
    deadline = time.monotonic() + LIMIT_S
    while text.encode() not in seen:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        assert ready, f"never showed {text!r}: {seen.decode()}"
        seen += os.read(terminal, 65536)
    return seen.decode(errors="replace")


@pytest.mark.parametrize(
    ("number", "code", "moment"),
    [(signal.SIGINT, 130, ">>> SIGKILL"), (signal.SIGTERM, 143, "docs: four steps")],
    ids=["ctrl-c", "sigterm"],
)
def test_stopping_it_leaves_nothing_behind(
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    number: signal.Signals,
    code: int,
    moment: str,
) -> None:
    env = {"PYTHONUNBUFFERED": "1"}
    process = start(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdout is not None
    assert any(moment in line for line in process.stdout)

    process.send_signal(number)

    process.communicate(timeout=LIMIT_S)
    assert process.returncode == code
    assert left_in(tmp_path) == []


def test_killing_it_leaves_no_process_behind(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start(stdout=subprocess.PIPE, env={"PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    assert any("four steps" in line for line in process.stdout)
    there = processes_in(tmp_path)
    assert len(there) >= 2  # the valkey-server and the worker

    process.kill()

    assert eventually_gone(there)


def test_a_real_model_is_asked_where_the_environment_says(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    with ModelServer(ExampleModel(), latency=1.0) as server:
        code, out, err = run("--real", env=llm(server))

    assert (code, err) == (0, "")
    assert "resumed after SIGKILL" in out
    assert "after a human signal" in out
    assert {body["model"] for body in server.bodies} == {"some-model"}
    assert left_in(tmp_path) == []


def test_a_model_that_refuses_is_the_reason_of_the_failure(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    with ModelServer(["never said"]) as server:
        server.always = Fault.status(401, "this key is not known here")
        code, _, err = run("--real", env=llm(server))

    assert code == 1
    assert err.startswith("stepkeeper demo: the job of agent docs paused: The model call failed")
    assert "this key is not known here" in err
    assert err.count("\n") == 1
    assert left_in(tmp_path) == []


def llm(server: ModelServer) -> dict[str, str]:
    return {
        "LLM_BASE_URL": server.base_url,
        "LLM_API_KEY": "some-key-or-other",
        "LLM_MODEL": "some-model",
    }


@pytest.mark.parametrize("as_json", [False, True])
def test_a_real_model_needs_a_key(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, as_json: bool
) -> None:
    code, out, err = run("--real", *(["--json"] if as_json else []))

    assert (code, out) == (1, "")
    assert "LLM_API_KEY" in err
    if as_json:
        assert json.loads(err)["ok"] is False
    assert left_in(tmp_path) == []
