"""A backup that is taken while jobs run, and what is restored from it on another server."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from api_client.contract import JobStatus
from api_client.keys import Keys
from tests.support.lab import Lab
from tests.support.nursery import Nursery
from tests.support.workers import eventually
from worker.embedded import EmbeddedServer

WAITING, RUNNING, BUSY = 12, 4, 30
LONG = "look put look put look put look put"

Backup = Callable[[EmbeddedServer, Path], None]


def snapshot(server: EmbeddedServer, to: Path) -> None:
    """``BGSAVE``, then a copy of the file that it wrote."""
    client: Any = redis.Redis.from_url(server.url)
    before = client.lastsave()
    eventually(lambda: client.lastsave() != before or _asked_for_a_save(client), "a snapshot")
    shutil.copy(server.data_dir / "dump.rdb", to)
    client.close()


def _asked_for_a_save(client: Any) -> bool:
    """Never done: times of saves count in seconds, so one may have to be asked for again."""
    if not client.info("persistence")["rdb_bgsave_in_progress"]:
        client.bgsave()
    return False


def append_only_file(server: EmbeddedServer, to: Path) -> None:
    """A copy of the append-only files, which are not rewritten meanwhile."""
    client: Any = redis.Redis.from_url(server.url)
    before = client.config_get("auto-aof-rewrite-percentage")
    client.config_set("auto-aof-rewrite-percentage", "0")
    try:
        eventually(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "no rewrite")
        shutil.copytree(server.data_dir / "appendonlydir", to / "appendonlydir")
    finally:
        client.config_set("auto-aof-rewrite-percentage", next(iter(before.values())))
        client.close()


@contextmanager
def restored(backup: Path) -> Iterator[EmbeddedServer]:
    """Another server, on another port, that begins with the backup.

    A snapshot is read only while the append-only file is off; it is put on again afterwards.
    """
    is_snapshot = (backup / "dump.rdb").exists()
    config = {"appendonly": "no"} if is_snapshot else {}
    with EmbeddedServer(backup, config=config) as server:
        if is_snapshot:
            client = redis.Redis.from_url(server.url)
            client.config_set("appendonly", "yes")
            client.close()
        yield server


def lab_on(nursery: Nursery, server: EmbeddedServer, folder: Path) -> Lab:
    """A lab whose ledger and gates lie in a new folder."""
    folder.mkdir()
    return Lab(nursery, server.url, folder)


def known(lab: Lab, jobs: list[str]) -> list[str]:
    """Those that had been submitted when the backup was taken; the copy may be of that moment."""
    found = [job_id for job_id in jobs if lab.redis.exists(Keys(0).job(job_id))]
    assert found, "the backup was taken while these were submitted and run"
    return found


@pytest.mark.parametrize("backup", [snapshot, append_only_file])
def test_waiting_jobs_resume_and_running_ones_go_on(
    nursery: Nursery, own_valkey: EmbeddedServer, tmp_path: Path, backup: Backup
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    old = lab_on(nursery, own_valkey, tmp_path / "old")
    old.worker(concurrency=8)
    waiting = [old.submit("look ask put") for _ in range(WAITING)]
    for job_id in waiting:
        old.wait_status(job_id, "paused")
    old.hold("put-slow-4")
    running = [old.submit(f"{LONG} @slow") for _ in range(RUNNING)]
    old.wait_gate("put-slow-4", RUNNING)
    busy = [old.submit(LONG) for _ in range(BUSY)]
    backup(own_valkey, copy)
    old.open("put-slow-4")
    old.close()
    own_valkey.kill()

    with restored(copy) as server:
        new = lab_on(nursery, server, tmp_path / "new")
        try:
            assert {new.view(job_id).status for job_id in waiting} == {JobStatus.PAUSED}
            new.worker("w2@test", concurrency=8)
            for job_id in waiting:
                new.client.signal(job_id, {"kind": "answer", "value": "yes", "by": "ada"})
            for job_id in waiting:
                assert new.client.result(job_id, 30).startswith("look 1; ")
            for job_id in (*running, *known(new, busy)):
                assert new.client.result(job_id, 30).endswith("look 7; put 8")
            steps = {entry["step"] for entry in new.ledger.entries("model", tag="slow")}
            assert min(steps) == 5, "no reply that the backup holds was asked for again"
        finally:
            new.close()
