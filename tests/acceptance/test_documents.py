"""The README and each page, done as a reader would do them, in a fresh folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents.blocks import blocks_of, pages
from tests.support.documents.player import Player
from tests.support.workers import ROOT
from worker.devserver import ModelServer
from worker.models.scripted import act, say

PLAYED = [page for page in pages() if any(not block.elsewhere for block in blocks_of(page))]


def clerk(messages: list[dict[str, Any]]) -> Any:
    """What a sensible model would do for the customer of the tutorial."""
    seen = sum(message["role"] == "tool" for message in messages)
    if seen == 0:
        return act("I look at the order.", ("order_status", {"order_id": "1187"}))
    if seen == 1 and "broken" in messages[1]["content"]:
        return act("I refund it.", ("refund", {"order_id": "1187", "amount": 59.9}))
    return say("Your refund is on its way." if seen == 2 else "It came on 26 October.")


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    """A model behind an HTTP API on this machine."""
    with ModelServer(clerk) as server:
        yield server.base_url


@pytest.mark.parametrize("page", PLAYED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, redis_url: str, model_url: str
) -> None:
    with Player(tmp_path, redis_url, model_url) as player:
        player.play(blocks_of(page))
