"""``serve``: the HTTP API and the console; ``keys``: who may use them."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from worker.cli import failures
from worker.cli.command import command

if TYPE_CHECKING:
    import socket

    from worker.cli.session import Session
    from worker.web.keys import KeyRing, StoredKey
    from worker.web.settings import WebSettings

Level = Literal["debug", "info", "warning", "error", "critical"]

_MISSING = "the web server needs its packages: pip install 'stepkeeper[web]' (missing: {name})"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "serve")(serve)
    keys = typer.Typer(help="API keys of the web server: make, list, revoke.")
    command(keys, "create")(create)
    command(keys, "list")(list_keys)
    command(keys, "revoke")(revoke)
    app.add_typer(keys, name="keys")


def serve(
    session: Session,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8080,
    no_key_on_loopback: Annotated[
        bool,
        typer.Option(
            "--no-key-on-loopback",
            help="For development: whoever sits at this machine may do everything without a key.",
        ),
    ] = False,
    proxies: Annotated[
        str,
        typer.Option(
            metavar="A,B", help="Addresses of proxies whose X-Forwarded headers are believed."
        ),
    ] = "",
    log_level: Annotated[Level, typer.Option(help="Of the log on stderr.")] = "info",
) -> int:
    """Serve the HTTP API and the console. SIGTERM lets requests end first."""
    settings = _settings(no_key_on_loopback)
    from worker.web.parts import Parts
    from worker.web.serving import listen, serve, url_of

    broker = session.common.broker_url or None
    parts = Parts.open(
        session.url, settings, broker_url=broker, partitions=session.common.partitions or 1
    )
    logging.basicConfig(
        level=log_level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    with listen(host, port) as listening:
        _check_keyless(settings, listening, proxies)
        url = url_of(listening)

        def ready() -> None:
            value = {"event": "ready", "url": url, "store": parts.where}
            session.out.result(value, f"stepkeeper: serving {url} from {parts.where}")

        _advise(session, parts.ring, settings)
        serve(parts, listening, ready, proxies=proxies, log_level=log_level)
    return failures.OK


def _settings(keyless: bool) -> WebSettings:
    """The settings of the environment.

    Raises:
        InvalidInput: one of them cannot be used, or the extra is not installed.
    """
    from api_client.errors import InvalidInput

    try:
        import fastapi
        import jinja2
        import python_multipart
        import uvicorn
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING.format(name=error.name)) from None
    del fastapi, jinja2, python_multipart, uvicorn
    from worker.web.settings import WebSettings

    given = {"keyless_loopback": True} if keyless else {}
    return WebSettings.from_env(**given)


def _check_keyless(settings: WebSettings, listening: socket.socket, proxies: str) -> None:
    """Nobody from outside may come in without a key, not even by way of a proxy."""
    from api_client.errors import InvalidInput
    from worker.web.serving import is_loopback

    if settings.keyless_loopback and (proxies or not is_loopback(listening)):
        raise InvalidInput(
            "--no-key-on-loopback is for --host 127.0.0.1 or ::1 without --proxies; "
            "make keys instead: stepkeeper keys create NAME --role review"
        )


def _advise(session: Session, ring: KeyRing, settings: WebSettings) -> None:
    if not settings.keyless_loopback and not ring.list():
        session.out.note("stepkeeper: there is no key yet; stepkeeper keys create NAME --role …")


def _ring(session: Session) -> KeyRing:
    from api_client.connection import connect, describe
    from worker.web.keys import KeyRing

    return KeyRing(connect(session.url), describe(session.url))


def create(
    session: Session,
    name: Annotated[str, typer.Argument(help="Whose it is; stands in traces.")],
    role: Annotated[
        list[str], typer.Option(help="submit, review or operate; may be given several times.")
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(help="It sees and answers only jobs of this label; several may be given."),
    ] = None,
    tenant: Annotated[str, typer.Option(help="It sees and submits only this tenant's jobs.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36500, help="After which it is refused.")
    ] = None,
) -> int:
    """Make an API key. It is printed once, and nowhere stored."""
    ring = _ring(session)
    stored, key = ring.create(name, role, labels=label or (), tenant=tenant, days=days)
    session.out.result({**_shown(stored), "key": key}, key)
    return failures.OK


def list_keys(session: Session) -> int:
    """The API keys, without their secrets."""
    keys = _ring(session).list()
    lines = [_line(key) for key in keys] or ["there is no key yet"]
    session.out.result([_shown(key) for key in keys], "\n".join(lines))
    return failures.OK


def revoke(
    session: Session, key_id: Annotated[str, typer.Argument(metavar="ID", help="Of the key.")]
) -> int:
    """Revoke an API key: it is refused from now on, and its sessions end."""
    _ring(session).revoke(key_id)
    session.out.result({"revoked": key_id}, f"key {key_id} is revoked")
    return failures.OK


def _shown(key: StoredKey) -> dict[str, object]:
    return key.model_dump(mode="json", exclude={"salt", "digest"})


def _line(key: StoredKey) -> str:
    from worker.rendering import clean
    from worker.rendering.printer import local_time

    parts = [key.id, key.name, " ".join(key.roles)]
    if key.labels:
        parts.append(f"labels {', '.join(key.labels)}")
    if key.tenant:
        parts.append(f"tenant {key.tenant}")
    if key.expires is not None:
        parts.append(f"until {local_time(key.expires)}")
    return clean("  ".join(parts))
