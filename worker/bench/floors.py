"""What the product is compared to: the least that would do a similar thing."""

from __future__ import annotations

import time

import redis

from api_client.connection import Client

_LIST = "floor:list"
_RECORD = "floor:record"

# What any store with a fencing token must do at least: compare it and append, in one script.
_FENCED_APPEND = """
if redis.call('HGET', KEYS[1], 'epoch') ~= ARGV[1] then
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[2])
return 1
"""


def bare_client(url: str) -> Client:
    """redis-py with nothing set: the quickest that it can be."""
    return redis.Redis.from_url(url)


def rpush_steps_per_s(client: Client, payload: bytes, steps: int) -> float:
    """One RPUSH a step, each waiting for its answer; the list is gone afterwards."""
    begin = time.perf_counter()
    for _ in range(steps):
        client.rpush(_LIST, payload)
    seconds = time.perf_counter() - begin
    client.delete(_LIST)
    return steps / seconds


def fenced_steps_per_s(client: Client, payload: bytes, steps: int) -> float:
    """One script a step that compares an epoch and appends; its keys are gone afterwards."""
    client.hset(_RECORD, "epoch", 1)
    digest = client.script_load(_FENCED_APPEND)
    begin = time.perf_counter()
    for _ in range(steps):
        client.evalsha(digest, 2, _RECORD, _LIST, 1, payload)
    seconds = time.perf_counter() - begin
    client.delete(_RECORD, _LIST)
    return steps / seconds
