"""A recorded run sent to an OpenTelemetry collector, by OTLP over HTTP. Needs the extra `otel`."""

from __future__ import annotations

import hashlib
import logging
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from agentrt.errors import InvalidRequest
from agentrt.trace.attributes import EXCEPTION_MESSAGE, RUNTIME_ID, SCHEMA_URL
from agentrt.trace.export.values import json_text, spans_of
from agentrt.trace.privacy import Privacy
from agentrt.trace.spans import SpanKind, SpanStatus

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    import requests
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from agentrt.trace.engines import EngineBatches
    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import RuntimeInfo, SpanRow
    from agentrt.trace.spans import Value

_BATCH = 512
_STRETCH_NS = 1_000_000_000
CONNECT_S = 3.0
"""Seconds that a collector has to take a connection. OpenTelemetry would try again, and wait longer
each time, where nobody listens: that suits a service, and not a command that somebody waits for."""


def send(run: RecordedRun, endpoint: str | None = None, *, content: bool = False) -> int:
    """Sends every span, and one for each second of an engine's work; returns how many.

    With `content` it also sends what was written: prompts, outputs, arguments, messages of errors.

    `endpoint` is the collector's address for traces, such as http://localhost:4318/v1/traces; None
    is what OTEL_EXPORTER_OTLP_ENDPOINT says. Ids follow from the run's, so that what is sent twice
    is one trace. Raises InvalidRequest without the extra, and where the collector does not answer.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SpanExportResult
    except ImportError as error:
        raise InvalidRequest(
            "OTLP needs OpenTelemetry, which is not installed; pip install 'agentrt[otel]'"
        ) from error
    exporter = OTLPSpanExporter(endpoint=endpoint, session=_session())
    sent, spans = 0, _spans(run, content=content)
    try:
        with _unsaid() as said:
            while batch := list(islice(spans, _BATCH)):
                if exporter.export(batch) is not SpanExportResult.SUCCESS:
                    where = endpoint or "the configured endpoint"
                    raise InvalidRequest(
                        f"the collector at {where} took {sent} spans and no more "
                        f"({said[-1].rstrip('. ') if said else 'it did not say why'}); is it "
                        "running, and is this its address for traces (.../v1/traces)?"
                    )
                sent += len(batch)
    finally:
        exporter.shutdown()
    return sent


def _session() -> requests.Session:
    """A session that says at once where nobody answers."""
    import requests
    from requests.adapters import HTTPAdapter

    class Adapter(HTTPAdapter):
        def send(self, *given: Any, timeout: Any = None, **how: Any) -> requests.Response:
            try:
                return super().send(*given, timeout=(CONNECT_S, timeout), **how)
            except requests.ConnectionError as error:
                raise InvalidRequest(f"it cannot be reached: {_cause(error)}") from error

    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, Adapter())
    return session


def _cause(error: BaseException) -> str:
    """What a connection failed of, without who passed it on."""
    while (inner := getattr(error, "reason", None) or error.__context__) is not None:
        error = inner
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def _unsaid() -> Generator[list[str]]:
    """What OpenTelemetry logs in the block, each retry in a line of its own, kept from the screen:
    how it ends is told by who asked."""
    said: list[str] = []
    logger, handler = logging.getLogger("opentelemetry"), logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


def _spans(run: RecordedRun, *, content: bool) -> Iterator[ReadableSpan]:
    resource = _resource(run)
    for span in spans_of(run):
        yield _converted(run, span, resource, content=content)
    root = run.root().id
    for runtime in run.runtimes():
        for batches in run.batches(runtime.id, stretch_ns=_STRETCH_NS):
            yield _of_engine(run, root, runtime, batches, resource)


def _of_engine(
    run: RecordedRun, root: int, runtime: RuntimeInfo, batches: EngineBatches, resource: Resource
) -> ReadableSpan:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status, StatusCode

    values = batches._asdict()
    started, ended = values.pop("started_ns"), values.pop("ended_ns")
    return ReadableSpan(
        f"batch {runtime.model}",
        context=_context(run.path.stem, f"{runtime.id}/{started}"),
        parent=_context(run.path.stem, root),
        resource=resource,
        attributes={
            "agentrt.kind": "batch",
            RUNTIME_ID: runtime.id,
            **{f"agentrt.batch.{name}": value for name, value in values.items()},
        },
        status=Status(StatusCode.OK),
        start_time=started,
        end_time=ended,
    )


def _resource(run: RecordedRun) -> Resource:
    from opentelemetry.sdk.resources import Resource

    info = run.info()
    named = {
        "service.name": info.name,
        "service.instance.id": info.id,
        "telemetry.distro.name": "agentrt",
        "telemetry.distro.version": info.agentrt,
    }
    return Resource(named, SCHEMA_URL)


def _converted(
    run: RecordedRun, span: SpanRow, resource: Resource, *, content: bool
) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import SpanKind as OtelKind
    from opentelemetry.trace import Status, StatusCode

    trace_id = run.path.stem
    kind = OtelKind.CLIENT if span.kind is SpanKind.GENERATION else OtelKind.INTERNAL
    privacy = Privacy(content=content)
    attributes = privacy.attributes(run.attributes(span.id, large=content))
    failed = span.status in {SpanStatus.ERROR, SpanStatus.CANCELLED}
    return ReadableSpan(
        span.name,
        context=_context(trace_id, span.id),
        parent=None if span.parent_id is None else _context(trace_id, span.parent_id),
        resource=resource,
        attributes={
            "agentrt.kind": span.kind.value,
            "agentrt.status": span.status.value,
            **_flat(attributes),
        },
        events=[
            Event(event.name, _flat(privacy.attributes(event.attributes)), event.at_ns)
            for event in run.events(span.id)
        ],
        kind=kind,
        status=Status(
            StatusCode.ERROR if failed else StatusCode.OK,
            str(attributes.get(EXCEPTION_MESSAGE) or span.status.value) if failed else None,
        ),
        start_time=span.started_ns,
        end_time=span.ended_ns or span.started_ns,
    )


def _context(run_id: str, span_id: int | str) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    trace = hashlib.sha256(run_id.encode()).digest()
    span = hashlib.sha256(f"{run_id}/{span_id}".encode()).digest()
    return SpanContext(
        int.from_bytes(trace[:16], "big"),
        int.from_bytes(span[:8], "big"),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _flat(attributes: Mapping[str, Value]) -> dict[str, Any]:
    """Attributes as OTLP takes them: values, lists of values of one kind, all others as JSON."""
    flat: dict[str, Any] = {}
    for key, value in attributes.items():
        if value is None:
            continue
        if isinstance(value, (bool, int, float, str)) or _is_plain_list(value):
            flat[key] = value
        else:
            flat[key] = json_text(value)
    return flat


def _is_plain_list(value: Value) -> bool:
    if not isinstance(value, list):
        return False
    kinds = {type(item) for item in value}
    return len(kinds) <= 1 and kinds <= {bool, int, float, str}
