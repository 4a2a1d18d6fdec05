"""A job's trace, as a person reads it and as JSON lines.

    narrator    what each trace record says, as lines of plain text
    transcript  the messages that the records name by index
    printer     lines on a terminal, a pipe or a narrow window
    records     the same trace for programs, one JSON object a record
    timeline    what took how long: spans of time, and a line to draw them on
    html        the trace as one page without scripts
    follow      records as they come, until a job ends, pauses or a time is over
    texts       the small words: actions, durations, excerpts, nothing that steers a terminal

Everything here reads a ``TraceSource``: ``RedisJobStore.from_url(url)``, or the store in memory.
"""

from worker.rendering.follow import TraceSource, follow, rests, written
from worker.rendering.html import trace_page
from worker.rendering.narrator import Line, Narrator
from worker.rendering.printer import Printer, make_console, print_trace
from worker.rendering.records import trace_records
from worker.rendering.texts import action_text, clean, duration, excerpt, how_to_answer, plain
from worker.rendering.transcript import TranscriptReader

__all__ = [
    "Line",
    "Narrator",
    "Printer",
    "TraceSource",
    "TranscriptReader",
    "action_text",
    "clean",
    "duration",
    "excerpt",
    "follow",
    "how_to_answer",
    "make_console",
    "plain",
    "print_trace",
    "rests",
    "trace_page",
    "trace_records",
    "written",
]
