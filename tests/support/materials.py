"""A bill of materials of what ``requirements.lock`` pins, in the form CycloneDX: make sbom."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tests.support.workers import ROOT

LOCK = ROOT / "requirements.lock"
_PIN = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)(?: *; *([^\\\n]+))?", re.MULTILINE
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def pins(lock: str) -> Iterator[Component]:
    """The packages of a lock file, each with the hashes of its files."""
    found = list(_PIN.finditer(lock))
    for pin, following in zip(found, [*found[1:], None], strict=True):
        name, number = pin.group(1).lower(), pin.group(2)
        until = following.start() if following else len(lock)
        hashes = _HASH.findall(lock, pin.end(), until)
        url = PackageURL("pypi", None, name, number)
        yield Component(
            name=name,
            version=number,
            type=ComponentType.LIBRARY,
            purl=url,
            bom_ref=url.to_string(),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in hashes],
        )


def bill(lock: str) -> str:
    """The bill as JSON.

    Raises:
        ValueError: it is not what CycloneDX's schema says.
    """
    parts = list(pins(lock))
    whole = Component(
        name="stepkeeper", version=version("stepkeeper"), type=ComponentType.APPLICATION
    )
    bom = Bom(components=parts)
    bom.metadata.component = whole
    bom.register_dependency(whole, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"the bill of materials is not valid: {wrong}")
    return text


def main(target: str) -> None:
    """Write the bill."""
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(bill(LOCK.read_text()))
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1])
