"""The documentation as a site: built without a warning, every page in its navigation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.workers import ROOT

CONFIG = ROOT / "deploy" / "mkdocs.yml"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    command = ["mkdocs", "build", "--quiet", "--strict", "-f", str(CONFIG), "-d", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_every_page_has_its_place(site: Path) -> None:
    text = CONFIG.read_text()
    nav = yaml.safe_load(text)["nav"]  # type: ignore[no-untyped-call]
    placed = set(_pages(nav))
    docs = ROOT / "docs"
    assert placed == {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    assert (site / "index.html").is_file()


def _pages(place: object) -> list[str]:
    match place:
        case str():
            return [place]
        case list():
            return [page for each in place for page in _pages(each)]
        case dict():
            return [page for each in place.values() for page in _pages(each)]
    raise TypeError(place)


def test_a_page_asks_nobody_else_for_anything(site: Path) -> None:
    for page in ("index.html", "concepts/index.html"):
        html = (site / page).read_text()
        loaded = [part.split('"')[0] for part in html.split('src="')[1:]]
        assert [
            address for address in loaded if address.startswith(("http:", "https:", "//"))
        ] == []
    assert 'src="../pictures/states.svg"' in (site / "concepts" / "index.html").read_text()
