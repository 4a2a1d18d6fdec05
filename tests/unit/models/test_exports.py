"""What `worker.models` offers, and what naming it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import worker.models


def test_every_name_is_there_and_no_other() -> None:
    homes = {name: getattr(worker.models, name) for name in worker.models.__all__}
    assert {n: v.__name__ for n, v in homes.items() if n not in ("Fate", "Message")} == {
        n: n for n in homes if n not in ("Fate", "Message")
    }
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = worker.models.Nothing


def test_no_sdk_is_imported_before_its_adapter_is_named() -> None:
    code = (
        "import sys, worker.models, worker.replies, worker.models.scripted, worker.devserver;"
        "found = {'openai', 'anthropic', 'httpx2'} & set(sys.modules);"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
