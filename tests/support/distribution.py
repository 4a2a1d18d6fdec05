"""The built distribution, and environments that hold exactly what one of its extras brings.

Such an environment is a venv without pip whose files are links into the one that runs the tests:
the same releases as in the lock, laid down in a second, and no network.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
NAME = "stepkeeper"


def build(folder: Path) -> tuple[Path, Path]:
    """Build wheel and sdist as a release does; returns both paths."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


@dataclass(frozen=True)
class Environment:
    """A venv of its own."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run its interpreter, far from the work tree and without the caller's settings."""
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def stepkeeper(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command, as its entry point runs it."""
        code = "import sys; from worker.cli import main; sys.exit(main())"
        return self.run("-c", code, *arguments)


def environment(folder: Path, wheel: Path, extras: Iterable[str] = ()) -> Environment:
    """A venv with the wheel and what ``stepkeeper[extras]`` asks for, and nothing else."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    for found in required(distribution(NAME), frozenset(extras)):
        _link(found, packages)
    return Environment(folder)


def required(root: Distribution, extras: frozenset[str]) -> list[Distribution]:
    """Everything that ``root`` with these extras needs, however indirectly; without itself."""
    seen: dict[tuple[str, frozenset[str]], Distribution] = {}
    waiting = [(root, extras)]
    while waiting:
        package, wanted = waiting.pop()
        key = (canonicalize_name(package.metadata["Name"]), wanted)
        if key not in seen:
            seen[key] = package
            waiting.extend(_direct(package, wanted))
    found = {name: package for (name, _), package in seen.items() if name != NAME}
    return list(found.values())


def _direct(
    package: Distribution, extras: frozenset[str]
) -> Iterable[tuple[Distribution, frozenset[str]]]:
    for line in package.requires or ():
        need = Requirement(line)
        markers = [{"extra": extra} for extra in (*extras, "")]
        if need.marker is None or any(map(need.marker.evaluate, markers)):
            itself = canonicalize_name(need.name) == canonicalize_name(package.metadata["Name"])
            yield (package if itself else distribution(need.name)), frozenset(need.extras)


def _link(package: Distribution, packages: Path) -> None:
    """Link each file of a distribution; folders are real, because several may share one."""
    for path in package.files or ():
        if ".." not in path.parts:
            link, file = packages / path, Path(str(package.locate_file(path)))
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists() and file.exists():
                link.symlink_to(file)
