"""The whole product on one machine, in half a minute: ``stepkeeper demo``.

run             starts, plays, cleans up
play            the three jobs, the kill, the question, and the proof
stage           a valkey-server, a model's server and workers in a scratch folder
worker_process  a worker to kill
held            a model that counts, and holds a reply back until the worker is dead
screen          traces and progress for people, JSON lines for programs
"""

from worker.demo.failure import DemoFailed
from worker.demo.run import run_demo

__all__ = ["DemoFailed", "run_demo"]
