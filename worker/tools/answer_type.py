"""The type of an answer that a person gives, checked as strictly as a model's."""

from __future__ import annotations

import json
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from api_client.records import one_line
from worker.errors import AgentDefinitionError, ArgumentError
from worker.tools.forms import Schema
from worker.tools.schema import type_schema


class AnswerType:
    """Any type that a JSON schema can describe.

    Raises:
        AgentDefinitionError: none can.
    """

    def __init__(self, kind: Any) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            self.schema: Schema = type_schema(self._adapter)
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise AgentDefinitionError(
                f"human_answer={kind!r}: no JSON schema can describe it: {reason}"
            ) from error

    def read(self, value: Any) -> Any:
        """The answer in its JSON form, with defaults filled in.

        Raises:
            ArgumentError: it is of another type; names each place.
        """
        try:
            answer = self._adapter.validate_json(json.dumps(value))
            return self._adapter.dump_python(answer, mode="json", by_alias=True)
        except ValidationError as error:
            raise ArgumentError(one_line(error)) from None
