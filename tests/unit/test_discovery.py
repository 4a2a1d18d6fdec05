"""Import paths under which there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.discovery import load_agents
from worker.errors import AgentDefinitionError


@pytest.mark.parametrize("path", [":shop", "..agents", ".", "no.such.module", "a b", "/a/b.py"])
def test_what_is_no_import_path_is_named(path: str) -> None:
    with pytest.raises(AgentDefinitionError) as refused:
        load_agents([path])
    assert path in str(refused.value)
    assert "'shop.agents:refunds'" in str(refused.value)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a module that cannot be imported; its name is that of the test's folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / f"agents_{abs(hash(tmp_path))}.py"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Agent(name='shop', goal='x', max_step=3)", "got an unexpected keyword argument"),
        ("Agent(name='a b', goal='x')", "'a b'"),
        ("Agent(name='shop', goal='x', tools=[lambda x: x])", "<lambda>"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_module_that_raises_is_told_with_the_line(broken: Path, line: str, told: str) -> None:
    broken.write_text(f"from worker import Agent\n\n{line}\n")
    with pytest.raises(AgentDefinitionError) as refused:
        load_agents([broken.stem])
    assert told in str(refused.value)
    assert f"({broken}, line 3)" in str(refused.value)


def test_a_module_that_does_not_parse_is_told_with_its_file(broken: Path) -> None:
    broken.write_text("def agents(:\n")
    with pytest.raises(AgentDefinitionError) as refused:
        load_agents([broken.stem])
    assert "SyntaxError" in str(refused.value)
    assert str(broken) in str(refused.value)
