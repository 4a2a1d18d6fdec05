"""A folder, a Redis and a model, in which a page's blocks are done in their order."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.documents.blocks import Block
from tests.support.documents.transcript import Ids, Said, commands
from tests.support.workers import ROOT
from worker.embedded.ports import free_ports

PATIENCE_S = 60.0


class Background:
    """A command that goes on."""

    def __init__(self, command: str, folder: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.printed = ""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self.printed += line
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def wait_for(self, expected: str, ids: Ids) -> bool:
        """Whether this is printed in time."""
        until = time.monotonic() + PATIENCE_S
        with self._more:
            while not ids.match(expected, self.printed, whole=False):
                left = until - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    return False
                self._more.wait(left)
        return True

    def stop(self) -> None:
        """Ctrl-C, and a kill if that does not help."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise
        finally:
            self._reader.join(timeout=PATIENCE_S)
            assert self._process.stdout is not None
            self._process.stdout.close()


class Player:
    """Does what a page says.

    Args:
        folder: an empty one.
        url: of an empty Redis, for ``redis://127.0.0.1:6379/0`` on the page.
        model_url: of a model's API.
    """

    def __init__(self, folder: Path, url: str, model_url: str) -> None:
        self.folder = folder
        self._ids = Ids()
        self._background: list[Background] = []
        self._real = {"redis://127.0.0.1:6379/0": url, "8080": str(next(free_ports(1)))}
        scripts = Path(sys.executable).parent
        self._env = {
            "PATH": f"{scripts}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "PYTHONPATH": f"{folder}:{ROOT}",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "STEPKEEPER_REDIS_URL": url,
            "LLM_API_KEY": "test",
            "LLM_BASE_URL": model_url,
            "LLM_MODEL": "scripted",
            "no_proxy": "*",
            "USER": "reader",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def play(self, blocks: Sequence[Block]) -> None:
        """All of them; AssertionError at the first that is not as the page says."""
        for block, behind in pairwise([*blocks, Block("", 0, "", "", ())]):
            if block.marked("stop") is not None:
                self._stop()
            if not block.elsewhere:
                self._do(block, behind)

    def _do(self, block: Block, behind: Block) -> None:
        if block.file is not None:
            self._write(block, *block.file)
        elif block.language == "python":
            self._python(block, behind.text if behind.language == "text" else None)
        elif block.language == "console":
            for said in commands(block.text):
                self._command(block, said)

    def _write(self, block: Block, name: str, add: bool) -> None:
        with (self.folder / name).open("a" if add else "w") as file:
            file.write(self._as_here(block.text))

    def _python(self, block: Block, expected: str | None) -> None:
        code, printed = self._run([sys.executable, "-c", self._as_here(block.text)])
        assert code == 0, f"{block}: exit code {code}\n{printed}"
        if expected is not None:
            assert self._ids.match(expected, printed), f"{block} printed:\n{printed}"

    def _command(self, block: Block, said: Said) -> None:
        command = self._as_here(said.command)
        expected = self._as_here(said.output)
        if command.startswith("export "):
            words = (word.partition("=") for word in shlex.split(command)[1:])
            self._env |= {name: value for name, _, value in words}
            return
        if block.marked("in the background") is not None:
            running = Background(command, self.folder, self._env)
            self._background.append(running)
            seen = running.wait_for(expected.removeprefix("…\n"), self._ids)
            assert seen, f"{block}: $ {command}\n{running.printed}"
            return
        code, printed = self._run(["bash", "-c", command])
        told = f"{block}: $ {command}\n{printed}[exit code {code}]"
        assert code == said.exit_code, told
        assert self._ids.match(expected, printed), told

    def _run(self, command: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout

    def _as_here(self, text: str) -> str:
        """The page's text with the addresses and ids of this run."""
        for shown, real in self._real.items():
            text = re.sub(rf"{re.escape(shown)}\b", real, text)
        return self._ids.put_in(text)

    def _stop(self) -> None:
        while self._background:
            self._background.pop().stop()
