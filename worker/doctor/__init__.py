"""What is wrong with a deployment, before a job finds out.

    findings      what a check says: a level, what is wrong, and the setting to change
    server        the store's Redis: version, durability, memory, latency, permissions
    celery_rules  Celery settings that harm jobs, one line a rule
    fleet         workers, queues and agents, as far as they answer
    encryption    keys: those here, those of workers, those that jobs need
    environment   the settings of this process
    model_api     whether the model's API answers
    examine       all of it, in order

Checks are functions of facts, so that each can be tested by planting what it looks for; gathering
the facts is a function of its own.
"""

from worker.doctor.examine import Patient, examine
from worker.doctor.findings import Finding, Level

__all__ = ["Finding", "Level", "Patient", "examine"]
