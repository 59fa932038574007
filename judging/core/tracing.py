"""Spans of OpenTelemetry, if the operator has set its variables. Otherwise nothing is imported.

Spans hold times, names and numbers: no text of the data, no reply, no key, and no address of a
page, which may be a link that lets somebody in.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

# What a line of the log or a span is about, such as {"request": "9f2c…"} or {"run": "vicuna/3"}.
log_context: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("log_context", default=())

# The name under which this process is traced; "" if it isn't. Callers whose time matters look here
# first.
service = ""
_tracer: Any = None
_lock = threading.Lock()


class NoSpan:
    """What a block gets if nothing is traced."""

    def set(self, **attributes: Any) -> None:
        """Take attributes, and do nothing."""

    def name(self, name: str) -> None:
        """Take another name, and do nothing."""

    def fail(self, reason: str) -> None:
        """Take a failure, and do nothing."""


class _Span(NoSpan):
    def __init__(self, span: Any) -> None:
        self._span = span

    def set(self, **attributes: Any) -> None:
        self._span.set_attributes(_spelled(attributes))

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, reason))


def trace_as(name: str) -> None:
    """Trace from now on, under the name of a service; with "" trace nothing."""
    global service, _tracer
    service, _tracer = name, None


def _started() -> Any:
    """Return the tracer of this process. Its sender is a thread, which no fork would keep."""
    global _tracer
    with _lock:
        if _tracer is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            provider = TracerProvider(resource=Resource.create({"service.name": service}))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            _tracer = provider.get_tracer("fairjudge")
        return _tracer


def _spelled(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Names of attributes have dots, which keywords write as two underscores."""
    return {
        name.replace("__", "."): value for name, value in attributes.items() if value is not None
    }


@contextmanager
def span(
    name: str,
    kind: str = "internal",
    parent: str | None = None,
    *,
    of_its_own: bool = False,
    **attributes: Any,
) -> Iterator[NoSpan]:
    """Measure the block, if spans are wanted.

    Args:
        kind: internal, server, client, producer or consumer.
        parent: The W3C `traceparent` of who caused it elsewhere.
        of_its_own: Begin a trace that only refers to the one around it. A run has a million calls.
        attributes: Of the span; two underscores are a dot.
    """
    if not service:
        yield NoSpan()
        return
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context, links = None, []
    if parent:
        # An empty context, so that the span has no other parent in this thread.
        context = TraceContextTextMapPropagator().extract({"traceparent": parent}, Context())
    elif of_its_own:
        around = trace.get_current_span().get_span_context()
        context = Context()
        links = [trace.Link(around)] if around.is_valid else []
    about = {f"fairjudge.{key}": value for key, value in log_context.get()}
    # The text of an exception may hold texts of the data, so no exception is recorded.
    with _started().start_as_current_span(
        name,
        context=context,
        kind=trace.SpanKind[kind.upper()],
        attributes=_spelled(attributes) | about,
        links=links,
        record_exception=False,
    ) as made:
        yield _Span(made)


def traceparent() -> dict[str, str]:
    """Return the header by which a message or a request belongs to this trace; {} without one."""
    if not service:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {"traceparent": carrier["traceparent"]} if "traceparent" in carrier else {}
