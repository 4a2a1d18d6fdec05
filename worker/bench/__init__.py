"""The benchmark: what each thing costs beside the least that it could cost, measured in one run.

    options     how long and how often
    measuring   medians, spreads, ratios; taking floor and value in turns
    machine     what it ran on
    room        a scratch folder with a server of its own, and what goes with it
    floors      the bare loops to which the product is compared
    counting    what a server and a client counted
    load        jobs of so many steps: an instant model and the tools that it calls
    steps       one job, step by step: time, round trips, bytes; stepping runs it
    report      the object that ``--json`` prints, and the tables for people
    run         the parts in their order

``stepkeeper bench`` runs it.
"""

from __future__ import annotations
