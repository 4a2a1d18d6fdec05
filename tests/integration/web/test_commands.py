"""``stepkeeper serve`` and ``stepkeeper keys``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.command import PROGRAM, Place
from worker.cli import failures


@pytest.fixture
def place(redis_url: str, tmp_path: Path) -> Place:
    """Commands on an empty store."""
    return Place(tmp_path, ("--redis-url", redis_url))


@contextmanager
def serving(place: Place, *words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """``stepkeeper serve``, ready; and what it said."""
    with subprocess.Popen(
        [*PROGRAM, "serve", "--port", "0", "--json", *words, *place.store],
        cwd=place.folder,
        env=place.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            yield process, json.loads(line)
        finally:
            process.kill()


def test_keys_are_made_listed_and_revoked(place: Place) -> None:
    made = place.json("keys", "create", "anna", "--role", "review", "--label", "support")
    assert made["key"].startswith(f"sk_{made['id']}_")
    assert (made["roles"], made["labels"]) == (["review"], ["support"])
    listed = place.run("keys", "list").stdout
    assert listed == f"{made['id']}  anna  review  labels support\n"
    assert place.run("keys", "revoke", made["id"]).returncode == failures.OK
    assert place.json("keys", "list") == []
    assert place.run("keys", "revoke", made["id"]).returncode == failures.REFUSED


@pytest.mark.parametrize("words", [["anna"], ["anna", "--role", "king"], ["", "--role", "review"]])
def test_a_key_of_no_use_is_refused(place: Place, words: list[str]) -> None:
    done = place.run("keys", "create", *words)
    assert done.returncode == failures.REFUSED
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_says_where_it_is_and_ends_in_order(place: Place, number: signal.Signals) -> None:
    with serving(place) as (process, ready):
        assert ready["event"] == "ready"
        assert ready["url"].startswith("http://127.0.0.1:")
        client = httpx.Client(base_url=ready["url"], trust_env=False)
        with client:
            assert client.get("/v1/health").json() == {"status": "ok"}
            assert client.get("/v1/agents").status_code == 401
            assert "server" not in client.get("/v1/health").headers
            process.send_signal(number)
            assert process.wait(20) == failures.OK


def test_a_server_ends_while_somebody_follows(place: Place) -> None:
    key = place.run("keys", "create", "root", "--role", "submit").stdout.strip()
    job = place.run("submit", "shop", "x", "--no-check").stdout.strip()
    with serving(place) as (process, ready):
        headers = {"Authorization": f"Bearer {key}"}
        client = httpx.Client(base_url=ready["url"], trust_env=False, headers=headers, timeout=30)
        with client, client.stream("GET", f"/v1/jobs/{job}/events") as response:
            lines = response.iter_lines()
            assert next(lines).startswith("id: ")
            process.send_signal(signal.SIGTERM)
            assert "event: end" not in list(lines)
        assert process.wait(20) == failures.OK


@pytest.mark.parametrize("words", [["--host", "0.0.0.0"], ["--proxies", "10.0.0.1"]])
def test_nobody_comes_in_without_a_key_from_outside(place: Place, words: list[str]) -> None:
    done = place.run("serve", "--port", "0", "--no-key-on-loopback", *words)
    assert done.returncode == failures.REFUSED
    assert "--no-key-on-loopback is for --host 127.0.0.1" in done.stderr


def test_a_port_that_is_taken_is_one_line(place: Place) -> None:
    with serving(place) as (_, ready):
        port = ready["url"].rpartition(":")[2]
        done = place.run("serve", "--port", port)
    assert done.returncode == failures.REFUSED
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_setting_of_no_use_is_named(place: Place) -> None:
    done = place.run("serve", "--port", "0", STEPKEEPER_WEB_RATE_PER_S="fast")
    assert done.returncode == failures.REFUSED
    assert "rate_per_s" in done.stderr


def test_the_help_of_serve_needs_no_package_of_the_web() -> None:
    code = "import sys, worker.cli.app; sys.exit('fastapi' in sys.modules)"
    assert subprocess.run([PROGRAM[0], "-c", code], env=os.environ, check=False).returncode == 0
