"""An interrupt that comes while something is being acquired."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.undisturbed import scratch_folder, undisturbed


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """As in a program of one's own; who started the tests may have them ignore a Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_is_raised_after_the_block() -> None:
    done: list[str] = []

    def acquire() -> None:
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append("the rest of the block")

    with pytest.raises(KeyboardInterrupt):
        acquire()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_the_block_raises_goes_first() -> None:
    with pytest.raises(OSError, match="no space"), undisturbed():
        raise OSError("no space")


def test_a_folder_just_made_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tempfile.mkdtemp

    def interrupted(*args: object, **options: object) -> str:
        folder = make(dir=tmp_path)
        signal.raise_signal(signal.SIGINT)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_folder("some-"):
        raise AssertionError("the block is not entered")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_ends_with_its_block() -> None:
    with scratch_folder("some-") as folder:
        (folder / "file").write_text("x")
    assert not folder.exists()
