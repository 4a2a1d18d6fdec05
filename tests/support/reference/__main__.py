"""Write the pages of ``docs/reference`` anew."""

from __future__ import annotations

from tests.support.reference import PAGES
from tests.support.workers import ROOT

for name, page in PAGES.items():
    (ROOT / "docs" / "reference" / f"{name}.md").write_text(page())
