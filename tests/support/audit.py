"""Known vulnerabilities of what ``requirements.lock`` pins, by pip-audit: make audit.

Where the advisory service cannot be reached, or is one that knows no package, nothing is known,
which is neither clean nor a finding: it is said in so many words, and is no failure of the build.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.support.workers import ROOT

CLEAN, VULNERABLE, BROKEN = 0, 1, 2
_OUT_OF_REACH = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|Max retries|ServiceError|[Tt]imed out|resol"
    r"|Proxy|Forbidden|Service Unavailable|[45]\d\d (Client|Server) Error"
)
COMMAND = [
    *(sys.executable, "-m", "pip_audit", "--requirement", str(ROOT / "requirements.lock")),
    *("--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off"),
]


def judge(output: str, errors: str) -> tuple[int, str]:
    """Exit code and words, of what pip-audit wrote to its two outputs."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, TypeError, KeyError):
        last = errors.strip().splitlines()[-1:] or ["it said nothing"]
        if _OUT_OF_REACH.search(errors):
            return CLEAN, f"NO AUDIT WAS MADE: the advisory service cannot be reached ({last[0]})"
        return BROKEN, f"pip-audit failed: {last[0]}"
    skipped = [p["name"] for p in packages if "vulns" not in p]
    bad = [(p, v) for p in packages for v in p.get("vulns", ())]
    lines = [
        f"{p['name']} {p['version']}: {v['id']}, fixed in {', '.join(v['fix_versions']) or 'none'}"
        for p, v in bad
    ]
    if len(skipped) == len(packages):
        return CLEAN, f"NO AUDIT WAS MADE: the service knows none of {len(packages)} packages"
    lines += [f"not audited: {name}" for name in skipped]
    lines.append(f"{len(packages) - len(skipped)} packages audited, {len(bad)} vulnerabilities")
    return VULNERABLE if bad else CLEAN, "\n".join(lines)


def main(command: Sequence[str] = COMMAND) -> int:
    """Ask, and say what came of it."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    code, words = judge(done.stdout, done.stderr)
    sys.stdout.write(words + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
