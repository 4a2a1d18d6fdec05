"""The services of ``docker-compose.yml`` as processes: the same commands, settings and checks.

The file is read, not retyped. Only what a machine without containers cannot have is replaced: names
of services by loopback, ports by free ones, paths of volumes by folders of the test.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.support.workers import ROOT
from worker.embedded.ports import free_ports

FILE = ROOT / "docker-compose.yml"
PORTS = ("6379", "8080", "5555", "8090", "9108")
KILL_AFTER_S = 60
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:[-?])([^}]*))?\})")
_SECONDS = {"s": 1, "m": 60}


def environment_file(text: str) -> dict[str, str]:
    """What a file of the form of ``.env`` says."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines)


def made_environment() -> dict[str, str]:
    """What ``deploy/make-env.sh`` prints."""
    done = subprocess.run(
        ["sh", str(ROOT / "deploy" / "make-env.sh")], capture_output=True, text=True, check=True
    )
    return environment_file(done.stdout)


def interpolated(text: str, env: Mapping[str, str]) -> str:
    """A text with its variables replaced.

    Raises:
        KeyError: one that must be given is not.
    """

    def value(match: re.Match[str]) -> str:
        escaped, name, how, word = match.groups()
        if escaped:
            return "$"
        given = env.get(name, "")
        if how == ":?" and not given:
            raise KeyError(name)
        return given or (word if how == ":-" else "")

    return _VARIABLE.sub(value, text)


def whole_file(env: Mapping[str, str]) -> dict[str, Any]:
    """The file with its variables replaced, in each text of it, as compose does it.

    Raises:
        KeyError: a variable that must be given is not.
    """

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: replaced(item) for name, item in value.items()}
        if isinstance(value, list):
            return [replaced(item) for item in value]
        return interpolated(value, env) if isinstance(value, str) else value

    raw = yaml.safe_load(FILE.read_text())  # type: ignore[no-untyped-call]
    loaded: dict[str, Any] = replaced(raw)
    return loaded


def services(env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The services of the file; raises what ``whole_file`` does."""
    found: dict[str, dict[str, Any]] = whole_file(env)["services"]
    return found


def seconds(text: str) -> int:
    """A duration as compose writes it, such as ``40s``."""
    return int(text[:-1]) * _SECONDS[text[-1]]


class Project:
    """Services as processes; each is stopped at the end, the last one first.

    Args:
        folder: for their data and logs; empty.
        env: what stands in ``.env``.
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        self._services = services(env)
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for name in reversed(list(self.processes)):
            self.stop(name)

    def up(self, *names: str) -> None:
        """Start services, each after those that it depends on, and wait until all are healthy."""
        for name in names:
            self.start(name)
            self.wait_healthy(name)

    def start(self, name: str) -> None:
        """Start a service; what it depends on must be healthy."""
        service = self._services[name]
        for other in service.get("depends_on", {}):
            assert other in self.processes, f"{name} before {other}, on which it depends"
        home = self._folder / name
        home.mkdir(exist_ok=True)
        with (home / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self._words(name, service["command"]),
                cwd=home,
                env=self._environment(name),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """``docker compose exec``: a command with the environment of a service."""
        return subprocess.run(
            self._words(name, words),
            cwd=self._folder / name,
            env=self._environment(name),
            capture_output=True,
            text=True,
            timeout=KILL_AFTER_S,
            check=False,
        )

    def wait_healthy(self, name: str) -> None:
        """Run a service's own health check, as it is written, until it succeeds."""
        check = self._services[name]["healthcheck"]
        grace = seconds(check.get("start_period", "0s")) + seconds(check["interval"])
        deadline, pause = time.monotonic() + grace, threading.Event()
        while not self.healthy(name):
            ended = self.processes[name].poll()
            if ended is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name} is not healthy, ended: {ended}\n{self.log(name)}")
            pause.wait(1.0)

    def healthy(self, name: str) -> bool:
        """Whether the service's health check succeeds within its own time-out."""
        kind, *words = self._services[name]["healthcheck"]["test"]
        line = ["sh", "-c", words[0]] if kind == "CMD-SHELL" else words
        timeout = seconds(self._services[name]["healthcheck"]["timeout"])
        return self.run(name, "timeout", str(timeout), *line).returncode == 0

    def stop(self, name: str) -> int:
        """SIGTERM, and SIGKILL after the service's grace time; returns the exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        grace = seconds(self._services[name].get("stop_grace_period", "10s"))
        try:
            return process.wait(grace)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            self._end_group(process)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._end_group(self.processes.pop(name))

    def _end_group(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):  # all of it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def setting(self, name: str, variable: str) -> str:
        """A variable in the environment of a service."""
        return self._environment(name)[variable]

    def log(self, name: str) -> str:
        """What a service has printed."""
        return (self._folder / name / "log").read_text(errors="replace")

    def url(self, port: str) -> str:
        """Where the service that listens on this port in its container is found."""
        return f"http://127.0.0.1:{self.ports[port]}"

    # --- what is replaced ------------------------------------------------------------------

    def _environment(self, name: str) -> dict[str, str]:
        """Nothing of ours but where programs are."""
        own = self._services[name].get("environment", {})
        return {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(self._folder / name),
            "REDIS_RUN_DIR": str(self._folder / name),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
            **{key: self._here(name, str(value)) for key, value in own.items()},
        }

    def _words(self, name: str, words: str | Sequence[str]) -> list[str]:
        split = shlex.split(words) if isinstance(words, str) else words
        return [self._here(name, word) for word in split]

    def _here(self, name: str, text: str) -> str:
        text = re.sub(r"\b(redis|model)(?=:\d)", "127.0.0.1", text)
        text = re.sub(r"(?<=@)redis(?=:)", "127.0.0.1", text)
        for port, free in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(free), text)
        text = text.replace("0.0.0.0", "127.0.0.1")
        text = text.replace("/etc/stepkeeper/redis", str(ROOT / "deploy" / "redis"))
        return str(self._folder / name) if text == "/data" else text
