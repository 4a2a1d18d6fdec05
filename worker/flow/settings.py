"""What is said of the limits of models: read by workers, and by programs that show them."""

from __future__ import annotations

from typing import Self

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from api_client.errors import InvalidInput
from api_client.records import one_line
from worker.flow.base import KEY_PATTERN, Limit


class FlowSettings(BaseSettings):
    """Each field is the environment variable ``STEPKEEPER_`` plus its name in capitals.

    Attributes:
        model_limits: what all workers together may ask of a model, JSON by model key (by default
            HOST/MODEL): ``{"api.openai.com/gpt-5": {"rpm": 500, "tpm": 200000, "in_flight": 20}}``.
            A limit set at run time (``stepkeeper limits set``) goes before.
        limits_minute_s: length of the minute in which they are counted; shorter in tests only.
    """

    model_config = SettingsConfigDict(env_prefix="STEPKEEPER_", frozen=True, extra="ignore")

    model_limits: dict[str, Limit] = Field(default_factory=dict)
    limits_minute_s: float = Field(default=60.0, ge=0.5, le=60.0)

    @field_validator("model_limits")
    @classmethod
    def _model_keys(cls, value: dict[str, Limit]) -> dict[str, Limit]:
        for key in value:
            if not KEY_PATTERN.fullmatch(key):
                raise ValueError(f"{key!r} is no model key, such as api.openai.com/gpt-5")
        return value

    @classmethod
    def from_env(cls, **overrides: object) -> Self:
        """Read the environment; ``overrides`` win over it.

        Raises:
            InvalidInput: names each variable that cannot be used, and its value.
        """
        try:
            return cls(**overrides)  # type: ignore[arg-type]
        except ValidationError as error:
            raise InvalidInput(f"settings (STEPKEEPER_…): {one_line(error)}") from None
