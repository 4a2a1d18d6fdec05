"""Hosts of our own on this machine: network namespaces joined by a switch, each with its address.

Nothing of them can be seen from outside: the switch is a namespace too. The addresses are from the
block that RFC 5737 sets aside for examples. Making them takes root and iproute2.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "skhosts-"
BLOCK = "192.0.2"
_WIRES = "skw"


def why_not() -> str | None:
    """What this machine lacks for hosts of our own, or ``None``."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed (Debian: apt install iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    tried = f"{PREFIX}try-{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", tried], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespaces here: {made.stderr.strip()}"
    _ip("netns", "delete", tried)
    return None


class Hosts:
    """Named hosts on one switch.

    Args:
        names: of the hosts; the first has the address ``192.0.2.1``, and so on.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._run = f"{PREFIX}{os.getpid()}-"
        self._switch = f"{self._run}switch"

    def __enter__(self) -> Self:
        _clear_leftovers()
        try:
            self._make_switch()
            for name in self._names:
                self._make_host(name)
        except BaseException:
            self._clear()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._clear()

    def address(self, name: str) -> str:
        """The host's address."""
        return f"{BLOCK}.{self._names.index(name) + 1}"

    def on(self, name: str) -> tuple[str, ...]:
        """The words before a command that make it run on this host."""
        return ("ip", "netns", "exec", f"{self._run}{name}")

    def cut(self, name: str) -> None:
        """Pull the host's cable out of the switch: what it sends is lost in silence."""
        _ip("-n", self._switch, "link", "set", self._port(name), "down")

    def join(self, name: str) -> None:
        """Put the cable back."""
        _ip("-n", self._switch, "link", "set", self._port(name), "up")

    def _port(self, name: str) -> str:
        return f"{_WIRES}{self._names.index(name)}"

    def _make_switch(self) -> None:
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")

    def _make_host(self, name: str) -> None:
        host, port = f"{self._run}{name}", self._port(name)
        _ip("netns", "add", host)
        cable = ("type", "veth", "peer", "name", "eth0", "netns", host)
        _ip("-n", self._switch, "link", "add", port, *cable)
        _ip("-n", self._switch, "link", "set", port, "master", "bridge")
        _ip("-n", self._switch, "link", "set", port, "up")
        _ip("-n", host, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", host, "link", "set", device, "up")

    def _clear(self) -> None:
        for name in _existing():
            if name.startswith(self._run):
                _remove(name)


def _clear_leftovers() -> None:
    """Remove the hosts of test runs that were killed."""
    for name in _existing():
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and pid.isdigit() and not Path("/proc", pid).exists():
            _remove(name)


def _existing() -> list[str]:
    return [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]


def _remove(name: str) -> None:
    """Delete a namespace, and end whoever still lives in it."""
    for pid in _ip("netns", "pids", name).split():
        os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr.strip()}"
    return done.stdout
