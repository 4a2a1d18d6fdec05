"""``top``: workers, tenants, limits and jobs as they are now, again and again."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import failures
from worker.cli.command import command
from worker.cli.limits import COLUMNS as LIMIT_COLUMNS
from worker.cli.limits import cells as limit_cells
from worker.cli.limits import found_limits, used_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from api_client.admin import AdminStore
    from api_client.contract import JobView
    from api_client.survey import Survey
    from api_client.tenants import Tenant
    from worker.cli.session import Session
    from worker.flow.standing import Standing

ROWS = 30
TENANTS = 10
"""Most tenants that are shown, the busiest first."""
COUNTED = 1000
"""Most running jobs that are counted by their workers."""
ANSWER_S = 1.0
ASK_WORKERS_EVERY_S = 5.0
_RESTING = ("paused", "waiting", "queued")


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "top")(top)


def top(
    session: Session,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    every: Annotated[
        float, typer.Option(min=0.2, max=60, metavar="SECONDS", help="Between two looks.")
    ] = 2.0,
) -> int:
    """Watch workers, tenants, limits of models and jobs: who runs what, what waits and why."""
    console = session.out.console
    if session.out.as_json or once or not console.is_terminal:
        look = _watcher(session, workers(session)).look()
        session.out.result(look.as_json(), table(look))
        return failures.OK
    from rich.live import Live

    asking = _Asking(lambda: workers(session))
    watcher = _watcher(session)
    pause = threading.Event()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            watcher.workers = asking.latest()
            live.update(table(watcher.look()), refresh=True)
            pause.wait(every)


def _watcher(session: Session, workers: Mapping[str, int] | None = None) -> Watcher:
    return Watcher(session.admin, lambda: found_limits(session), workers or {})


def workers(session: Session) -> dict[str, int]:
    """Concurrency of the workers that answer within a second, by node."""
    from kombu.exceptions import OperationalError

    from worker.cli.asking import asking_app

    app = asking_app(session)
    connection = app.connection_for_read()
    away: tuple[type[BaseException], ...] = (
        OperationalError,
        OSError,
        *connection.connection_errors,
    )
    try:
        with connection:
            asking = app.control.inspect(timeout=ANSWER_S, connection=connection)
            answers: Any = asking.stats() or {}
    except away:
        return {}
    return {
        node: int(answer["pool"].get("max-concurrency") or 0) for node, answer in answers.items()
    }


class _Asking:
    """Asks the workers from a thread of its own: an answer takes a second."""

    def __init__(self, ask: Callable[[], dict[str, int]]) -> None:
        self._ask = ask
        self._found: dict[str, int] = {}
        self._pause = threading.Event()
        threading.Thread(target=self._run, name="stepkeeper-top", daemon=True).start()

    def latest(self) -> dict[str, int]:
        """What was answered last."""
        return self._found

    def _run(self) -> None:
        while True:
            self._found = self._ask()
            self._pause.wait(ASK_WORKERS_EVERY_S)


@dataclass(slots=True)
class Look:
    """What there is at one moment.

    Attributes:
        workers: concurrency by node; 0 for one that did not answer and holds a job.
        running: jobs by node.
        tenants: that have jobs running or waiting, the busiest first.
        models: that have a limit.
        tokens_per_s: spent by the jobs that run, since the look before; ``None`` at the first.
    """

    survey: Survey
    jobs: Sequence[JobView]
    workers: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)
    tenants: Sequence[Tenant] = ()
    models: Sequence[Standing] = ()
    tokens_per_s: float | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        counts: dict[str, int] = {}
        for (_, status), count in self.survey.jobs.items():
            counts[status] = counts.get(status, 0) + count
        return {
            "jobs": counts,
            "quarantined": self.survey.quarantined,
            "overdue_s": self.survey.overdue_s,
            "workers": [
                {"node": node, "concurrency": slots, "running": self.running.get(node, 0)}
                for node, slots in self.workers.items()
            ],
            "tenants": [tenant.model_dump(mode="json") for tenant in self.tenants],
            "models": [model.as_json() for model in self.models],
            "tokens_per_s": self.tokens_per_s,
            "shown": [
                {
                    "job_id": view.job_id,
                    "agent": view.spec.agent,
                    "status": str(view.status),
                    "worker": view.worker,
                    "steps": view.steps,
                    "usage": view.usage.model_dump(mode="json"),
                    "pause": view.pause.kind if view.pause else None,
                }
                for view in self.jobs[:ROWS]
            ],
        }


class Watcher:
    """Looks again and again, and knows what it saw before.

    Args:
        models: the limits as they stand.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        store: AdminStore,
        models: Callable[[], Sequence[Standing]],
        workers: Mapping[str, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._models = models
        self._clock = clock
        self._before: dict[str, int] | None = None
        self._at = 0.0
        self.workers = workers

    def look(self) -> Look:
        """What there is now.

        Raises:
            StoreUnavailable
        """
        from api_client.contract import JobStatus
        from worker.rendering.texts import node_of

        jobs = self._store.list_jobs(JobStatus.RUNNING, COUNTED)
        running = Counter(node_of(view.worker) for view in jobs if view.worker)
        for status in _RESTING:
            jobs += self._store.list_jobs(JobStatus(status), ROWS)
        known = {**dict.fromkeys(running, 0), **self.workers}
        return Look(
            survey=self._store.survey(),
            jobs=jobs,
            workers=dict(sorted(known.items())),
            running=running,
            tenants=busiest(self._store.tenants()),
            models=self._models(),
            tokens_per_s=self._rate(jobs),
        )

    def _rate(self, jobs: Sequence[JobView]) -> float | None:
        """Tokens a second of the jobs that were seen before and are seen now."""
        now, spent = self._clock(), {view.job_id: view.usage.total_tokens for view in jobs}
        before, passed = self._before, now - self._at
        self._before, self._at = spent, now
        if before is None or passed <= 0:
            return None
        return (
            sum(max(0, total - before[job]) for job, total in spent.items() if job in before)
            / passed
        )


def busiest(tenants: Sequence[Tenant]) -> list[Tenant]:
    """Those that have jobs running or waiting, the busiest first."""
    busy = [one for one in tenants if one.running or one.ready or one.waiting]
    return sorted(busy, key=lambda one: (-one.running, -one.ready, -one.waiting, one.name))


def table(look: Look) -> RenderableType:
    """A look, as people read it."""
    from rich.console import Group
    from rich.text import Text

    parts = [_summary(look), _workers(look)]
    parts += [_tenants(look)] if look.tenants else []
    parts += [_models(look)] if look.models else []
    spaced = [item for part in (*parts, _jobs(look)) for item in (part, Text())]
    return Group(*spaced[:-1])


def _summary(look: Look) -> RenderableType:
    from rich.text import Text

    from worker.rendering.printer import STATUS_STYLES

    text = Text()
    found = look.as_json()
    for status, count in found["jobs"].items():
        if count:
            text.append(f"{count:,} {status}  ", STATUS_STYLES.get(status, "bold"))
    if look.tokens_per_s is not None:
        text.append(f"{look.tokens_per_s:,.0f} tokens/s  ", "cyan")
    if look.survey.quarantined:
        text.append(f"{look.survey.quarantined} in quarantine  ", "bold red")
    if look.survey.overdue_s > 10:
        text.append(f"a job is overdue by {look.survey.overdue_s:.0f} s", "bold red")
    return text or Text("no jobs")


def _workers(look: Look) -> RenderableType:
    from rich.text import Text

    from worker.cli.tables import Listing

    if not look.workers:
        return Text("no worker answers", "bold red")
    rows = [
        (node, f"{look.running.get(node, 0)} of {slots or '?'}")
        for node, slots in look.workers.items()
    ]
    return Listing(("worker", "running"), rows)


def _tenants(look: Look) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from worker.cli.tables import Listing

    rows = [
        (
            one.name,
            f"{one.policy.weight:g}",
            used_of(one.running, one.policy.concurrency),
            f"{one.ready:,}",
            f"{one.waiting:,}",
            used_of(one.ready + one.waiting, one.policy.backlog),
        )
        for one in look.tenants[:TENANTS]
    ]
    listing = Listing(("tenant", "weight", "running", "queued", "waiting", "backlog"), rows)
    more = len(look.tenants) - len(rows)
    return Group(listing, Text(f"and {more:,} more tenants", "dim")) if more else listing


def _models(look: Look) -> RenderableType:
    from worker.cli.tables import Listing

    return Listing(LIMIT_COLUMNS, [limit_cells(model) for model in look.models])


def _jobs(look: Look) -> RenderableType:
    from worker.cli.tables import Listing
    from worker.rendering.texts import excerpt, node_of, plain

    rows = [
        (
            view.job_id,
            view.spec.agent,
            str(view.status),
            _why(view) or node_of(view.worker or ""),
            str(view.steps),
            f"{view.usage.total_tokens:,}",
            excerpt(plain(view.spec.input), 1, 40).replace("\n", " "),
        )
        for view in look.jobs[:ROWS]
    ]
    return Listing(("job", "agent", "status", "where or why", "steps", "tokens", "task"), rows)


def _why(view: JobView) -> str:
    """What a job that does not run waits for."""
    if view.pause is not None:
        return str(view.pause.kind)
    if view.due and str(view.status) == "waiting":
        from worker.rendering.printer import local_time

        return f"until {local_time(view.due)}"
    return ""
