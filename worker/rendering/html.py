"""A job's trace as one page: no script, nothing from elsewhere, light or dark as its reader likes.

Everything that a job holds is foreign text. It stands in the page escaped, and without characters
that hide or reorder what is around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources

from api_client.contract import Event, JobView
from worker.rendering.follow import TraceSource, written
from worker.rendering.narrator import Line, Narrator
from worker.rendering.texts import about, clean, duration, excerpt, how_to_answer, plain, totals
from worker.rendering.timeline import Scale, Span, spans
from worker.rendering.timeline import totals as times
from worker.rendering.transcript import TranscriptReader

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_WIDTH = 1000.0
_LANES = {"model": 0, "tool": 1, "pause": 2, "wait": 2, "queue": 2, "gone": 2}
_LANE_NAMES = ("model", "tools", "waiting")
_LANE = 26
_SHORTEST = 2.0
_UNFOLDED = 12
_WORDS = {
    "model": "in model calls",
    "tool": "in tools",
    "pause": "for people",
    "wait": "for models or sub-jobs",
    "queue": "for a worker",
    "gone": "while its worker was gone",
}


def trace_page(store: TraceSource, job_id: str) -> str:
    """The whole page, as it is now.

    Raises:
        JobNotFound, StoreUnavailable
    """
    view = store.read(job_id)
    events = [*written(store, job_id)]
    transcript = TranscriptReader(lambda start: store.messages(job_id, start))
    narrator = Narrator(transcript, lambda: view, full=True)
    lines = [line for event in events for line in narrator.tell(event)]
    return _page(view, events, spans(events, transcript), lines)


def _page(
    view: JobView, events: Sequence[Event], found: Sequence[Span], lines: Sequence[Line]
) -> str:
    style = resources.files("worker.rendering").joinpath("trace.css").read_text(encoding="utf-8")
    title = f"Job {view.job_id}"
    body = "\n".join([*_head(view), *_timeline(found), *_steps(lines), *_end(view)])
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="referrer" content="no-referrer">
<title>{_text(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<footer>{len(events)} records, written {when}</footer>
</body>
</html>
"""


def _text(value: str) -> str:
    """Foreign text, harmless."""
    return escape(clean(value), quote=True)


def _time(ms: int) -> str:
    """A time in UTC, which is the same for every reader of a file."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    shown = moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f'<time datetime="{moment.isoformat(timespec="milliseconds")}">{shown}</time>'


# --- the head --------------------------------------------------------------------------------


def _head(view: JobView) -> Iterator[str]:
    yield "<header>"
    badge = f'<span class="status {view.status}">{view.status}</span>'
    yield f"<h1>{_text(view.spec.agent)} {badge}</h1>"
    yield "<dl>"
    facts = {
        "job": f"<code>{_text(view.job_id)}</code>",
        "parent": _text(view.spec.parent),
        "tenant": _text(view.spec.tenant),
        "labels": _text(", ".join(view.spec.labels)),
        "submitted": _time(view.created),
        "used": _text(totals(view)),
    }
    for name, value in facts.items():
        if value:
            yield f"<dt>{name}</dt><dd>{value}</dd>"
    yield "</dl></header>"


# --- the timeline ----------------------------------------------------------------------------


def _timeline(found: Sequence[Span]) -> Iterator[str]:
    if not found:
        return
    scale = Scale(found)
    height = _LANE * len(_LANE_NAMES)
    yield '<section class="timeline" aria-label="timeline"><h2>Timeline</h2>'
    box = f"-70 0 {_WIDTH + 80:.0f} {height}"
    yield f'<svg viewBox="{box}" role="img" aria-label="What the job did when">'
    for number, name in enumerate(_LANE_NAMES):
        middle = number * _LANE + _LANE / 2
        yield f'<line class="lane" x1="0" x2="{_WIDTH:.0f}" y1="{middle}" y2="{middle}"/>'
        yield f'<text class="name" x="-8" y="{middle}">{name}</text>'
    for span in found:
        yield _bar(span, scale)
    yield "</svg>"
    shares = ", ".join(f"{duration(ms)} {_WORDS[kind]}" for kind, ms in times(found).items())
    yield f"<p>{_text(shares)}. Long waits are drawn shorter than they were.</p></section>"


def _bar(span: Span, scale: Scale) -> str:
    left, right = scale.place(span.start) * _WIDTH, scale.place(span.end) * _WIDTH
    top = _LANES[span.kind] * _LANE + 4
    tip = _text(f"{span.label}, {duration(span.ms)}")
    return (
        f'<rect class="{span.kind}" x="{left:.2f}" y="{top}" '
        f'width="{max(_SHORTEST, right - left):.2f}" height="{_LANE - 8}" rx="3">'
        f"<title>{tip}</title></rect>"
    )


# --- the records -----------------------------------------------------------------------------


def _steps(lines: Sequence[Line]) -> Iterator[str]:
    """The lines of the narrator; a step begins a section, and holds what belongs to it."""
    yield '<section class="records"><h2>Records</h2>'
    inside = False
    for line in lines:
        if inside and not line.inside:
            yield "</section>"
            inside = False
        if line.label.startswith("step ") and line.tone == "head":
            yield '<section class="step">'
            yield f"<h3>{_text(line.label)} <small>{_text(line.aside)}</small></h3>"
            inside = True
        else:
            yield _entry(line)
    yield "</section>" * (2 if inside else 1)


def _entry(line: Line) -> str:
    aside = f"<small>{_text(line.aside)}</small>" if line.aside else ""
    text = _folded(line.text) if line.text else ""
    return f'<div class="line {line.tone}"><b>{_text(line.label)}</b><div>{text}{aside}</div></div>'


def _folded(text: str) -> str:
    """The text; a long one behind its beginning."""
    beginning = excerpt(text, _UNFOLDED)
    if len(beginning) >= len(text):
        return f"<pre>{_text(text)}</pre>"
    whole = f"<pre>{_text(text)}</pre>"
    return f"<details><summary><pre>{_text(beginning)}</pre></summary>{whole}</details>"


def _end(view: JobView) -> Iterator[str]:
    """The answer, the failure, or what the job waits for."""
    outcome, pause = view.outcome, view.pause
    if outcome is not None and outcome.ok:
        yield f'<section class="answer"><h2>Answer</h2><pre>{_text(plain(outcome.value))}</pre>'
        yield "</section>"
    elif outcome is not None:
        yield f'<section class="reason"><h2>{_text(outcome.reason)}</h2>'
        yield f"<pre>{_text(outcome.text)}</pre></section>"
    if pause is not None:
        yield f'<section class="waits"><h2>Waits for a person</h2><p>{_text(pause.question)}</p>'
        if action := about(pause):
            yield f"<pre>{_text(action)}</pre>"
        yield "".join(f"<pre>{_text(command)}</pre>" for command in how_to_answer(view))
        yield "</section>"
