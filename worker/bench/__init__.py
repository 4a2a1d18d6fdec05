"""The benchmark: what each thing costs beside the least that it could cost, measured in one run.

    options     how long and how often
    run         the parts in their order
    report, plot   tables and a picture of what was found; ``--json`` prints the object itself

The parts: steps, throughput, waiting, latency, paused, recover, submit. What they share:

    measuring   medians, spreads, ratios; taking floor and value in turns
    machine     what it ran on
    room        a scratch folder with a server of its own
    crew        workers in processes of their own: ours, and plain Celery's
    floors, plain, bare_calls   the least that would do a similar thing
    counting, vital   what servers, clients and processes counted
    load, agents, slow_model    jobs of so many steps, for this process, workers, over HTTP
    stepping    running one job in this process

``stepkeeper bench`` runs it.
"""

from __future__ import annotations
