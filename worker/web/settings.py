"""What the web server can be told from outside: read once, passed down."""

from __future__ import annotations

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from api_client.errors import InvalidInput
from api_client.records import one_line


class WebSettings(BaseSettings):
    """Each field is the environment variable ``STEPKEEPER_WEB_`` plus its name in capitals.

    Attributes:
        secret: signs the console's sessions. Empty: a new one at each start, which ends all
            sessions; several servers behind one address need the same.
        session_hours: hours after which a person must log in again.
        https: the server is reached by HTTPS only: cookies are marked, browsers are told.
        rate_per_s: requests a second that one API key may make on average.
        rate_burst: requests that it may make at once.
        max_body_bytes: the largest request body.
        max_header_bytes: the largest head of a request, its address included.
        max_wait_s: the longest long poll, in seconds.
        keyless_loopback: requests from this machine itself need no key.
    """

    model_config = SettingsConfigDict(env_prefix="STEPKEEPER_WEB_", frozen=True, extra="ignore")

    secret: SecretStr = SecretStr("")
    session_hours: float = Field(default=12.0, gt=0, le=24 * 30)
    https: bool = False
    rate_per_s: float = Field(default=20.0, gt=0, le=100_000)
    rate_burst: int = Field(default=100, ge=1, le=1_000_000)
    max_body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    max_header_bytes: int = Field(default=16 * 1024, ge=1024)
    max_wait_s: float = Field(default=60.0, gt=0, le=600)
    keyless_loopback: bool = False

    @classmethod
    def from_env(cls, **overrides: object) -> WebSettings:
        """Read the environment; ``overrides`` win over it.

        Raises:
            InvalidInput: names each variable that cannot be used, and its value.
        """
        try:
            return cls(**overrides)  # type: ignore[arg-type]
        except ValidationError as error:
            raise InvalidInput(f"settings (STEPKEEPER_WEB_…): {one_line(error)}") from None
