"""C7: descriptions are found in each supported style, and no docstring breaks a registration."""

import pytest

from worker.tools import as_tool
from worker.tools.docstring import Documentation, read_docstring

GOOGLE = """Searches the documents.

    Looks at every line.

    Args:
        word (str): what to look for,
            in any case
        limit (int, optional): how many: at most 20
        ctx: hidden

    Returns:
        str: one line per hit
    """

NUMPY = """Searches the documents.

    Parameters
    ----------
    word : str
        what to look for,
        in any case
    limit : int, optional
        how many

    Returns
    -------
    str
        one line per hit
    """

SPHINX = """Searches the documents.

    :param word: what to look for,
        in any case
    :param int limit: how many
    :type word: str
    :returns: one line per hit
    """


def test_c7_google() -> None:
    found = read_docstring(GOOGLE, {"word", "limit"})
    assert found.parameters == {
        "word": "what to look for, in any case",
        "limit": "how many: at most 20",
    }
    assert found.description.startswith("Searches the documents.\n\nLooks at every line.")
    assert "one line per hit" in found.description
    assert "ctx" not in found.description


def test_c7_numpy() -> None:
    found = read_docstring(NUMPY, {"word", "limit"})
    assert found.parameters == {"word": "what to look for, in any case", "limit": "how many"}
    assert found.description.startswith("Searches the documents.\n\nReturns\n")


def test_c7_numpy_names_two_parameters_at_once() -> None:
    text = "Adds.\n\nParameters\n----------\na, b : float\n    a number\n"
    assert read_docstring(text, {"a", "b"}).parameters == {"a": "a number", "b": "a number"}


def test_c7_sphinx() -> None:
    found = read_docstring(SPHINX, {"word", "limit"})
    assert found.parameters == {"word": "what to look for, in any case", "limit": "how many"}
    assert found.description == "Searches the documents.\n\n:returns: one line per hit"


def test_c7_summary_directly_followed_by_the_arguments() -> None:
    found = read_docstring("Searches.\nArgs:\n    word: what to look for", {"word"})
    assert found == Documentation("Searches.", {"word": "what to look for"})


@pytest.mark.parametrize("head", ["Argumente", "参数", "Parameters"])
def test_c7_other_heads(head: str) -> None:
    found = read_docstring(f"搜索文档。\n\n{head}:\n    word: 关键词", {"word"})
    assert found == Documentation("搜索文档。", {"word": "关键词"})


@pytest.mark.parametrize(
    "text",
    [
        "Sucht etwas: und zwar alles.\nBeispiel:\n    such(1)",
        "Args:",
        "Text.\nArgs:\n    nothing of ours: text",
        ":param: :param x :param",
        "Parameters\n---",
        "((((",
        "Note\n====\n* list: one\n* two",
    ],
)
def test_c7_anything_else_describes_the_tool(text: str) -> None:
    def function(word: str) -> None: ...

    function.__doc__ = text
    assert as_tool(function).description == text
    assert "description" not in as_tool(function).parameters["properties"]["word"]


def test_c7_no_docstring() -> None:
    def function(word: str) -> None: ...

    assert as_tool(function).description == ""
