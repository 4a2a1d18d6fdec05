"""The commands around limits of models, what the doctor says of them, and what they cost."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from api_client.connection import connect
from api_client.contract import JobSpec, JobStatus
from api_client.errors import InvalidInput
from worker.agent import Agent
from worker.cli import main
from worker.doctor.model_limits import check
from worker.ends import Ended
from worker.flow.assemble import ledger_on, make_gate
from worker.flow.base import Ask, Limit, Settled, Use
from worker.flow.book import Tick
from worker.leases import Leases
from worker.models import ScriptedModel
from worker.models.scripted import act
from worker.runner import Runner
from worker.settings import Settings
from worker.store.redis import RedisCheckpointStore
from worker.tools import tool

KEY = "api.test/small"
Said = tuple[int, str, str]


@pytest.fixture
def client(redis_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        yield client


@pytest.fixture
def stepkeeper(
    redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs a command; returns exit code, output and errors."""
    monkeypatch.setenv("STEPKEEPER_REDIS_URL", redis_url)

    def run(*words: str) -> Said:
        code = main(words)
        return (code, *capsys.readouterr())

    return run


def listed(stepkeeper: Callable[..., Said]) -> list[dict[str, Any]]:
    code, out, _ = stepkeeper("limits", "--json")
    assert code == 0
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_a_limit_is_set_listed_and_forgotten(stepkeeper: Callable[..., Said]) -> None:
    assert stepkeeper("limits")[:2] == (
        0,
        "no model has a limit: stepkeeper limits set KEY --rpm 500\n",
    )
    code, out, _ = stepkeeper("limits", "set", KEY, "--rpm", "500", "--in-flight", "20")
    assert (code, out) == (
        0,
        f"{KEY}: 500 requests a minute, 20 calls at once, for all workers within some seconds\n",
    )
    [row] = listed(stepkeeper)
    assert row["key"] == KEY
    assert row["limit"] == {"rpm": 500, "tpm": None, "in_flight": 20}
    assert row["set_by"] == "command"
    assert row["use"]["requests"] == 0
    assert KEY in stepkeeper("limits")[1]
    assert stepkeeper("limits", "unset", KEY)[0] == 0
    assert listed(stepkeeper) == []
    code, _, err = stepkeeper("limits", "unset", KEY)
    assert code == 2
    assert f"{KEY}: no limit was set by command" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((KEY,), "names at least one of rpm, tpm and in_flight"),
        ((KEY, "--rpm", "0"), "rpm: Input should be greater than or equal to 1 (given: 0)"),
        ((KEY, "--tpm", "-5"), "tpm: Input should be greater than or equal to 1 (given: -5)"),
        (("a {b}", "--rpm", "1"), "model key 'a {b}': 1 to 200 of the characters"),
    ],
)
def test_what_cannot_be_a_limit_is_refused(
    stepkeeper: Callable[..., Said], words: tuple[str, ...], said: str
) -> None:
    code, out, err = stepkeeper("limits", "set", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_the_list_shows_the_settings_and_the_use(
    stepkeeper: Callable[..., Said], client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPKEEPER_MODEL_LIMITS", json.dumps({KEY: {"rpm": 2, "tpm": 100}}))
    ledger = ledger_on(client, Settings.from_env())
    for number in range(3):
        ledger.reserve(KEY, Limit(rpm=2), Ask(f"c{number}", f"j{number}", "", 30))
    ledger.settle(KEY, Settled("c0", 0, 0, 5, close_ms=90_000))
    [row] = listed(stepkeeper)
    assert row["set_by"] == "settings"
    use = row["use"]
    assert (use["requests"], use["tokens"], use["in_flight"], use["waiting"]) == (2, 60, 1, 1)
    assert 80_000 < use["closed_ms"] <= 90_000
    out = stepkeeper("limits")[1]
    assert "2 of 2" in out
    assert "60 of 100" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"k": {"rpm": 0}}', "model_limits.k.rpm"),
        ('{"k": {"rps": 1}}', "model_limits.k.rps"),
        ('{"k": {}}', "at least one"),
        ('{"a b": {"rpm": 1}}', "'a b' is no model key"),
    ],
)
def test_settings_are_checked(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPKEEPER_MODEL_LIMITS", text)
    with pytest.raises(InvalidInput, match=said):
        Settings.from_env()


def test_the_doctor_tells_of_a_limit_that_is_too_small(
    stepkeeper: Callable[..., Said], client: Any
) -> None:
    stepkeeper("limits", "set", KEY, "--tpm", "100")
    ledger = ledger_on(client, Settings.from_env())
    ledger.reserve(KEY, Limit(tpm=100), Ask("c", "j", "", 450))
    code, out, _ = stepkeeper("doctor", "--no-workers", "--json")
    found = [f for f in json.loads(out)["findings"] if f["area"] == "limits"]
    assert code == 1
    assert [finding["level"] for finding in found] == ["error"]
    assert "a call needed 450 tokens, and a minute allows 100" in found[0]["what"]
    assert f"stepkeeper limits set {KEY} --tpm 450" in found[0]["fix"]
    stepkeeper("limits", "set", KEY, "--tpm", "1000")
    out = stepkeeper("doctor", "--no-workers", "--json")[1]
    assert not [f for f in json.loads(out)["findings"] if f["area"] == "limits"]


def test_the_doctor_tells_of_a_long_queue() -> None:
    [finding] = check({KEY: Limit(rpm=3)}, {KEY: Use(waiting=60)})
    assert finding.level == "warning"
    assert "the last of them for 20 minutes" in finding.what
    assert list(check({KEY: Limit(rpm=3)}, {KEY: Use(waiting=20)})) == []


# --- what it costs ---------------------------------------------------------------------------


@tool(effects="safe")
def look(x: int) -> str:
    """Read."""
    return str(x)


def commands_of_a_job(url: str, steps: int, **limits: Limit) -> int:
    """Run a job of so many steps; returns how many commands the server was sent by it."""
    client = connect(url)
    settings = Settings(redis_url=url, model_limits=limits)
    store = RedisCheckpointStore(client)
    script = [*(act("", ("look", {"x": n})) for n in range(steps)), "done"]
    agent = Agent(
        name="a", goal="g", tools=[look], model=ScriptedModel(script, name="m"), max_steps=None
    )
    runner = Runner(
        store=store,
        agents={"a": agent},
        owner="n/b/1/",
        leases=Leases(store, 60_000),
        clock_ms=lambda: 0,
        default_model=lambda: agent.model,  # type: ignore[arg-type, return-value]
        gate=make_gate(ledger_on(client, settings), settings, Tick()),
    )
    for _ in range(2):  # the first one brings the scripts, and reads the limits
        job = str(uuid.uuid4())
        store.create(JobSpec(job_id=job, agent="a", input="go"))
        before = client.info("stats")["total_commands_processed"]
        end = runner.run(job)
        after = client.info("stats")["total_commands_processed"]
        assert isinstance(end, Ended)
        assert end.status is JobStatus.SUCCEEDED
    client.close()
    return int(after) - int(before)


def test_without_a_limit_no_command_is_sent_for_it(redis_url: str) -> None:
    without = commands_of_a_job(redis_url, 5)
    assert commands_of_a_job(redis_url, 5, other=Limit(rpm=1)) == without


def test_with_a_limit_each_call_costs_two_scripts(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:

        def scripts() -> int:
            stats: Any = client.info("commandstats")
            return sum(stats[name]["calls"] for name in stats if name.startswith("cmdstat_eval"))

        commands_of_a_job(redis_url, 5)
        counts = []
        for limits in ({}, {"m": Limit(rpm=1000)}):
            commands_of_a_job(redis_url, 5, **limits)
            before = scripts()
            commands_of_a_job(redis_url, 5, **limits)
            counts.append(scripts() - before)
    calls = 2 * 6  # two jobs of six model calls
    assert counts[1] - counts[0] == 2 * calls
