"""The command line itself: help, wrong usage, errors, streams."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from api_client.errors import (
    AlreadyAnswered,
    JobCancelled,
    JobFailed,
    JobNotFound,
    StepkeeperError,
    StoreUnavailable,
    UnknownAgent,
    WaitTimeout,
)
from worker.cli import app as cli_app
from worker.cli import failures, main
from worker.embedded import FolderInUse

COMMANDS = [
    *("worker", "submit", "status", "trace", "inbox", "jobs", "agents", "signal", "answer"),
    *("approve", "reject", "extend", "finish", "retry", "cancel", "demo"),
]

Fails = Callable[[Exception], None]


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Fails:
    """Makes every command raise an error."""

    def use(error: Exception) -> None:
        def raising(**_: object) -> None:
            raise error

        monkeypatch.setattr(cli_app, "app", raising)

    return use


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert f" {name} " in shown


def test_no_arguments_mean_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: stepkeeper" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_common_options(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--redis-url", "--broker-url", "--embedded", "--partitions", "--json"):
        assert option in shown


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"stepkeeper \d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["submit", "shop"], "Missing argument 'TEXT'. See: stepkeeper submit --help"),
        (["sumbit"], "No such command 'sumbit'."),
        (["status", "x", "--nope"], "No such option: --nope"),
        (
            ["submit", "shop", "x", "--delay", "soon"],
            "Invalid value for '--delay': Input should be a valid number",
        ),
        (
            ["submit", "shop", "x", "--timeout", "-1"],
            "Invalid value for '--timeout': Input should be greater than or equal to 0. See",
        ),
        (["worker", "--pool", "gevent"], "'gevent' is not one of 'threads', 'prefork'"),
        (["status", "x", "--partitions", "0"], "Input should be greater than or equal to 1"),
    ],
)
def test_wrong_usage_is_one_line_that_says_where_to_read(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == failures.REFUSED
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stepkeeper: ")
    assert said in err
    assert "See: stepkeeper" in err
    assert err.count("\n") == 1


def test_wrong_usage_is_json_where_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "shop", "--json"]) == failures.REFUSED
    error = json.loads(capsys.readouterr().err)
    assert error["error"] == "InvalidInput"
    assert error["message"].startswith("Missing argument 'TEXT'.")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownAgent("no such agent"), failures.REFUSED),
        (JobNotFound("no such job"), failures.REFUSED),
        (AlreadyAnswered("by anna"), failures.REFUSED),
        (StepkeeperError("a newer record"), failures.REFUSED),
        (JobFailed("poisoned", "poison"), failures.FAILED),
        (JobCancelled("by anna"), failures.FAILED),
        (WaitTimeout("still running"), failures.TIMED_OUT),
        (StoreUnavailable("no Redis"), failures.UNREACHABLE),
        (FolderInUse("in use"), failures.UNREACHABLE),
    ],
)
def test_every_error_of_ours_has_its_exit_code(
    error: StepkeeperError, code: int, fails: Fails, capsys: pytest.CaptureFixture[str]
) -> None:
    fails(error)
    assert main(["agents"]) == code
    assert capsys.readouterr().err == f"stepkeeper: {error}\n"
    assert main(["agents", "--json"]) == code
    said = json.loads(capsys.readouterr().err)
    assert said == {"error": type(error).__name__, "message": str(error)}


def test_an_error_of_many_lines_is_one(fails: Fails, capsys: pytest.CaptureFixture[str]) -> None:
    fails(JobNotFound("no job\n  '\x1b[2J'"))
    main(["agents"])
    assert capsys.readouterr().err == "stepkeeper: no job '\\x1b[2J'\n"


def test_a_bug_is_not_dressed_up_as_bad_input(fails: Fails) -> None:
    fails(ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        main(["agents"])


def test_an_interrupt_has_its_own_exit_code(fails: Fails) -> None:
    fails(KeyboardInterrupt())  # type: ignore[arg-type]
    assert main(["agents"]) == failures.INTERRUPTED


def test_the_base_install_says_what_to_install() -> None:
    done = python(
        "import sys; sys.modules['typer'] = None\n"
        "from worker.cli import main; sys.exit(main(['status', 'x']))"
    )
    assert done.returncode == failures.REFUSED
    assert done.stderr == (
        "stepkeeper: the command is an extra: pip install 'stepkeeper[worker]'\n"
    )


def test_help_imports_no_client_and_no_worker() -> None:
    """That is what makes it quick, on any machine."""
    done = python(
        "import sys; from worker.cli import main; main(['--help'])\n"
        "heavy = {'celery', 'redis', 'openai', 'pydantic', 'api_client'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_looking_at_jobs_imports_no_celery_and_no_openai() -> None:
    done = python(
        "import sys; from worker.cli import main\n"
        "code = main(['status', 'x', '--redis-url', 'unix:///nowhere/redis.sock'])\n"
        "heavy = {'celery', 'openai', 'worker.loop'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else code)"
    )
    assert done.returncode == failures.UNREACHABLE, done.stderr
    assert done.stderr.startswith("stepkeeper: cannot reach Redis at unix:///nowhere/redis.sock")
