"""Tools in a process of their own: real processes, killed for real."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tools import isolated_tools as made
from worker.context import ActionContext, CallInfo
from worker.errors import PauseRequested, ToolRegistrationError
from worker.tools import build_tool
from worker.tools.isolate import Place, run_isolated

ROOT = Path(__file__).parents[3]


def wait_for_end(pid: int) -> None:
    """Until the process is gone, or a zombie that nobody has buried yet."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"process {pid} is still running")


def test_a_call_runs_in_another_process(run: Any, capfd: pytest.CaptureFixture[str]) -> None:
    seen = run(made.pid_and_sum, '{"a": 1}')
    assert seen.value["sum"] == 3
    assert seen.value["pid"] != os.getpid()
    assert "this goes to standard error" in capfd.readouterr().err


def test_async_functions_run(run: Any) -> None:
    assert run(made.later, '{"x": 3}').content == "3"


def test_the_idempotency_key_arrives(run: Any) -> None:
    assert run(made.keyed).value == ["job-1", "call_1", 1, 1, "job-1:call_1"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("value", "Error: ValueError: postgres://[hidden]@db/prod\n"),
        ("retry", "Error: again\n"),
        ("failed", "Error: no use\n"),
        ("exit", "Error: SystemExit: 3\n"),
        ("interrupt", "Error: KeyboardInterrupt\n"),
        ("memory", "Error: MemoryError\n"),
    ],
)
def test_d7_errors_cross_as_text(
    run: Any, caplog: pytest.LogCaptureFixture, kind: str, content: str
) -> None:
    seen = run(made.raises, f'{{"kind": "{kind}"}}')
    assert seen.error
    assert seen.content.startswith(content)
    assert "s3cret" not in caplog.text


def test_a_pause_crosses(run: Any) -> None:
    with pytest.raises(PauseRequested, match=r"sure\?") as paused:
        run(made.raises, '{"kind": "pause"}')
    assert paused.value.data == {"sum": 5}


@pytest.mark.parametrize("code", [0, 1, 77])
def test_d7_os_exit_is_an_observation(run: Any, code: int) -> None:
    seen = run(made.dies, f'{{"code": {code}}}')
    assert seen.error
    assert f"exit code {code}" in seen.content


def test_a_process_that_is_killed_is_an_observation(run: Any) -> None:
    seen = run(made.killed, f'{{"signal": {signal.SIGSEGV.value}}}')
    assert "killed by SIGSEGV" in seen.content


def test_d2_a_timeout_kills_the_process_and_what_it_started(run: Any, tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    seen = run(made.hangs, f'{{"notes": "{notes}"}}')
    assert "no result within 6 seconds" in seen.content
    for pid in map(int, notes.read_text().split()):
        wait_for_end(pid)


def test_a_large_result_crosses_and_a_too_large_one_is_refused(run: Any) -> None:
    seen = run(made.large, '{"size": 5000000}')
    assert (seen.full_length, seen.error) == (5_000_000, False)
    too_large = run(made.large, '{"size": 17000000}')
    assert too_large.error
    assert "a result of 17000013 bytes" in too_large.content


def test_a_result_without_written_form_is_refused(run: Any) -> None:
    assert "returned object" in run(made.unwritable).content


def test_a_given_schema_is_used_there_too(run: Any) -> None:
    given = {"type": "object", "properties": {"q": {"type": "string"}}}
    built = build_tool(made.given_schema, isolate=True, parameters=given)
    assert run(built, '{"q": "x"}').value == {"q": "x"}


def test_the_tool_cannot_read_the_workers_pipe(run: Any) -> None:
    assert run(made.reads_input).content == "nothing there"


def test_the_process_ends_when_the_worker_dies(tmp_path: Path) -> None:
    notes = tmp_path / "pids"
    code = (
        "from tests.unit.tools.isolated_tools import hangs\n"
        "from worker.tools import as_tool, CallInfo\n"
        "from dataclasses import replace\n"
        "tool = replace(as_tool(hangs), timeout=600)\n"
        f"tool.invoke(tool.parse('{{\"notes\": \"{notes}\"}}'), None, CallInfo('j','c',1,1,'k'))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as worker:
        deadline = time.monotonic() + 30
        while not (notes.exists() and notes.read_text()) and time.monotonic() < deadline:
            threading.Event().wait(0.02)
        pid, grandchild = map(int, notes.read_text().split())
        worker.kill()
    wait_for_end(pid)
    os.kill(grandchild, signal.SIGKILL)


def test_a_function_of_a_script_is_found_by_the_scripts_path(tmp_path: Path) -> None:
    script = tmp_path / "a script.py"
    script.write_text("def double(x: int) -> int:\n    return 2 * x\n")
    place = Place("__main__", "double", str(script))
    assert run_isolated(place, '{"x": 4}', CallInfo("j", "c", 1, 1, "k"), 30).value == 8


class Pool(ActionContext):
    """Something that cannot leave its process."""


def with_pool(ctx: Pool) -> None: ...


def test_what_another_process_cannot_have_is_refused() -> None:
    def local() -> None: ...

    for function in (local, Path("x").exists):
        with pytest.raises(ToolRegistrationError, match="module level"):
            build_tool(function, isolate=True, name="x", parameters={"type": "object"})
    with pytest.raises(ToolRegistrationError, match="cannot pass a Pool"):
        build_tool(with_pool, isolate=True)
