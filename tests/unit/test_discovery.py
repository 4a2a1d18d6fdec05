"""Import paths under which there is nothing."""

from __future__ import annotations

import pytest

from worker.discovery import load_agents
from worker.errors import AgentDefinitionError


@pytest.mark.parametrize("path", [":shop", "..agents", ".", "no.such.module", "a b", "/a/b.py"])
def test_what_is_no_import_path_is_named(path: str) -> None:
    with pytest.raises(AgentDefinitionError) as refused:
        load_agents([path])
    assert path in str(refused.value)
    assert "'shop.agents:refunds'" in str(refused.value)
