"""A folder of Markdown files, out of which no path leads."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from api_client.contract import JobSpec
from worker.context import ActionContext


class Folder(ActionContext):
    """Markdown files by their paths in a folder; where that is, the model does not learn.

    Args:
        path: of the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = Path(path).resolve()

    def pages(self) -> list[str]:
        """The paths of all files, sorted; a link that leads out of the folder is none of them."""
        found = sorted(self._root.rglob("*.md"))
        paths = [page.relative_to(self._root).as_posix() for page in found]
        return [path for path in paths if path in self]

    def __contains__(self, path: str) -> bool:
        """Whether this is a Markdown file in the folder, seen through all links and dots."""
        try:
            page = self._find(path)
            return page.suffix == ".md" and page.is_relative_to(self._root) and page.is_file()
        except (OSError, ValueError):  # no file can have such a name
            return False

    def lines(self, path: str) -> list[str]:
        """The lines of one file.

        Raises:
            ValueError: it is not in the folder.
        """
        if path not in self:
            raise ValueError(f"{path} is not in the folder")
        return self._find(path).read_text("utf-8", errors="replace").splitlines()

    def _find(self, path: str) -> Path:
        return (self._root / path).resolve()


FolderSource = Folder | Callable[[JobSpec], Folder]
"""A folder, or how to find it for a job."""


def project_docs(_spec: JobSpec) -> Folder:
    """``STEPKEEPER_DOCS_DIR``; or the docs of this checkout; or the pages in this package."""
    own = Path(__file__).parents[2] / "docs"
    pages = own if (own / "architecture.md").is_file() else shipped_pages()
    return Folder(os.environ.get("STEPKEEPER_DOCS_DIR") or pages)


def shipped_pages() -> Path:
    """The pages about this product that come with the package."""
    return Path(__file__).parent / "pages"
