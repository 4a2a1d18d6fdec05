"""Stepkeeper's worker: agents as Celery tasks that survive crashes and wait for people."""
