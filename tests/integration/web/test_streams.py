"""A job's trace as server-sent events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from api_client.contract import Answer
from tests.support.paused import ended_job, paused_job
from tests.support.web import WebServer, problem
from tests.support.workers import eventually
from worker.web.api import streams


def read_events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Events of a stream by the rules of its format; comments are events named ``comment``."""
    event: dict[str, str] = {}
    for line in lines:
        if not line:
            yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name or "comment"] = value


@contextmanager
def followed(
    api: httpx.Client, job_id: str, headers: dict[str, str] | None = None, **params: Any
) -> Iterator[Iterator[dict[str, str]]]:
    """The events of a job's stream."""
    path = f"/v1/jobs/{job_id}/events"
    with api.stream("GET", path, params=params, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield read_events(response.iter_lines())


def kinds(events: Iterator[dict[str, str]]) -> list[str]:
    """The events' kinds, to the stream's end."""
    return [event["event"] for event in events if "event" in event]


def test_a_trace_is_followed_to_its_end(web: WebServer, api: httpx.Client) -> None:
    job_id = paused_job(web.store)
    with followed(api, job_id) as events:
        first = [next(events) for _ in range(3)]
        assert [event["event"] for event in first] == ["submitted", "claimed", "paused"]
        record = json.loads(first[-1]["data"])
        assert (record["id"], record["data"]["question"]) == (first[-1]["id"], "May I?")
        assert json.loads(first[0]["data"])["input"] == "hello"
        web.store.signal(job_id, "p1", Answer(value="yes", by="anna"), "s1")
        assert json.loads(next(events)["data"])["data"]["by"] == "anna"
        web.store.cancel(job_id, "anna", "enough")
        assert kinds(events) == ["cancel", "cancelled", "end"]


def test_a_stream_goes_on_from_any_offset(web: WebServer, api: httpx.Client) -> None:
    job_id = ended_job(web.store, "job-9", value="done")
    with followed(api, job_id) as events:
        every = list(events)
    ids = [event["id"] for event in every if "id" in event]
    assert kinds(iter(every)) == ["submitted", "claimed", "finished", "end"]
    for number, offset in enumerate(ids[:-1]):
        with followed(api, job_id, {"Last-Event-ID": offset}) as events:
            assert [event["id"] for event in events if "id" in event] == ids[number + 1 :]
        with followed(api, job_id, after=offset) as events:
            assert [event["id"] for event in events if "id" in event] == ids[number + 1 :]


def test_a_browser_that_has_seen_the_end_is_sent_home(web: WebServer, api: httpx.Client) -> None:
    job_id = ended_job(web.store, "job-9", value="done")
    last = web.store.events(job_id)[-1].id
    path = f"/v1/jobs/{job_id}/events"
    assert api.get(path, headers={"Last-Event-ID": last}).status_code == 204


def test_what_is_there_can_be_had_without_following(web: WebServer, api: httpx.Client) -> None:
    job_id = paused_job(web.store)
    with followed(api, job_id, follow=False) as events:
        assert kinds(events) == ["submitted", "claimed", "paused", "end"]


@pytest.mark.parametrize("offset", ["yesterday", "-1", "1-2-3", "9" * 40])
def test_an_offset_of_another_form_is_refused(
    web: WebServer, api: httpx.Client, offset: str
) -> None:
    path = f"/v1/jobs/{web.job()}/events"
    problem(api.get(path, params={"after": offset}), 422, "invalid")
    problem(api.get(path, headers={"Last-Event-ID": offset}), 422, "invalid")


def test_many_streams_share_one_thread(web: WebServer, api: httpx.Client) -> None:
    job_id = web.job()
    limits = httpx.Limits(max_connections=60)
    client = httpx.Client(
        base_url=web.url, headers=api.headers, trust_env=False, timeout=30, limits=limits
    )

    def follow(_: int) -> list[str]:
        with followed(client, job_id) as events:
            return kinds(events)

    with client, ThreadPoolExecutor(60) as pool:
        following = [pool.submit(follow, number) for number in range(60)]
        key = web.parts.trace_key(job_id)
        eventually(lambda: len(web.parts.tail.followers(key)) == 60, "all follow")
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("stepkeeper-tail") == 1
        ended_job(web.store, job_id, value=1)
        for future in following:
            assert future.result(30) == ["submitted", "claimed", "finished", "end"]
    eventually(lambda: not web.parts.tail.followers(key), "nobody is left behind")


def test_silence_is_filled_and_a_revoked_key_ends_its_streams(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_S", 0.05)
    key = web.key("review")
    with followed(web.client(key), web.job()) as events:
        assert next(events)["event"] == "submitted"
        assert next(events) == {"comment": "still here"}
        web.parts.ring.revoke(key.split("_")[1])
        assert kinds(events) == []


def test_a_client_that_leaves_is_forgotten(web: WebServer, api: httpx.Client) -> None:
    job_id = web.job()
    key = web.parts.trace_key(job_id)
    with followed(api, job_id) as events:
        next(events)
        assert len(web.parts.tail.followers(key)) == 1
    eventually(lambda: not web.parts.tail.followers(key), "the follower is gone")


def test_a_server_that_ends_lets_streams_go(redis_url: str) -> None:
    with WebServer(redis_url) as web:
        api = web.client(web.key())
        with followed(api, web.job()) as events, ThreadPoolExecutor(1) as pool:
            assert next(events)["event"] == "submitted"
            rest = pool.submit(kinds, events)
            web.parts.tail.close()
            assert rest.result(20) == []
