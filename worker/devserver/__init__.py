"""A model server for demos and tests: real HTTP on loopback, with a script instead of a model."""

from worker.devserver.faults import Fault
from worker.devserver.server import ModelServer, Recorded
from worker.devserver.strict import Strict, WireError

__all__ = ["Fault", "ModelServer", "Recorded", "Strict", "WireError"]
