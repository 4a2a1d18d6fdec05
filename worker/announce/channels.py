"""On which channels an agent's events are announced."""

from __future__ import annotations

from urllib.parse import urlsplit

from api_client.errors import InvalidInput
from worker.agent import Agent
from worker.announce.webhook import is_link_local
from worker.settings import Settings

WEBHOOK, TASK = "webhook", "task"
PAUSE_EVENTS = frozenset({"paused", "reminder", "escalated"})


def channels_of(agent: Agent | None, event: str, settings: Settings) -> tuple[str, ...]:
    """The channels of one event.

    Args:
        agent: ``None`` for one that this worker does not have.
        event: as in ``JobEvent``.
    """
    found = []
    if url_of(agent, settings):
        found.append(WEBHOOK)
    if agent is not None and signature_of(agent, event) is not None:
        found.append(TASK)
    return tuple(found)


def url_of(agent: Agent | None, settings: Settings) -> str:
    """Where an agent's events are announced; nothing that a job carries has a say in it."""
    return (agent.webhook_url if agent is not None else "") or settings.webhook_url


def signature_of(agent: Agent, event: str) -> object | None:
    """The Celery signature that is sent for an event."""
    signature: object | None = agent.on_pause if event in PAUSE_EVENTS else agent.on_end
    return signature


def check_webhook(url: str, settings: Settings, whose: str) -> None:
    """Refuse a webhook that cannot be called, or that nobody could trust.

    Args:
        whose: what an error calls it.

    Raises:
        InvalidInput
    """
    if not url:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidInput(f"{whose}: give a URL such as https://example.com/hook, without a user")
    if is_link_local(parts.hostname):
        raise InvalidInput(f"{whose}: {parts.hostname} is a link-local address, no receiver's")
    if not settings.webhook_secret.get_secret_value():
        raise InvalidInput(
            f"{whose} needs STEPKEEPER_WEBHOOK_SECRET, with which what is sent there is signed"
        )
