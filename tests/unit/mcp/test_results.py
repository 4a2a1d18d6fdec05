"""What a model reads of an MCP server's answer."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from worker.errors import ToolFailed
from worker.mcp.results import ToolError, value_of

TEXT = TextContent(type="text", text="Grüße")
PAGE = EmbeddedResource(
    type="resource", resource=TextResourceContents(uri="note://1", text="a note")
)
OTHERS = [
    (ImageContent(type="image", data="eA==", mime_type="image/png"), "an image (image/png)"),
    (AudioContent(type="audio", data="eA==", mime_type="audio/wav"), "a sound (audio/wav)"),
    (ResourceLink(type="resource_link", name="n", uri="file:///x"), "file:///x"),
    (
        EmbeddedResource(
            type="resource", resource=BlobResourceContents(uri="blob://2", blob="eA==")
        ),
        "a file (blob://2)",
    ),
]


def result(*content: Any, **fields: Any) -> CallToolResult:
    return CallToolResult(content=list(content), **fields)


def test_texts_are_put_together() -> None:
    assert value_of(result(TEXT, PAGE)) == "Grüße\na note"


def test_structured_content_stands_in_where_there_is_no_text() -> None:
    assert value_of(result(structured_content={"id": 7})) == {"id": 7}
    assert value_of(result(TEXT, structured_content={"id": 7})) == "Grüße"


def test_nothing_is_nothing() -> None:
    assert value_of(result()) is None


@pytest.mark.parametrize(("block", "name"), OTHERS)
def test_what_is_no_text_is_refused_by_name(block: Any, name: str) -> None:
    with pytest.raises(ToolFailed) as caught:
        value_of(result(block))
    assert name in caught.value.text
    assert value_of(result(TEXT, block)).startswith("Grüße\n(left out: ")
    assert name in value_of(result(TEXT, block))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (result(TEXT, is_error=True), "Grüße"),
        (result(is_error=True, structured_content={"why": 1}), "{'why': 1}"),
        (result(is_error=True), "the server gives no reason"),
    ],
)
def test_a_failed_call_is_an_error_in_the_servers_words(answer: CallToolResult, text: str) -> None:
    with pytest.raises(ToolError) as caught:
        value_of(answer)
    assert str(caught.value) == text
