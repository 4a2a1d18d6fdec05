"""What an announcement says."""

from __future__ import annotations

import json
from typing import Any

from api_client.contract import JobView, Pause
from api_client.errors import JobNotFound
from api_client.store import JobStore
from worker.announce.channels import PAUSE_EVENTS
from worker.store.base import Post


def body_of(store: JobStore, post: Post) -> dict[str, Any]:
    """The announcement as a JSON object, with what is known of the job now."""
    try:
        view = store.read(post.job_id)
    except JobNotFound:
        view = None
    said: dict[str, Any] = {
        "id": post.post_id,
        "event": post.event,
        "at": post.at,
        "job_id": post.job_id,
        "agent": post.agent,
    }
    if view is not None:
        said |= {"tenant": view.spec.tenant, "labels": list(view.spec.labels)}
        said |= {"status": str(view.status)}
    if post.event in PAUSE_EVENTS:
        return {**said, "pause": _pause(post, view)}
    return {**said, "outcome": json.loads(post.payload)}


def _pause(post: Post, view: JobView | None) -> dict[str, Any]:
    """The pause as it stands now, if it is still open; else as it was made."""
    pause = Pause.model_validate_json(post.payload)
    if view is not None and view.pause is not None and view.pause.id == pause.id:
        pause = view.pause
    return pause.model_dump(mode="json")
