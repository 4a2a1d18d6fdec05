"""Announcing pauses and ends to others: webhooks and Celery signatures.

    channels    on which channels an agent's events are announced
    body        what is said
    webhook     by HTTP, signed
    office      takes announcements from the store's outbox, delivers them, tries again

An announcement is written in the same step as what it announces, so it can neither come before
the pause is durable nor be forgotten. It is delivered at least once, by a thread of its own.
"""
