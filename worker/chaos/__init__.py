"""The crash proof: jobs of all kinds on real workers, while workers and Redis are being killed.

    plan      what happens, drawn from a seed: jobs and strikes
    script    the words of a job, and what must come of them
    agents    the agent that runs them: a scripted model, tools that write to the ledger
    ledger    the outside world: effects and bills, apart from the job store
    run       the driver; beside it wreck strikes, and people answer pauses twice at once
    verdict   from the evidence to the report: what was lost, what was doubled

``stepkeeper chaos`` runs it; ``run_chaos`` does from Python.
"""

from __future__ import annotations
