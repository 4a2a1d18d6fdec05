"""What ``docker-compose.yml`` describes, run without containers, and used as a stranger would."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.compose import PORTS, Project, made_environment, services
from tests.support.workers import eventually

TASK = "Ich hätte gern eine Entschädigung für Bestellung 1187."

pytestmark = pytest.mark.skipif(
    shutil.which("redis-cli") is None or shutil.which("redis-server") is None,
    reason="the compose file's Redis needs the programs redis-server and redis-cli",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """All services that run without a profile, and the model's."""
    with Project(tmp_path_factory.mktemp("project"), made_environment()) as project:
        project.up("redis")
        for name in ("model", "worker", "serve", "flower"):
            project.start(name)
        for name in ("model", "worker", "serve", "flower"):
            project.wait_healthy(name)
        yield project


@pytest.fixture(scope="module")
def api(project: Project) -> Iterator[httpx.Client]:
    """The HTTP API, with a key made as the documents say."""
    words = ("keys", "create", "anna", "--role", "submit", "--role", "review")
    made = project.run("serve", "stepkeeper", *words)
    assert made.returncode == 0, made.stderr
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    url = project.url("8080")
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


def submit(api: httpx.Client) -> str:
    """A job that asks a person; returns its id once it waits."""

    def accepted() -> Any:
        answer = api.post("/v1/jobs", json={"agent": "shop", "input": TASK})
        return answer.json().get("job_id") if answer.status_code < 300 else None

    job: str = eventually(accepted, "the agent is announced and the job accepted")
    assert api.get(f"/v1/jobs/{job}?wait=30").json()["status"] == "paused"
    return job


def answer(api: httpx.Client, job: str) -> dict[str, Any]:
    """Answer the job's question; returns how it ended."""
    body = {"kind": "answer", "value": "ja, 10 Euro"}
    accepted = api.post(f"/v1/jobs/{job}/signals?pause=p1", json=body)
    assert accepted.status_code < 300, accepted.text
    outcome: dict[str, Any] = api.get(f"/v1/jobs/{job}/result?wait=30").json()["outcome"]
    return outcome


def test_a_job_is_submitted_answered_and_read_by_http(project: Project, api: httpx.Client) -> None:
    outcome = answer(api, submit(api))
    assert "10 Euro" in outcome["value"]
    assert httpx.get(f"{project.url('8080')}/v1/jobs", trust_env=False).status_code == 401
    page = httpx.get(project.url("8080"), trust_env=False, follow_redirects=True)
    assert page.status_code == 200
    assert "html" in page.headers["content-type"]


def test_the_doctor_finds_nothing(project: Project, api: httpx.Client) -> None:
    submit(api)
    for name, words in {"worker": ["--model"], "flower": ["--no-writes"]}.items():
        done = project.run(name, "stepkeeper", "doctor", "--json", *words)
        found = json.loads(done.stdout)["findings"]
        assert found == [], done.stderr


def test_flower_shows_workers_and_jobs_and_changes_nothing(
    project: Project, api: httpx.Client
) -> None:
    job = submit(api)
    env = made_login(project)
    url = project.url("5555")
    assert httpx.get(url, trust_env=False).status_code == 401
    with httpx.Client(base_url=url, auth=env, timeout=30, trust_env=False) as flower:

        def shown() -> bool:
            tasks = flower.get("/api/tasks").json()
            return bool(tasks.get(job, {}).get("state") == "PAUSED")

        eventually(shown, "Flower shows the job as paused")
        workers = flower.get("/api/workers?refresh=true").json()
        (info,) = workers.values()
        assert [queue["name"] for queue in info["active_queues"]] == ["celery"]
        assert flower.post(f"/api/task/revoke/{job}?terminate=true").status_code in (403, 405)
    assert api.get(f"/v1/jobs/{job}").json()["status"] == "paused"


def made_login(project: Project) -> tuple[str, str]:
    """Flower's user and password."""
    name, _, password = project.setting("flower", "FLOWER_BASIC_AUTH").partition(":")
    return name, password


def test_redis_dies_and_comes_back_and_nothing_is_lost(project: Project, api: httpx.Client) -> None:
    job = submit(api)
    project.kill("redis")
    assert api.get("/v1/health").status_code == 503
    project.up("redis")
    project.wait_healthy("worker")
    project.wait_healthy("serve")
    assert answer(api, job)["ok"] is True


def test_the_worker_leaves_within_its_grace(project: Project, api: httpx.Client) -> None:
    job = submit(api)
    assert project.stop("worker") == 0
    project.start("worker")
    assert answer(api, job)["ok"] is True


def test_no_port_is_open_to_others_and_no_password_is_written_down() -> None:
    found = services(made_environment())
    for service in found.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    published = {port.rpartition(":")[2] for s in found.values() for port in s.get("ports", ())}
    assert {"8080", "5555"} <= published
    assert "6379" not in published
    assert set(PORTS) >= {"6379", "8080", "5555"}


def test_without_passwords_nothing_starts() -> None:
    with pytest.raises(KeyError):
        services({})


def test_the_grace_times_fit() -> None:
    worker = services(made_environment())["worker"]
    grace = float(worker["environment"]["STEPKEEPER_SHUTDOWN_GRACE_S"])
    assert int(worker["stop_grace_period"].removesuffix("s")) >= grace + 10


def test_the_data_of_redis_outlive_its_container(tmp_path: Path) -> None:
    redis = services(made_environment())["redis"]
    folder = redis["command"][redis["command"].index("--dir") + 1]
    assert any(volume.partition(":")[2] == folder for volume in redis["volumes"])
