"""Running the Lua scripts: each one atomic, each one round trip."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

from api_client.connection import Client

Argument = str | int | float | bytes

_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)


class Scripts:
    """The ``.lua`` files of one package folder, called by their names.

    A line ``--@include NAME`` stands for ``api_client/lua/shared/NAME.lua``, which may have such
    lines itself.
    """

    def __init__(self, package: str) -> None:
        folder = resources.files(package).joinpath("lua")
        self._texts = {
            entry.name.removesuffix(".lua"): _whole(entry.read_text(encoding="utf-8"))
            for entry in folder.iterdir()
            if entry.name.endswith(".lua")
        }
        self._digests = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for name, text in self._texts.items()
        }

    def digest(self, name: str) -> str:
        """The SHA-1 by which the server knows a script.

        Raises:
            KeyError: there is no script of that name here.
        """
        return self._digests[name]

    def text(self, name: str) -> str:
        """The text of a script.

        Raises:
            KeyError: there is no script of that name here.
        """
        return self._texts[name]

    def run(self, client: Client, name: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        """Run one script; sends its text only when the server does not know it yet."""
        try:
            return client.evalsha(self._digests[name], len(keys), *keys, *args)
        except NoScriptError:
            return client.eval(self._texts[name], len(keys), *keys, *args)


def _whole(text: str) -> str:
    shared = resources.files("api_client").joinpath("lua", "shared")
    return _INCLUDE.sub(lambda m: _whole(shared.joinpath(f"{m[1]}.lua").read_text("utf-8")), text)
