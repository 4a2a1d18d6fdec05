"""The base of every value that services and workers share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """Base of every shared value: frozen, strict about types, deaf to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")
