"""Running the Lua scripts: each one atomic, each one round trip."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

from api_client.connection import Client

Argument = str | int | float | bytes


class Scripts:
    """The ``.lua`` files of one package folder, called by their names."""

    def __init__(self, package: str) -> None:
        folder = resources.files(package).joinpath("lua")
        self._texts = {
            entry.name.removesuffix(".lua"): entry.read_text(encoding="utf-8")
            for entry in folder.iterdir()
            if entry.name.endswith(".lua")
        }
        self._digests = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for name, text in self._texts.items()
        }

    def run(self, client: Client, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run one script; sends its text only when the server does not know it yet."""
        try:
            return client.evalsha(self._digests[name], len(keys), *keys, *args)
        except NoScriptError:
            return client.eval(self._texts[name], len(keys), *keys, *args)
