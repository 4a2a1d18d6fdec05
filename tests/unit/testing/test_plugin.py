"""The pytest plugin, in sessions of its own as its users have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
AGENT = """
import pytest
from worker import Agent, hand_to_human
from worker.models import OpenAIModel, act

shop = Agent(name="shop", goal="Help.", tools=[hand_to_human])
ASKING = [act(None, ("hand_to_human", {"reason": "May I?"})), "Done."]
"""


def session(folder: Path, text: str, *options: str) -> str:
    """What pytest prints of a file of tests."""
    (folder / "test_theirs.py").write_text(AGENT + text)
    plugin = ["-p", "no:stepkeeper", "-p", "worker.testing.plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.stdout + done.stderr


def test_the_fixtures(tmp_path: Path) -> None:
    output = session(
        tmp_path,
        """
def test_inline(run_inline):
    assert run_inline(shop, "hi", model="hello").answer == "hello"

def test_script(run_inline, scripted_model):
    answered = run_inline(
        shop, "hi", model=scripted_model(ASKING), answers=lambda _: {"kind": "answer", "value": "y"}
    )
    assert answered.answer == "Done."

def test_script_left_over(run_inline, scripted_model):
    run_inline(shop, "hi", model=scripted_model(["one", "two"]))

def test_client(agent_client, memory_store):
    client = agent_client(shop, model=ASKING)
    job_id = client.submit("shop", "hi")
    assert memory_store.read(job_id).pause.question == "May I?"
    client.signal(job_id, {"kind": "answer", "value": "y"})
    assert client.result(job_id) == "Done."

def test_on_demand(agent_client):
    client = agent_client(shop, model="hello", on_demand=True)
    job_id = client.submit("shop", "hi")
    client.run_jobs()
    assert client.result(job_id) == "hello"

def test_nothing_is_left_of_the_other_tests(memory_store):
    assert memory_store.agents() == []
""",
    )
    assert "6 passed, 1 error" in output
    assert "the script was not played to its end: line 2: 'two'" in output


def test_real_calls_are_refused_unless_a_test_is_marked(tmp_path: Path) -> None:
    output = session(
        tmp_path,
        """
def call(run_inline):
    model = OpenAIModel("m", base_url="http://model.invalid/v1", api_key="k", connect_timeout=1)
    outcome = run_inline(shop, "hi", model=model, answers=lambda _: None)
    model.close()
    return outcome

def test_refused(run_inline):
    assert call(run_inline).outcome.reason == "real_call_forbidden"

@pytest.mark.real_model
def test_allowed(run_inline):
    assert call(run_inline).pause.kind == "model_error"

def test_refused_again(run_inline):
    assert "real models are forbidden in tests" in call(run_inline).outcome.text
""",
        "--strict-markers",
    )
    assert "3 passed" in output


def test_it_costs_nothing_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("")
    output = session(
        tmp_path,
        "",
        "--collect-only",
    )
    assert "no tests collected" in output
    (tmp_path / "test_theirs.py").unlink()
    (tmp_path / "test_plain.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    ours = {n for n in sys.modules if n.partition('.')[0] in ('worker', 'api_client')}\n"
        "    assert ours == {'worker', 'worker.real_calls', 'worker.testing',"
        " 'worker.testing.plugin'}\n"
        "    assert not {'openai', 'celery', 'redis', 'pydantic'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:stepkeeper", "-p", "no:cacheprovider",
         "-p", "worker.testing.plugin", "-p", "no:hypothesispytest", "-p", "no:schemathesis",
         "test_plain.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["InlineClient", "run_inline", "ScriptedModel", "act"])
def test_what_tests_need_is_found_in_one_place(name: str) -> None:
    import worker.testing

    assert getattr(worker.testing, name).__name__ == name
    assert name in worker.testing.__all__


def test_another_name_is_not() -> None:
    import worker.testing

    with pytest.raises(AttributeError, match="TestClient"):
        worker.testing.TestClient  # noqa: B018 - looked up for its error
