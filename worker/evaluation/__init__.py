"""Evaluating agents: a file of tasks, and checks of the answers *and of the ways* to them.

    suite      what a file says: tasks, and what is expected of each
    running    one task run inline, and what was seen of it
    checks     what was seen, held against what is expected
    report     the table for people, and JSON for programs
    suites     suites that come with the package: ``examples``

Run by ``stepkeeper eval SUITE``, or from a program::

    report = evaluate(load_suite("evals/shop.toml"))
    assert report.passed, report.reasons()
"""

from worker.evaluation.report import Report
from worker.evaluation.running import evaluate
from worker.evaluation.suite import Suite, load_suite

__all__ = ["Report", "Suite", "evaluate", "load_suite"]
