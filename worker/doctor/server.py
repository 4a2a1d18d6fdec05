"""The store's Redis: what it says of itself, and what of it would harm jobs."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from api_client.connection import Client, translated
from api_client.keys import AGENTS, Keys
from api_client.sizes import sizes
from worker.doctor.findings import Findings, error, warning
from worker.settings import Settings

AREA = "redis"
PINGS = 15
OLDEST = (7, 0)
MOST_PARTITIONS_TRIED = 256

_CONFIG = (
    "appendfsync",
    "maxmemory-policy",
    "min-replicas-to-write",
    "protected-mode",
    "bind",
    "maxclients",
    "timeout",
)

_PROBE = """
redis.call('TIME')
redis.call('HSET', KEYS[1], 'a', 1)
redis.call('HDEL', KEYS[1], 'a')
redis.call('RPUSH', KEYS[2], 'a')
redis.call('LRANGE', KEYS[2], 0, -1)
redis.call('XADD', KEYS[3], '*', 'a', 'a')
redis.call('ZADD', KEYS[4], 1, 'a')
redis.call('ZREM', KEYS[4], 'a')
redis.call('PEXPIRE', KEYS[2], 1000)
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
return 1
"""


@dataclass(slots=True)
class ServerFacts:
    """What was found.

    Attributes:
        info: what ``INFO`` says, all sections in one.
        config: what ``CONFIG GET`` says; empty if this user may not ask.
        denied: what this user is not allowed that jobs need, in the server's words.
        refused: why the server refuses to be written to at all, in its words.
        blind: what it may not ask, so that checks are left out.
        ping_ms: the median round trip.
        skew_s: the server's clock minus ours.
        anonymous: whether somebody without a password is let in from other machines.
        strays: partitions beyond the configured ones that hold jobs.
    """

    info: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)
    ping_ms: float = 0.0
    skew_s: float = 0.0
    anonymous: bool = False
    strays: list[int] = field(default_factory=list)


def gather(client: Client, where: str, partitions: int, *, writes: bool = True) -> ServerFacts:
    """Ask the server.

    Args:
        writes: whether this user should be able to do what jobs need.

    Raises:
        StoreUnavailable: it does not answer at all.
    """
    facts = ServerFacts()
    with translated(where):
        pings = [_timed(client.ping) for _ in range(PINGS)]
        facts.ping_ms = statistics.median(pings) * 1000
        facts.skew_s = _skew(client)
        facts.info = _allowed(facts.blind, "INFO", client.info) or {}
        for name in _CONFIG:
            found = _allowed(facts.blind, "CONFIG GET", partial(client.config_get, name)) or {}
            facts.config = {**facts.config, **{_text(k): _text(v) for k, v in found.items()}}
        facts.anonymous = _lets_anybody_in(client, facts)
        _probe(client, facts, writes)
        facts.strays = _strays(client, partitions)
    facts.blind = sorted(set(facts.blind))
    return facts


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _skew(client: Client) -> float:
    before = time.time()
    seconds, micros = client.time()
    return float(seconds + micros / 1e6 - (before + time.time()) / 2)


def _allowed(blind: list[str], what: str, ask: Callable[[], Any]) -> Any:
    """The answer, or ``None`` if this user, or this kind of server, does not give one."""
    try:
        return ask()
    except NoPermissionError:
        blind.append(what)
    except ResponseError as refused:
        if "unknown command" not in str(refused):
            raise
        blind.append(what)
    return None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _lets_anybody_in(client: Client, facts: ServerFacts) -> bool:
    """No password for the default user, and an address that others reach."""
    bind = facts.config.get("bind", "127.0.0.1").split()
    local = all(part.lstrip("-") in ("127.0.0.1", "::1", "localhost") for part in bind) and bind
    if local or facts.config.get("protected-mode", "yes") == "yes":
        return False
    default = _allowed(facts.blind, "ACL GETUSER", lambda: client.acl_getuser("default"))
    flags = [_text(flag) for flag in (default or {}).get("flags", ())]
    return "nopass" in flags and "off" not in flags


def _probe(client: Client, facts: ServerFacts, writes: bool) -> None:
    """Do once what jobs do all the time; without ``writes``, only the reading of it."""
    keys = Keys(0)
    names = [*keys.of_job("doctor"), f"{keys.prefix}doctor"]
    acts: tuple[Callable[[], Any], ...] = (
        lambda: client.eval(_PROBE, len(names), *names),
        lambda: client.hgetall(keys.job("doctor")),
        lambda: client.xread({keys.trace("doctor"): "0"}),
        lambda: client.hget(AGENTS, "doctor"),
    )
    for act in acts if writes else acts[1:]:
        try:
            act()
        except NoPermissionError as refused:
            facts.denied.append(str(refused))
        except ResponseError as refused:
            # Inside a script the refusal of one command has another form.
            denied = re.search(r"NOPERM|ACL failure|permission", str(refused))
            (facts.denied if denied else facts.refused).append(str(refused))


def _strays(client: Client, partitions: int) -> list[int]:
    pipeline = client.pipeline(transaction=False)
    tried = range(partitions, MOST_PARTITIONS_TRIED)
    for number in tried:
        keys = Keys(number)
        pipeline.exists(keys.due, keys.index_prefix + "paused")
    found = pipeline.execute(raise_on_error=False)
    return [number for number, there in zip(tried, found, strict=True) if there == 1 or there == 2]


def check(facts: ServerFacts, settings: Settings) -> Findings:
    """All checks of the server."""
    found = [*_check(facts, settings)]
    yield from found
    if facts.refused and not any(finding.level == "error" for finding in found):
        yield error(
            AREA, "STEPKEEPER_REDIS_URL",
            f"the server refuses to be written to: {facts.refused[0]}",
            "see the server's log",
        )  # fmt: skip


def _check(facts: ServerFacts, settings: Settings) -> Findings:
    yield from _access(facts)
    yield from _version(facts.info)
    yield from _durability(facts)
    yield from _memory(facts.info, facts.config)
    yield from _replicas(facts, settings)
    yield from _times(facts)
    if facts.strays:
        yield error(
            AREA,
            "STEPKEEPER_PARTITIONS",
            f"partitions {', '.join(map(str, facts.strays))} hold jobs, and the setting is "
            f"{settings.partitions}: nobody sweeps those jobs",
            f"set it to {max(facts.strays) + 1} in every program, or to what the others have",
        )


def _access(facts: ServerFacts) -> Findings:
    for words in dict.fromkeys(facts.denied):
        yield error(
            AREA, "ACL SETUSER", f"this user may not do what jobs need: {words}",
            "allow +@read +@write +@scripting +@stream +time on ~{sk:* and ~sk:agents",
        )  # fmt: skip
    for what in facts.blind:
        yield warning(
            AREA, "ACL SETUSER", f"this user may not ask {what}, so that checks are left out",
            "run the doctor as a user that has +info +config|get +acl|getuser",
        )  # fmt: skip
    if facts.anonymous:
        yield error(
            AREA, "requirepass", "anybody who reaches the server is let in without a password",
            "set requirepass or ACL users; who writes to the broker runs code in workers",
        )  # fmt: skip


def _version(info: Mapping[str, Any]) -> Findings:
    # Valkey answers with the version of Redis that it is compatible with as well.
    version = str(info.get("valkey_version") or info.get("redis_version") or "")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and numbers < OLDEST:
        yield error(
            AREA, "redis-server", f"the server is version {version}; Stepkeeper needs 7.0 or later",
            "upgrade to Redis 7 or later, or to Valkey",
        )  # fmt: skip
    if info.get("cluster_enabled"):
        yield error(
            AREA, "cluster-enabled", "Celery's broker does not work on Redis Cluster",
            "use a single Redis or Sentinel for STEPKEEPER_BROKER_URL; jobs alone may be spread "
            "with STEPKEEPER_PARTITIONS",
        )  # fmt: skip


def _durability(facts: ServerFacts) -> Findings:
    info, config = facts.info, facts.config
    appendonly = info.get("aof_enabled")
    if appendonly == 0:
        yield error(
            AREA, "appendonly", "appendonly is no: a restart of the server loses accepted jobs",
            "CONFIG SET appendonly yes, and in its configuration file",
        )  # fmt: skip
    elif config.get("appendfsync") == "no":
        yield error(
            AREA, "appendfsync", "appendfsync is no: a power loss takes as much as the system kept",
            "CONFIG SET appendfsync always (or everysec)",
        )  # fmt: skip
    elif config.get("appendfsync") == "everysec":
        yield warning(
            AREA, "appendfsync",
            "appendfsync is everysec: a power loss takes up to two seconds of accepted jobs",
            "CONFIG SET appendfsync always, where accepted must mean kept",
        )  # fmt: skip
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status"):
        if info.get(name, "ok") != "ok":
            yield error(
                AREA, "dir", f"{name} is {info[name]}: the append-only file is not written",
                "look at the server's disk: is it full, may it be written?",
            )  # fmt: skip
    policy = config.get("maxmemory-policy", info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        yield error(
            AREA, "maxmemory-policy", f"maxmemory-policy is {policy}: the server may forget jobs",
            "CONFIG SET maxmemory-policy noeviction",
        )  # fmt: skip


def _memory(info: Mapping[str, Any], config: Mapping[str, str]) -> Findings:
    limit = int(info.get("maxmemory") or 0)
    size = limit or int(info.get("total_system_memory") or 0)
    used = int(info.get("used_memory") or 0) / size if size else 0.0
    share = sizes().memory_share if limit else 0.0
    if used > 0.8:
        level = error if used > (share or 0.95) else warning
        from_share = f"; from {share:.0%} on new ones are" if share else ""
        yield level(
            AREA, "maxmemory",
            f"{used:.0%} of the memory is used: at the limit jobs are refused{from_share}",
            "raise maxmemory (and the machine's memory), or shorten STEPKEEPER_RETENTION_S",
        )  # fmt: skip
    clients, most = int(info.get("connected_clients") or 0), int(config.get("maxclients", 0))
    if most and clients > 0.8 * most:
        yield warning(
            AREA, "maxclients", f"{clients} of {most} connections are taken",
            "CONFIG SET maxclients to more, or run fewer processes",
        )  # fmt: skip
    idle = int(config.get("timeout", "0") or 0)
    if 0 < idle < 60:
        yield warning(
            AREA, "timeout", f"the server closes connections that are idle for {idle} s",
            "CONFIG SET timeout 0: waiting workers are idle, too",
        )  # fmt: skip


def _replicas(facts: ServerFacts, settings: Settings) -> Findings:
    info = facts.info
    connected = int(info.get("connected_slaves") or 0)
    if info.get("role") == "slave":
        yield error(
            AREA, "STEPKEEPER_REDIS_URL", "this server is a replica: it refuses to be written to",
            "name the primary, or the sentinels: sentinel://host:26379/0?master=mymaster",
        )  # fmt: skip
    if settings.wait_replicas > connected:
        yield error(
            AREA, "STEPKEEPER_WAIT_REPLICAS",
            f"jobs are accepted once {settings.wait_replicas} replicas have them, and "
            f"{connected} are connected: every submission is refused",
            "connect the replicas, or lower the setting",
        )  # fmt: skip
    needed = int(facts.config.get("min-replicas-to-write", "0") or 0)
    if needed > connected and info.get("role") != "slave":
        yield error(
            AREA, "min-replicas-to-write",
            f"min-replicas-to-write is {needed}, and {connected} replicas are connected: the "
            "server refuses to be written to",
            "connect the replicas, or lower min-replicas-to-write",
        )  # fmt: skip


def _times(facts: ServerFacts) -> Findings:
    if facts.ping_ms > 20:
        level = error if facts.ping_ms > 200 else warning
        yield level(
            AREA, "STEPKEEPER_REDIS_URL",
            f"a round trip takes {facts.ping_ms:.0f} ms, and every step makes several",
            "bring workers and server together; look at the server's slow log and its disk",
        )  # fmt: skip
    if abs(facts.skew_s) > 2:
        ahead = "ahead of" if facts.skew_s > 0 else "behind"
        yield warning(
            AREA, "NTP", f"the server's clock is {abs(facts.skew_s):.1f} s {ahead} ours: leases "
            "are right, but the times of logs and traces do not fit together",
            "let both synchronise their clocks",
        )  # fmt: skip
