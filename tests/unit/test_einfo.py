"""Tracebacks as Celery keeps them, from copies of code that are made once."""

from __future__ import annotations

import pickle
import traceback

import pytest
from billiard import einfo

from worker.einfo import copy_of, reuse_copies


@pytest.fixture(autouse=True)
def reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(einfo._Frame, "Code", einfo._Frame.Code)
    reuse_copies()


def caught() -> einfo.ExceptionInfo:
    def failing() -> None:
        raise ValueError("no")

    try:
        failing()
    except ValueError:
        return einfo.ExceptionInfo()
    raise AssertionError


def test_a_traceback_says_the_same_as_before() -> None:
    info = caught()
    names = [frame.name for frame in traceback.extract_tb(info.tb)]
    assert names == ["caught", "failing"]
    assert "ValueError: no" in str(info.traceback)


def test_code_is_copied_once_and_told_from_its_like() -> None:
    twins = [compile("x = 1", name, "exec") for name in ("one.py", "two.py")]
    copies = [copy_of(code) for code in twins]
    assert copy_of(twins[0]) is copies[0]
    assert [copied.co_filename for copied in copies] == ["one.py", "two.py"]


def test_a_traceback_still_crosses_processes() -> None:
    sent = pickle.loads(pickle.dumps(caught()))
    assert "ValueError: no" in sent.traceback
    assert sent.tb.tb_next.tb_frame.f_code.co_name == "failing"
