"""What a model reads of a server's answer: text. Pictures, sounds and files are refused."""

from __future__ import annotations

from typing import Any

from mcp.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from worker.errors import ToolFailed


class ToolError(Exception):
    """What a server says of a call that it could not do."""


def value_of(result: CallToolResult) -> Any:
    """The texts of an answer; its structured content where there is no text; None for nothing.

    What cannot be passed on is named in its place, beside a text; alone it is an error.

    Raises:
        ToolError: the server says that the call failed.
        ToolFailed: it answers with no text at all.
    """
    parts = [_written(block) for block in result.content]
    texts = [text for text, _ in parts if text is not None]
    refused = [name for _, name in parts if name is not None]
    if result.is_error:
        raise ToolError("\n".join(texts) or _structured(result) or "the server gives no reason")
    if refused and not texts and result.structured_content is None:
        raise ToolFailed(f"the answer is {_list(refused)}, and only text can be passed on")
    if not texts:
        return result.structured_content
    notes = [f"(left out: {name}; only text can be passed on)" for name in refused]
    return "\n".join([*texts, *notes])


def _structured(result: CallToolResult) -> str:
    return "" if result.structured_content is None else str(result.structured_content)


def _list(names: list[str]) -> str:
    return " and ".join(names)


def _written(block: Any) -> tuple[str | None, str | None]:
    """A block's text, or the name of what it is instead."""
    match block:
        case TextContent(text=text):
            return text, None
        case EmbeddedResource(resource=TextResourceContents(text=text)):
            return text, None
        case ImageContent(mime_type=kind):
            return None, f"an image ({kind})"
        case AudioContent(mime_type=kind):
            return None, f"a sound ({kind})"
        case EmbeddedResource(resource=resource):
            return None, f"a file ({resource.uri})"
        case ResourceLink(uri=uri):
            return None, f"a link to a resource ({uri})"
    return None, f"content of type {getattr(block, 'type', '?')}"
