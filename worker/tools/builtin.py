"""Tools that every agent may have. The loop answers them itself: they have nothing to run."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError

from worker.errors import ToolRegistrationError
from worker.texts import ENGLISH, Texts
from worker.tools.arguments import OutputReader, ParameterReader
from worker.tools.base import Tool
from worker.tools.forms import Schema, resolved
from worker.tools.schema import build_model, model_schema, type_schema
from worker.tools.signature import Parameter, Signature

TERMINATE = "terminate"
HAND_TO_HUMAN = "hand_to_human"


def terminate_tool(output: Any = str, *, name: str = TERMINATE, texts: Texts = ENGLISH) -> Tool:
    """The tool by which a model gives its final answer.

    A model class, dataclass or TypedDict lends the tool its own fields as parameters. Any other
    type becomes the only parameter, ``result``. ``Tool.answer`` gives back the answer as JSON.

    Args:
        output: the answer's type.
        name: of the tool.
        texts: in whose language it is described.

    Raises:
        ToolRegistrationError: no JSON schema can describe the type.
    """
    try:
        adapter, schema, wrapped = _adapted(output, texts)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ToolRegistrationError(
            f"tool {name!r}: no JSON schema can describe the output {_shown(output)}: {reason}"
        ) from error
    return Tool(
        name=name,
        description=texts.terminate(_shown(output)),
        parameters=schema,
        function=never_run,
        reader=OutputReader(adapter, list(schema["properties"]), wrapped),
        effects="safe",
        origin=f"{__name__}:terminate_tool",
        role="terminate",
    )


def _adapted(output: Any, texts: Texts) -> tuple[TypeAdapter[Any], Schema, bool]:
    adapter: TypeAdapter[Any] = TypeAdapter(output)
    schema = type_schema(adapter)
    top = resolved(schema, schema)
    if top.get("type") == "object" and "properties" in top:
        kept = {"$defs": schema["$defs"]} if "$defs" in schema else {}
        return adapter, {**{k: v for k, v in top.items() if k != "title"}, **kept}, False
    described = Annotated[output, Field(description=texts.terminate_result())]
    fields: dict[str, Any] = {"result": (described, ...)}
    model: type[BaseModel] = create_model("Result", __config__={"extra": "forbid"}, **fields)
    adapter = TypeAdapter(model)
    return adapter, type_schema(adapter), True


def _shown(output: Any) -> str:
    return output.__name__ if isinstance(output, type) else str(output).replace("typing.", "")


def hand_to_human_tool(*, texts: Texts = ENGLISH) -> Tool:
    """The tool by which a model hands its job to a person, with the reason."""
    parameters = (Parameter("reason", str),)
    model = build_model(HAND_TO_HUMAN, parameters, {"reason": texts.hand_to_human_reason()})
    schema = model_schema(model, parameters)
    return Tool(
        name=HAND_TO_HUMAN,
        description=texts.hand_to_human(),
        parameters=schema,
        function=never_run,
        reader=ParameterReader(model, Signature(parameters, None, frozenset()), schema),
        effects="safe",
        origin=f"{__name__}:hand_to_human_tool",
        role="human",
    )


def never_run(**_: Any) -> NoReturn:
    """The function of tools that the loop answers itself."""
    raise RuntimeError("built-in tools are answered by the loop")


hand_to_human = hand_to_human_tool()
