"""Settings that protect messages and stored texts: read once, in services and workers alike."""

from __future__ import annotations

from functools import cache

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from api_client.errors import InvalidInput


class Protection(BaseSettings):
    """Both are off if nothing is set; each needs the extra ``encryption``.

    Attributes:
        signing_key: path of the private key (PEM, RSA) with which this program signs its Celery
            messages. With it unsigned messages and commands are refused.
        signing_cert: path of the certificate of that key.
        signing_cert_store: path of a folder with the certificates of all programs whose messages
            are accepted.
        encryption_keys: with which texts are encrypted in the store, comma separated: the first
            encrypts, all decrypt. ``stepkeeper new-key`` makes one. The same in every program.
        encryption_required: refuse what stands in the store in the clear and should be encrypted.
            Set it in every program, once each has the keys and ``stepkeeper rekey`` has run.
    """

    model_config = SettingsConfigDict(env_prefix="STEPKEEPER_", frozen=True, extra="ignore")

    signing_key: str = ""
    signing_cert: str = ""
    signing_cert_store: str = ""
    encryption_keys: SecretStr = SecretStr("")
    encryption_required: bool = False


@cache
def protection() -> Protection:
    """What protects this process's messages and texts; its environment is read once.

    Raises:
        InvalidInput: a variable that cannot be used.
    """
    try:
        return Protection()
    except ValidationError as error:
        wrong = "; ".join(
            f"STEPKEEPER_{str(item['loc'][0]).upper()}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        )
        raise InvalidInput(f"settings: {wrong}") from None
