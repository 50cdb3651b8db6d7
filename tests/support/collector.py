"""A collector of OpenTelemetry on loopback: OTLP over HTTP, read with OpenTelemetry's own messages."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class Collector:
    """What it was sent; with `hangs` it answers nothing before that is set, `status` is what it answers."""

    url: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    requests: int = 0
    status: int = 200
    hangs: threading.Event | None = None

    def named(self, beginning: str) -> list[dict[str, Any]]:
        """The spans whose names begin so."""
        return [span for span in self.spans if span["name"].startswith(beginning)]


@contextmanager
def collector(**told: Any) -> Iterator[Collector]:
    """One that listens until the block ends."""
    found = Collector(**told)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.requests += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if found.hangs:
                found.hangs.wait()
            if found.status == 200:
                packed = self.headers.get("Content-Encoding") == "gzip"
                found.spans += _spans(ExportTraceServiceRequest.FromString(gzip.decompress(body) if packed else body))
                found.headers.append(dict(self.headers.items()))
            self.send_response(found.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        if found.hangs:
            found.hangs.set()
        server.shutdown()
        server.server_close()


def _spans(request: Any) -> Iterator[dict[str, Any]]:
    for resource in request.resource_spans:
        of = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "name": span.name, "trace": span.trace_id, "id": span.span_id, "parent": span.parent_span_id,
                    "start": span.start_time_unix_nano, "end": span.end_time_unix_nano, "status": span.status.code,
                    "events": [event.name for event in span.events], "resource": of, "kind": span.kind,
                    "attributes": {one.key: _value(one.value) for one in span.attributes},
                }  # fmt: skip


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
