"""An encrypted store under real workers: no text in the clear, a missing key loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from celery import chord

from api_client import AgentClient
from api_client.errors import JobUnreadable
from api_client.rekeying import RekeyStore
from api_client.sealing import new_key
from tests.support.ciphers import UseKeys
from tests.support.lab import Lab
from tests.support.nursery import Nursery
from worker.app import make_app
from worker.cli import main
from worker.embedded import EmbeddedServer
from worker.settings import Settings

CANARY = "canary5c1e7"
NAME = "STEPKEEPER_ENCRYPTION_KEYS"
REQUIRED = "STEPKEEPER_ENCRYPTION_REQUIRED"


def in_files(folder: Path, text: str) -> list[str]:
    """Files of a server in which a text stands: the append-only file, the snapshot."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if text.encode() in path.read_bytes()]


def test_no_text_stands_anywhere_and_keys_can_be_changed(
    nursery: Nursery, own_valkey: EmbeddedServer, encryption: UseKeys, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    lab = Lab(nursery, own_valkey.url, folder)
    old, new = new_key(), new_key()
    try:
        encryption(old)
        worker = lab.worker(env={NAME: old})
        client = AgentClient(lab.url)
        app = make_app(Settings.from_env(redis_url=lab.url, agents="tests.support.agents"))

        asked = client.submit("plan", f"look ask @{CANARY}", labels=["s"], check_agent=False)
        lab.wait_status(asked, "paused")
        client.message(asked, f"hear {CANARY}")
        paused = client.submit("plan", f"look ask @{CANARY}", check_agent=False)
        lab.wait_status(paused, "paused")
        gone = client.submit("plan", f"ask @{CANARY}", check_agent=False)
        lab.wait_status(gone, "paused")
        client.cancel(gone, note=CANARY)
        client.signal(asked, {"kind": "answer", "value": f"yes {CANARY}"})
        answer = client.result(asked, 30)
        assert CANARY in answer
        lab.wait_published(asked)
        assert app.AsyncResult(asked).get(timeout=30) == answer
        assert any(CANARY in json.dumps(m) for m in client.messages(asked))
        assert not [event for event in client.trace(asked) if event.kind == "unreadable"]

        lab.redis.save()
        assert in_files(tmp_path / "own-valkey", asked), "the search finds what is there"
        assert not in_files(tmp_path / "own-valkey", CANARY)

        assert CANARY not in worker.log

        # chains and chords read and write results that are encrypted
        job, upper = app.signature("agent.plan", args=["look @x"]), app.signature("lab.upper")
        assert (job | upper).apply_async().get(timeout=30) == "LOOK 1"
        noted = app.signature("lab.note", kwargs={"where": "chord"})
        assert chord([job.clone(), job.clone()], noted, app=app).apply_async().get(timeout=30) == [
            "look 1",
            "look 1",
        ]

        # another worker without the key leaves the paused job alone, whatever it is told
        worker.stop()
        blind = lab.worker("w2@test", env={NAME: new_key()})
        client.signal(paused, {"kind": "answer", "value": "go on"})
        blind.wait_line(NAME, 3)
        view = client.get(paused)
        assert (view.status, view.tries) == ("queued", 0)
        blind.stop()

        # a new key, everything sealed anew, and the old one gone: from now on nothing else is taken
        encryption(f"{new},{old}")
        assert main(["rekey", "--redis-url", lab.url]) == 0
        again = RekeyStore.from_url(lab.url).rekey(dry_run=True)
        assert (again.changed, again.announcements, again.events) == (0, 0, 0)
        encryption(new, required=True)
        strict = lab.worker("w3@test", env={NAME: new, REQUIRED: "true"})
        assert app.AsyncResult(asked).get(timeout=30) == answer
        assert "go on" in AgentClient(lab.url).result(paused, 30)
        assert AgentClient(lab.url).get(asked).outcome.value == answer  # type: ignore[union-attr]

        # a program without the keys, or somebody else, has written a job
        encryption("")
        clear = AgentClient(lab.url).submit("plan", "look @clear", check_agent=False)
        strict.wait_line(f"job {clear} is left alone")
        encryption(new)
        assert AgentClient(lab.url).get(clear).tries == 0
        assert main(["rekey", "--redis-url", lab.url]) == 0
        lab.hint(clear)
        assert AgentClient(lab.url).result(clear, 30) == "look 1"
        encryption("")
        with pytest.raises(JobUnreadable, match=f"job {asked}: .*{NAME}"):
            AgentClient(lab.url).get(asked)
    finally:
        lab.close()
