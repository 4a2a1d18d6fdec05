"""The public names of the packages, as ``tests/fixtures/public_names.json`` lists them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.support.reference.markup import page, prose
from tests.support.workers import ROOT

LEAD = (
    "The names that stay: what else there is may change without a word. Each part stands under the "
    "module from which it is imported."
)
WIDTH = 88
SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Yields", "Example", "Examples")


def python() -> str:
    """The page."""
    names = json.loads((ROOT / "tests" / "fixtures" / "public_names.json").read_text())
    seen: set[int] = set()
    return page("Python", LEAD, [_module(module, listed, seen) for module, listed in names.items()])


def _module(module: str, names: list[str], seen: set[int]) -> str:
    parts = [f"## {module}"]
    for name in names:
        value = getattr(import_module(module), name)
        if id(value) in seen:
            continue
        seen.add(id(value))
        parts.append(_value(module, name, value))
    return "\n\n".join(parts)


def _value(module: str, name: str, value: Any) -> str:
    parts = [f"### {module}.{name}"]
    if inspect.isclass(value) or inspect.isfunction(value):
        parts.append(f"```text\n{_signature(name, value)}\n```")
        parts.append(_doc(value))
    else:
        parts.append(f"Stands for `{_clean(str(value))}`.")
    if inspect.isclass(value):
        parts += [_method(name, *method) for method in _methods(value)]
    return "\n\n".join(parts)


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods of our own classes, inherited ones of ours included."""
    for name, raw in inspect.getmembers(kind):
        value = raw.fget if isinstance(raw, property) else raw
        ours = str(getattr(value, "__module__", "")).startswith(("api_client", "worker"))
        if not name.startswith("_") and ours and callable(value) and not inspect.isclass(value):
            yield name, raw


def _method(owner: str, name: str, raw: Any) -> str:
    if isinstance(raw, property):
        return f"**`{owner}.{name}`** (attribute): {_doc(raw.fget)}"
    return f"```text\n{owner}.{_signature(name, raw)}\n```\n\n{_doc(raw)}"


def _signature(name: str, value: Any) -> str:
    """As it would be written; one parameter a line, where it is long."""
    try:
        found = inspect.signature(value)
    except ValueError:
        return name
    own = [_told(p) for p in found.parameters.values() if p.name not in ("self", "cls")]
    ends = _Shown.of_type(found.return_annotation)
    line = name + str(found.replace(parameters=own, return_annotation=ends))
    if len(line) <= WIDTH or not own:
        return line
    inner, _, end = line.removeprefix(f"{name}(").rpartition(")")
    return f"{name}(\n{_one_a_line(inner)}\n){end}"


def _one_a_line(parameters: str) -> str:
    """Split at the commas that stand in no bracket."""
    depth, lines = 0, [""]
    for sign in parameters:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            lines.append("")
        else:
            lines[-1] += sign
    return "\n".join(f"    {line.strip()}," for line in lines)


def _told(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    shown = default if default is inspect.Parameter.empty else _Shown(_clean(repr(default)))
    return parameter.replace(annotation=_Shown.of_type(parameter.annotation), default=shown)


class _Shown:
    """Something that is written as a text says."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    @classmethod
    def of_type(cls, annotation: Any) -> Any:
        """A type, the same in each run; nothing stays nothing."""
        if annotation is inspect.Parameter.empty:
            return annotation
        return cls(annotation if isinstance(annotation, str) else _clean(repr(annotation)))


def _clean(text: str) -> str:
    """Types by their last names; no addresses of objects, which change with each run."""
    text = re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)
    text = re.sub(r"<(?:function|bound method) ([\w.<>]+) at 0x[0-9a-f]+>", r"\1", text)
    text = re.sub(r"<(?:\w+\.)*(\w+) object at 0x[0-9a-f]+>", r"\1(...)", text)
    return re.sub(r"(?<![\w.'])(?:[a-z_]\w*\.)+([A-Za-z_]\w*)", r"\1", text)


def _doc(value: Any) -> str:
    """The docstring; its sections become lists, its indented blocks stay as they are."""
    lines = (inspect.getdoc(value) or "").splitlines()
    return "\n".join(_lines(lines)).strip()


def _lines(lines: list[str]) -> Iterator[str]:
    section = ""
    for line in lines:
        if line.rstrip(":") in SECTIONS and line.endswith(":"):
            section = line
            yield f"\n*{line.rstrip(':')}*\n"
        elif section and line.startswith("    ") and not line.startswith("     "):
            yield f"- {prose(_escaped(line.strip()))}"
        elif section and line.startswith("     "):
            yield f"  {prose(_escaped(line.strip()))}"
        else:
            section = section if not line.strip() else ""
            yield line if line.startswith("    ") else prose(_escaped(line))


def _escaped(line: str) -> str:
    return line.replace("<", "&lt;") if "`" not in line else line
