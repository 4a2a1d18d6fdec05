"""What is released: the wheel's contents, its extras each alone, its types and its public names."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from zipfile import ZipFile

import pytest

from tests.support.distribution import ROOT, Environment, build, environment

PACKAGES = ("api_client", "worker")
NAMES = ROOT / "tests" / "fixtures" / "public_names.json"

Given = Callable[..., Environment]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Wheel and sdist of the work tree."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def given(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Given:
    """Environments with the wheel and so many of its extras, each made once."""
    made: dict[tuple[str, ...], Environment] = {}

    def give(*extras: str) -> Environment:
        if extras not in made:
            folder = tmp_path_factory.mktemp("-".join(("env", *extras)))
            made[extras] = environment(folder, built[0], extras)
        return made[extras]

    return give


def names_in(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_the_two_packages_whole_and_nothing_else(built: tuple[Path, Path]) -> None:
    """Lua, templates, styles and the marks of typing with them; no tests, no lessons."""
    ours = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names_in(built[0]) == ours
    kinds = {Path(name).suffix for name in ours}
    assert kinds >= {".lua", ".html", ".css", ".js", ".typed", ".toml"}
    assert not [name for name in ours if "lesson" in name or Path(name).name.startswith("test_")]


def test_the_sdist_holds_what_a_distributor_needs_and_no_leftovers(
    built: tuple[Path, Path],
) -> None:
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"}
    assert names >= {"requirements.lock", "tests/conftest.py", "worker/store/lua/commit.lua"}
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {".venv", ".git", "build", "dist"}


def test_the_wheel_says_who_it_is(built: tuple[Path, Path], given: Given) -> None:
    version = built[0].name.split("-")[1]
    asked = given("worker").stepkeeper("--version")
    assert asked.stdout.split() == ["stepkeeper", version]


def test_the_client_alone_loads_nothing_of_the_worker(given: Given) -> None:
    """Importing it costs less than the libraries that it stands on."""
    code = "import api_client, json, sys; print(json.dumps(sorted(sys.modules)))"
    asked = given().run("-c", code)
    loaded = {name.partition(".")[0] for name in json.loads(asked.stdout)}
    assert "api_client" in loaded
    foreign = {"worker", "openai", "anthropic", "fastapi", "typer", "rich", "celery", "kombu"}
    assert not loaded & foreign


def import_ms(python: Environment, modules: str, runs: int = 5) -> float:
    """Median time of a process that imports ``modules``, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        python.run("-c", f"import {modules}")
        times.append((time.perf_counter() - start) * 1000)
    return median(times)


def test_how_long_the_import_takes_is_told(
    given: Given, record_property: Callable[[str, object], None]
) -> None:
    """Reported, not judged; what would make it slow is judged by the test above."""
    floor = import_ms(given(), "redis, celery, pydantic")
    ratio = import_ms(given(), "api_client") / floor
    record_property("import_ratio", round(ratio, 2))
    print(f"importing api_client takes {ratio:.2f} of importing redis, celery and pydantic")
    assert ratio > 0


START_A_SERVER = (
    "from worker.embedded import EmbeddedServer\nwith EmbeddedServer('data') as s: print(s.pid)"
)


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("worker", "import worker; worker.OpenAIModel; worker.install"),
        ("embedded", START_A_SERVER),
        ("web", "from worker.web.parts import Parts"),
        ("metrics", "import worker.telemetry.metrics"),
        ("anthropic", "from worker.models import AnthropicModel"),
        ("mcp", "import worker.mcp"),
        ("otel", "import worker.telemetry.otel"),
        ("flower", "import flower.app, api_client"),
        ("bench", "import matplotlib.pyplot, api_client"),
        ("encryption", "import cryptography.fernet, api_client"),
    ],
)
def test_each_extra_works_alone(given: Given, extra: str, code: str) -> None:
    asked = given(extra).run("-c", code)
    assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("worker", "import worker; worker.OpenAIModel"),
        ("worker", "from worker import install"),
        ("anthropic", "from worker.models import AnthropicModel"),
        ("mcp", "import worker.mcp"),
        ("embedded", START_A_SERVER),
    ],
)
def test_what_is_missing_names_its_extra(given: Given, extra: str, code: str) -> None:
    asked = given().run("-c", code)
    assert asked.returncode == 1
    assert f"pip install 'stepkeeper[{extra}]'" in asked.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("extras", "extra", "command"),
    [
        ((), "worker", ["--help"]),
        (("worker",), "web", ["serve", "--no-key-on-loopback"]),
        (("worker",), "embedded", ["demo"]),
        (("worker",), "embedded", ["jobs", "--embedded"]),
    ],
)
def test_a_command_without_its_extra_says_which(
    given: Given, extras: tuple[str, ...], extra: str, command: list[str]
) -> None:
    asked = given(*extras).stepkeeper(*command)
    assert asked.returncode != 0
    assert f"pip install 'stepkeeper[{extra}]'" in asked.stderr
    assert "Traceback" not in asked.stderr


CONSUMER = '''
from pydantic import BaseModel

from api_client import AgentClient, Answer, JobView, Pause
from worker import ActionContext, Agent, FunctionModel, install, run_inline, tool


class Verdict(BaseModel):
    refund: int


@tool(effects="once", approval=True)
def pay(context: ActionContext, order: str, cents: int) -> str:
    """Pay a customer back."""
    return f"{context.idempotency_key} {order} {cents}"


shop = Agent(name="shop", goal="Help.", tools=[pay], output=Verdict)
client = AgentClient("redis://127.0.0.1:6379/0")


def submit(text: str) -> str:
    job_id: str = client.submit("shop", text, tenant="acme")
    view: JobView = client.get(job_id)
    pause: Pause | None = view.pause
    if pause is not None:
        client.signal(job_id, Answer(value="yes", by="ada"), pause_id=pause.id)
    return job_id
'''


def test_who_uses_the_wheel_is_type_checked_strictly(given: Given, tmp_path: Path) -> None:
    (tmp_path / "consumer.py").write_text(CONSUMER)
    (tmp_path / "wrong.py").write_text("import api_client\n\napi_client.AgentClient(3).submit(1)\n")
    python = str(given("worker").python)
    check = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "."]
    told = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = [line for line in told.stdout.splitlines() if "error:" in line]
    assert lines, told.stderr
    assert all(line.startswith("wrong.py") for line in lines), told.stdout


def test_the_public_names_are_those_that_are_promised() -> None:
    """A name that is added is added to the file; one that goes is a breaking change."""
    promised = json.loads(NAMES.read_text())
    found = {module: sorted(import_module(module).__all__) for module in promised}
    assert found == promised
    for module, names in promised.items():
        for name in names:
            assert getattr(import_module(module), name) is not None
