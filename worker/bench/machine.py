"""What a benchmark ran on: figures without it mean nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from api_client.connection import Client

_PACKAGES = {
    "celery": "celery",
    "redis_py": "redis",
    "openai": "openai",
    "stepkeeper": "stepkeeper",
}
_CPUINFO = Path("/proc/cpuinfo")


def describe_machine(server: Client) -> dict[str, Any]:
    """Processor, system, versions and the load at this moment (the averages of 1, 5, 15 minutes).

    Raises:
        redis.RedisError: the server does not say what it is.
    """
    return {
        "cpus": os.cpu_count(),
        "model": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        **{name: version(package) for name, package in _PACKAGES.items()},
        "server": server_version(server),
    }


def server_version(server: Client) -> str:
    """Such as ``valkey 9.1.0``."""
    info = server.info("server")
    if "valkey_version" in info:
        return f"valkey {info['valkey_version']}"
    return f"redis {info['redis_version']}"


def _processor() -> str:
    lines = _CPUINFO.read_text().splitlines() if _CPUINFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
