"""The demo through containers that run: submit, pause, kill Redis, answer, result.

Called by ``deploy/compose-test.sh`` with the project, and the addresses of the API and of Flower.
Prints what it does; raises whatever goes wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

WAIT_S = 180.0
TASK = "Ich hätte gern eine Entschädigung für Bestellung 1187."


def podman(*words: str) -> str:
    """Run podman; returns what it prints."""
    done = subprocess.run(
        ["podman", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"podman {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def say(text: str) -> None:
    """Tell what has happened."""
    sys.stdout.write(f"compose-test: {text}\n")
    sys.stdout.flush()


class Containers:
    """The containers of one project."""

    def __init__(self, project: str) -> None:
        self._project = project

    def of(self, service: str) -> str:
        """The name of a service's container.

        Raises:
            RuntimeError: there is none, or more than one.
        """
        names = podman(
            "ps", "--all", "--format", "{{.Names}}",
            "--filter", f"label=io.podman.compose.project={self._project}",
            "--filter", f"label=com.docker.compose.service={service}",
        ).split()  # fmt: skip
        if len(names) != 1:
            raise RuntimeError(f"service {service} has containers {names}, not one")
        return names[0]

    def healthy(self, service: str) -> bool:
        """Run a service's health check in its container."""
        try:
            podman("healthcheck", "run", self.of(service))
        except RuntimeError:
            return False
        return True

    def log(self, service: str) -> str:
        """The last lines that a service printed."""
        return podman("logs", "--tail", "30", self.of(service))


def wait(check: Callable[[], Any], what: str) -> Any:
    """Ask again and again until there is an answer.

    Raises:
        TimeoutError: there is none within three minutes.
    """
    deadline, pause = time.monotonic() + WAIT_S, threading.Event()
    while time.monotonic() < deadline:
        try:
            if value := check():
                return value
        except (OSError, ValueError):
            pass  # not up yet
        pause.wait(1)
    raise TimeoutError(f"not within {WAIT_S:g} s: {what}")


class Api:
    """The HTTP API, as one of its callers."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key

    def __call__(self, path: str, body: object = None) -> dict[str, Any]:
        """A request; a refusal is an error."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            found: dict[str, Any] = json.load(response)
            return found


def main(project: str, url: str, flower: str) -> None:
    """Run the demo."""
    containers = Containers(project)
    for service in ("redis", "model", "worker", "serve", "flower"):
        wait(partial(containers.healthy, service), f"{service} is healthy")
        say(f"{service} is healthy")
    made = ("stepkeeper", "keys", "create", "anna", "--role", "submit", "--role", "review")
    api = Api(url, podman("exec", containers.of("serve"), *made).strip())
    job = wait(
        lambda: api("/v1/jobs", {"agent": "shop", "input": TASK})["job_id"], "a job is accepted"
    )
    wait(lambda: api(f"/v1/jobs/{job}?wait=30")["status"] == "paused", "the job asks a person")
    say(f"job {job} waits for a person")
    before = podman("inspect", "--format", "{{.State.Pid}}", containers.of("redis"))
    podman("kill", "--signal", "KILL", containers.of("redis"))
    _start_again(containers)
    after = podman("inspect", "--format", "{{.State.Pid}}", containers.of("redis"))
    if before == after:
        raise RuntimeError("redis was not killed")
    say("redis was killed, and is healthy again")
    answer = {"kind": "answer", "value": "ja, 10 Euro"}
    wait(lambda: api(f"/v1/jobs/{job}/signals?pause=p1", answer), "the answer is accepted")
    outcome = wait(lambda: api(f"/v1/jobs/{job}/result?wait=30").get("outcome"), "the job ends")
    if "10 Euro" not in str(outcome["value"]):
        raise RuntimeError(f"another answer than the person's: {outcome}")
    say(f"answered: {outcome['value']}")
    _check_flower(flower)
    started = time.monotonic()
    podman("stop", "--time", "40", containers.of("worker"))
    code = podman("inspect", "--format", "{{.State.ExitCode}}", containers.of("worker")).strip()
    say(f"the worker left in {time.monotonic() - started:.1f} s, exit code {code}")
    if code != "0":
        raise RuntimeError(f"the worker did not leave by itself:\n{containers.log('worker')}")


def _start_again(containers: Containers) -> None:
    """``restart: unless-stopped`` does it, or we do where the engine counts a kill as a stop."""
    name = containers.of("redis")
    threading.Event().wait(2)
    if podman("inspect", "--format", "{{.State.Running}}", name).strip() != "true":
        podman("start", name)
    wait(lambda: containers.healthy("redis"), "redis is healthy again")


def _check_flower(url: str) -> None:
    """It answers, and asks for a password."""
    try:
        urllib.request.urlopen(url, timeout=30)
    except urllib.error.HTTPError as refused:
        if refused.code == 401:
            say("flower answers, and asks for a password")
            return
        raise
    raise RuntimeError("flower shows itself without a password")


if __name__ == "__main__":
    main(*sys.argv[1:])
