"""A collector of OpenTelemetry spans, as a program would send them to: OTLP over HTTP."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span, as it was received; ids are hexadecimal."""

    name: str
    trace: str
    span: str
    parent: str
    attributes: dict[str, Any]
    service: str
    error: bool


class Collector:
    """Listens on this machine; use it as a context manager."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            """Takes what is posted."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/traces":
                    collector.spans += _read(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """For ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _read(body: bytes) -> list[Received]:
    request = ExportTraceServiceRequest.FromString(body)
    found = []
    for resource in request.resource_spans:
        of_resource = {a.key: a.value.string_value for a in resource.resource.attributes}
        for scope in resource.scope_spans:
            found += [_span(span, of_resource.get("service.name", "")) for span in scope.spans]
    return found


def _span(span: Any, service: str) -> Received:
    return Received(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {a.key: _value(a.value) for a in span.attributes},
        service,
        span.status.code == 2,
    )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")
