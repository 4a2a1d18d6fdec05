"""How large what is stored may be: the one place that knows, for services and workers alike.

Each field is the environment variable ``STEPKEEPER_`` plus its name in capitals, and every error
names it. Sizes are those of the JSON in UTF-8, before it is compressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from api_client.errors import InvalidInput

KIB = 1024
MIB = 1024 * KIB

MOST = 128 * MIB
"""The highest limit of one text, in bytes: what is stored is not unpacked beyond twice of it."""


class Sizes(BaseSettings):
    """Limits in bytes; 0 is none, where it is allowed.

    Attributes:
        max_input_bytes: of a job's input.
        max_metadata_bytes: of its metadata.
        max_signal_bytes: of a person's decision, with answers and changed arguments.
        max_reply_bytes: of one reply of a model.
        max_answer_bytes: of a job's answer.
        max_depth: levels of lists and objects in any of these.
        compress_over_bytes: what is larger is stored compressed; 0: nothing is.
        job_quota_bytes: of all messages of one job, before it pauses or stops; 0: no quota.
        tenant_quota_bytes: of all jobs of one tenant that are stored, before its submissions are
            refused; 0: no quota.
        memory_share: of the server's ``maxmemory``, above which new jobs are refused; 0: never.
    """

    model_config = SettingsConfigDict(env_prefix="STEPKEEPER_", frozen=True, extra="ignore")

    max_input_bytes: int = Field(default=1_000_000, ge=1, le=MOST)
    max_metadata_bytes: int = Field(default=100_000, ge=1, le=MOST)
    max_signal_bytes: int = Field(default=200_000, ge=1, le=MOST)
    max_reply_bytes: int = Field(default=4 * MIB, ge=1, le=MOST)
    max_answer_bytes: int = Field(default=4 * MIB, ge=1, le=MOST)
    max_depth: int = Field(default=100, ge=4, le=190)
    compress_over_bytes: int = Field(default=16 * KIB, ge=0)
    job_quota_bytes: int = Field(default=64 * MIB, ge=0)
    tenant_quota_bytes: int = Field(default=0, ge=0)
    memory_share: float = Field(default=0.95, ge=0.0, le=1.0)


DEFAULT_SIZES = Sizes.model_construct()
"""Without the environment."""


@cache
def sizes() -> Sizes:
    """The limits of this process; its environment is read once.

    Raises:
        InvalidInput: names each variable that cannot be used, and its value.
    """
    try:
        return Sizes()
    except ValidationError as error:
        wrong = "; ".join(
            f"{setting_name(str(item['loc'][0]))}={item['input']!r}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        raise InvalidInput(f"settings: {wrong}") from None


def setting_name(field: str) -> str:
    """The environment variable of a limit."""
    return f"STEPKEEPER_{field.upper()}"


def too_large(what: str, size: int, limit: int, field: str, advice: str) -> str:
    """One line that says what is too large, by how much, and what to do."""
    return (
        f"{what}: {size:,} bytes as JSON, at most {limit:,} are allowed "
        f"({setting_name(field)}); {advice}"
    )


def check_size(what: str, text: str, limit: int, field: str, advice: str) -> None:
    """Refuse a JSON text that is too large.

    Args:
        what: how the error calls it.
        field: of ``Sizes``, from which the limit comes.

    Raises:
        InvalidInput
    """
    size = utf8_length(text)
    if size > limit:
        raise InvalidInput(too_large(what, size, limit, field, advice))


def check_depth(what: str, value: Any, limit: int) -> None:
    """Refuse a JSON value that is nested too deeply.

    Raises:
        InvalidInput
    """
    if deeper_than(value, limit):
        raise InvalidInput(
            f"{what}: nested more than {limit} levels deep ({setting_name('max_depth')}); "
            "flatten it, or pass the inner part as a JSON text"
        )


def deeper_than(value: Any, limit: int) -> bool:
    """Whether lists and objects stand in one another on more than so many levels."""
    rest = [(value, 1)]
    while rest:
        item, depth = rest.pop()
        if isinstance(item, (dict, Mapping)):
            inner: Iterable[Any] = item.values()
        elif isinstance(item, (list, tuple)):
            inner = item
        else:
            continue
        if depth > limit:
            return True
        rest += [(each, depth + 1) for each in inner if not isinstance(each, str)]
    return False


def utf8_length(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def size_of(value: Any) -> int:
    """About the bytes of a JSON value's text, without writing it.

    Texts count with their length, everything else with a little: enough for messages, which are
    texts in small objects. It takes as long as the value has parts, not as it has characters.
    """
    size, rest = 0, [value]
    while rest:
        item = rest.pop()
        if type(item) is str:  # asked first is what messages are made of
            size += (len(item) if item.isascii() else utf8_length(item)) + 3
        elif type(item) is list:
            size += 3
            rest += item
        elif type(item) is dict or isinstance(item, Mapping):
            size += 3
            for name, inner in item.items():
                size += (len(name) if name.isascii() else utf8_length(name)) + 3
                if type(inner) is str:
                    size += (len(inner) if inner.isascii() else utf8_length(inner)) + 3
                else:
                    rest.append(inner)
        elif isinstance(item, (list, tuple)):
            size += 3
            rest += item
        elif isinstance(item, str):
            size += utf8_length(item) + 3
        else:
            size += 6  # as much as "false,"
    return size
