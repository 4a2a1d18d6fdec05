"""People and waiting jobs, with real workers: races, deadlines, announcements, many at once.

``TEST_PAUSED`` says how many jobs pause and are resumed after a restart; 300 by default.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from celery import chain

from api_client import AgentClient
from api_client.contract import JobStatus
from api_client.errors import AlreadyAnswered, NotAllowed
from api_client.keys import Keys
from api_client.webhooks import DELIVERY_HEADER, SIGNATURE_HEADER, verify
from tests.support.lab import Lab
from tests.support.moving import move_time
from tests.support.receiver import Receiver, receiving
from tests.support.workers import eventually

AGENTS = "tests.support.desk_agents"
MANY = int(os.environ.get("TEST_PAUSED", "300"))
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def desk(lab: Lab) -> Lab:
    """A worker with agents that ask people."""
    lab.worker(agents=AGENTS)
    return lab


def ask(desk: Lab, task: str, agent: str = "asks", **options: Any) -> str:
    """A job that has paused."""
    job_id = desk.client.submit(agent, task, check_agent=False, **options)
    desk.wait_status(job_id, "paused")
    return job_id


def test_fifty_clients_answer_one_pause(desk: Lab) -> None:
    """E3: one wins, the others are told who, and the job goes on once."""
    job_id = ask(desk, "fifty")
    barrier = threading.Barrier(50)
    won: list[int] = []
    told: list[str] = []

    def answer(number: int) -> None:
        client = AgentClient(desk.url)
        barrier.wait(60)
        try:
            signal = {"kind": "answer", "value": f"v{number}", "by": f"p{number}"}
            client.signal(job_id, signal, pause_id="p1")
            won.append(number)
        except AlreadyAnswered as error:
            told.append(str(error))

    threads = [threading.Thread(target=answer, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(won), len(told)) == (1, 49)
    assert all(f"was answered by p{won[0]} (answer)" in text for text in told)
    assert desk.client.result(job_id) == f"Answer of a person: v{won[0]}"
    assert len(desk.ledger.entries("model", tag="fifty", step=2)) == 1
    assert len(desk.events(job_id, "resumed") + desk.events(job_id, "observation")) == 1


def test_a_paused_job_takes_no_slot_no_lease_and_no_message(lab: Lab) -> None:
    """With room for one job, a second runs while the first waits."""
    lab.worker(agents=AGENTS, concurrency=1)
    waiting = ask(lab, "first")
    record = lab.redis.hgetall(Keys(0).job(waiting))
    assert b"pause" in record
    assert not {b"lease", b"owner", b"nonce"} & set(record)
    assert lab.redis.llen("celery") == 0
    assert lab.redis.zscore(Keys(0).due, waiting) is None
    second = ask(lab, "second")
    lab.client.signal(second, {"kind": "answer", "value": "yes"})
    assert lab.client.result(second) == "Answer of a person: yes"
    assert lab.view(waiting).status is JobStatus.PAUSED


def test_a_chain_of_another_app_waits_for_days_and_an_escalation(desk: Lab) -> None:
    """Two days, of which none is slept: others are asked after the first."""
    step = desk.plain.signature("agent.patient", args=["the order"])
    result: Any = chain(step, desk.plain.signature("lab.upper")).apply_async()
    job_id = result.parent.id
    desk.wait_status(job_id, "paused")
    move_time(desk.redis, DAY_MS)
    desk.wait_event(job_id, "escalated")
    pause = desk.view(job_id).pause
    assert pause is not None
    assert pause.labels == ("leads",)
    move_time(desk.redis, DAY_MS)
    with pytest.raises(NotAllowed, match="labels: leads"):
        desk.client.signal(job_id, {"kind": "answer", "value": "x"}, labels=["desk"])
    assert desk.view(job_id).status is JobStatus.PAUSED
    answer = {"kind": "answer", "value": "yes", "by": "lea"}
    desk.client.signal(job_id, answer, labels=["leads"])
    assert result.get(timeout=30) == "ANSWER OF A PERSON: YES"
    assert len(desk.events(job_id, "escalated")) == 1
    assert len(desk.ledger.entries("model", tag="the order")) == 2


def test_the_deadline_decides_once_however_many_workers_sweep(lab: Lab) -> None:
    for number in range(3):
        lab.start(f"w{number}@test", agents=AGENTS)
    jobs = [ask(lab, f"late {number}", "hasty") for number in range(5)]
    move_time(lab.redis, DAY_MS)
    for number, job_id in enumerate(jobs):
        assert lab.client.result(job_id, 60) == "Answer of a person: nobody was there"
        signals = lab.events(job_id, "signal")
        assert [event.data["by"] for event in signals] == ["deadline"]
        assert len(lab.ledger.entries("model", tag=f"late {number}", step=2)) == 1


def test_a_deadline_that_passed_while_no_worker_was_there_is_kept(lab: Lab) -> None:
    worker = lab.worker(agents=AGENTS)
    job_id = ask(lab, "alone", "hasty")
    worker.kill()
    move_time(lab.redis, 2 * DAY_MS)
    lab.worker("w2@test", agents=AGENTS)
    assert lab.client.result(job_id, 60) == "Answer of a person: nobody was there"


def test_an_approved_action_runs_once_with_the_changed_arguments(desk: Lab) -> None:
    job_id = ask(desk, "refund 1187")
    given = {"kind": "approve", "arguments": {"euro": 5}, "by": "anna"}
    desk.client.signal(job_id, given)
    assert str(desk.client.result(job_id)).endswith("5 € paid")
    assert [entry["euro"] for entry in desk.ledger.entries("refund")] == [5]


# --- telling a running job ---------------------------------------------------------------------


def test_a_message_and_a_pause_reach_a_job_that_runs(lab: Lab) -> None:
    lab.worker()
    with lab.shut("model-told-1"):
        job_id = lab.submit("look put @told")
        lab.wait_gate("model-told-1")
        lab.client.message(job_id, "Mind the gap.", by="anna")
        lab.client.pause(job_id, by="ben")
    view = lab.wait_status(job_id, "paused")
    assert view.pause is not None
    assert (view.pause.kind, view.unheard) == ("operator", 1)
    lab.client.signal(job_id, {"kind": "retry", "by": "ben"})
    assert lab.wait_status(job_id, "ended").status is JobStatus.SUCCEEDED
    messages = lab.client.messages(job_id)
    places = [n for n, m in enumerate(messages) if m["content"] == "Mind the gap."]
    assert len(places) == 1
    assert messages[places[0] - 1]["role"] == "tool", "behind the answers, before the next reply"
    assert len(lab.ledger.entries("put", job=job_id)) == 1
    # ``look`` is safe: it runs while the commit before it is on its way, which brings the wish.
    assert len(lab.ledger.entries("look", job=job_id)) in (1, 2)


# --- announcing --------------------------------------------------------------------------------


def hooked(lab: Lab, receiver: Receiver) -> None:
    """A worker that announces to the receiver."""
    env = {"STEPKEEPER_WEBHOOK_URL": receiver.url, "STEPKEEPER_WEBHOOK_SECRET": "s3cret"}
    lab.worker(agents=AGENTS, env=env)


def wait_attempt(lab: Lab, job_id: str, number: int) -> None:
    """Wait until the ``number``-th attempt has failed."""
    eventually(
        lambda: (d := lab.client.deliveries(job_id)[0]).tries == number and d.error,
        f"attempt {number} has failed",
    )


def test_pauses_and_ends_are_announced_signed_and_in_spite_of_failures(lab: Lab) -> None:
    with receiving(500, "cut", 200) as receiver:
        hooked(lab, receiver)
        job_id = ask(lab, "hook")
        for attempt in (1, 2):
            wait_attempt(lab, job_id, attempt)
            move_time(lab.redis, HOUR_MS)
        delivered = eventually(
            lambda: (d := lab.client.deliveries(job_id)[0]).state == "delivered" and d, "delivered"
        )
        assert delivered.tries == 3
        lab.client.signal(job_id, {"kind": "answer", "value": "yes"})
        assert lab.client.result(job_id) == "Answer of a person: yes"
        eventually(lambda: len(receiver.got) == 4, "the end is announced")
        got = [(headers[DELIVERY_HEADER], headers, body) for _, headers, body in receiver.got]
    assert [name for name, _, _ in got] == [f"{job_id}/1"] * 3 + [f"{job_id}/2"]
    said = [verify("s3cret", headers[SIGNATURE_HEADER], body) for _, headers, body in got]
    assert [(one["event"], one["job_id"]) for one in said] == [("paused", job_id)] * 3 + [
        ("finished", job_id)
    ]
    assert said[0]["pause"]["question"] == "What about hook?"
    assert said[3]["outcome"]["value"] == "Answer of a person: yes"


def test_a_receiver_that_hangs_holds_up_no_job(lab: Lab) -> None:
    with receiving(*["hang"] * 20) as receiver:
        hooked(lab, receiver)
        jobs = [ask(lab, f"hang {number}") for number in range(3)]
        eventually(lambda: receiver.got, "it hangs")
        for job_id in jobs:
            lab.client.signal(job_id, {"kind": "answer", "value": "yes"})
        for job_id in jobs:
            assert lab.client.result(job_id) == "Answer of a person: yes"
        assert {d.state for d in lab.client.deliveries()} == {"pending"}


def test_signatures_of_the_users_are_sent_with_the_announcement(desk: Lab) -> None:
    job_id = ask(desk, "loud", "loud")
    (paused,) = desk.ledger.wait("task", where="pause")
    assert (paused["value"]["job_id"], paused["value"]["event"]) == (job_id, "paused")
    assert desk.view(job_id).status is JobStatus.PAUSED
    desk.client.signal(job_id, {"kind": "finish", "answer": "42"})
    (ended,) = desk.ledger.wait("task", where="end")
    assert ended["value"]["outcome"]["value"] == "42"


def test_followers_read_what_happens_to_all_jobs(desk: Lab) -> None:
    one, other = ask(desk, "one"), ask(desk, "other")
    desk.client.signal(one, {"kind": "answer", "value": "yes"})
    desk.client.result(one)
    desk.client.cancel(other, by="anna")
    told: dict[str, list[str]] = {one: [], other: []}
    for event in desk.client.follow("", for_s=0.5):
        told[event.job_id].append(event.event)
    assert told == {one: ["paused", "resumed", "finished"], other: ["paused", "cancelled"]}


# --- many --------------------------------------------------------------------------------------


@pytest.mark.timeout(3600)
def test_many_paused_jobs_are_resumed_after_all_workers_were_restarted(lab: Lab) -> None:
    first = lab.worker(agents=AGENTS, concurrency=8)
    idle = int(lab.redis.info("clients")["connected_clients"])
    jobs = [lab.client.submit("asks", f"n{n}", check_agent=False) for n in range(MANY)]
    eventually(lambda: lab.client._store.count(JobStatus.PAUSED) == MANY, "all wait", MANY)
    gone = "no message waits, doubled hints are gone"
    eventually(lambda: lab.redis.llen("celery") == 0, gone, MANY)
    connections = int(lab.redis.info("clients")["connected_clients"])
    assert connections < idle + 60, "the worker's own, however many jobs are paused"
    first.kill()
    used = int(lab.redis.info("memory")["used_memory"])
    print(f"\n{MANY} paused jobs: {used / MANY:.0f} bytes of Redis for each, everything counted")
    lab.worker("w2@test", agents=AGENTS, concurrency=8)
    page = lab.client.inbox(1, agent="asks", kind="hand_to_human")
    assert page.total == MANY
    taken = 0
    while taken < MANY:
        report = lab.client.signal_many(
            {"agent": "asks"}, {"kind": "answer", "value": "yes"}, dry_run=False, limit=1000
        )
        assert report.refused == 0
        taken += report.done
    eventually(lambda: lab.client._store.count(JobStatus.SUCCEEDED) == MANY, "all are done", MANY)
    answers = {lab.client.result(job_id) for job_id in jobs}
    assert answers == {"Answer of a person: yes"}
    assert len(lab.ledger.entries("model", step=2)) == MANY
