"""Exports, read back by what is not ours."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import socket
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from PIL import Image

from agentrt.errors import InvalidRequest
from agentrt.trace import SpanKind, SpanStatus, TraceConfig, open_run, recording
from agentrt.trace import attributes as names
from agentrt.trace.export import Form, exported, send
from agentrt.trace.export.chrome import Lanes
from agentrt.trace.reading import RecordedRun
from agentrt.trace.records import SpanRow
from agentrt.trace.spans import span
from tests.trace.viewer.recorded import PROMPT, record, record_many

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    with record(tmp_path) as run:
        yield run


def data(run: RecordedRun, form: Form, **more: str) -> bytes:
    return b"".join(exported(run, form, **more))


def test_json_lines(run: RecordedRun) -> None:
    lines = [json.loads(line) for line in data(run, Form.JSONL).splitlines()]
    assert [line["type"] for line in lines[:3]] == ["run", "runtime", "span"]
    spans = [line for line in lines if line["type"] == "span"]
    assert len(spans) == lines[0]["spans"] == 13
    first = next(each for each in spans if each["kind"] == "generation")
    assert first["attributes"][names.PROMPT_TEXT] == PROMPT
    assert first["attributes"][names.OUTPUT_TEXT] == '{"city": "Paris"}'
    parents = {each["id"] for each in spans} | {None}
    assert {each["parent"] for each in spans} <= parents


def test_chrome(run: RecordedRun) -> None:
    trace = json.loads(data(run, Form.CHROME))
    events = trace["traceEvents"]
    spans = [event for event in events if event["ph"] == "X" and event["cat"] != "phase"]
    assert len(spans) == 13
    assert [event["name"] for event in events if event.get("cat") == "phase"][:3] == [
        "queue",
        "prefill",
        "decode",
    ]
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in spans)
    nested(spans)


def strictly(text: bytes | str) -> dict:
    """JSON as the standard has it: no NaN, no half of a character in the file itself."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text if isinstance(text, str) else text.decode(), parse_constant=refuse)


def test_what_json_has_not(tmp_path: Path) -> None:
    with recording(TraceConfig(folder=tmp_path)) as active:
        assert active is not None
        with span(SpanKind.STEP, "half \ud83d", {"a": float("nan"), "b": [float("-inf"), 1.5]}):
            pass
    with open_run(active.path) as run:
        strictly(data(run, Form.CHROME))
        (line,) = [
            each
            for each in map(strictly, data(run, Form.JSONL).splitlines())
            if each.get("kind") == "step"
        ]
        assert line["attributes"] == {"a": None, "b": [None, 1.5]}
        assert data(run, Form.HTML).decode()


def test_engine_batches_are_exported(tmp_path: Path, collector: Collector) -> None:
    with record(tmp_path, steps=40) as run:
        lines = [strictly(line) for line in data(run, Form.JSONL).splitlines()]
        batches = [line for line in lines if line["type"] == "batch"]
        assert sum(batch["steps"] for batch in batches) == 40
        assert sum(batch["evicted"] for batch in batches) == 40
        assert {batch["slots_held"] for batch in batches} == {50}
        events = strictly(data(run, Form.CHROME))["traceEvents"]
        assert sum(e["args"]["written"] for e in events if e.get("cat") == "batch") == 40
        sent = send(run, collector.address)
    spans = sent_spans(collector)
    assert len(spans) == sent > 13
    root = next(s for s in spans if not s.parent_span_id)
    of_engine = [s for s in spans if s.name == "batch tiny"]
    assert {s.parent_span_id for s in of_engine} == {root.span_id}
    counts = [{a.key: a.value.int_value for a in s.attributes} for s in of_engine]
    assert sum(count["agentrt.batch.steps"] for count in counts) == 40


def nested(events: list[dict[str, float]]) -> None:
    """On one lane, what begins inside another ends inside it."""
    lanes: dict[float, list[tuple[float, float]]] = {}
    for event in events:
        lanes.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for times in lanes.values():
        for at, (begin, end) in enumerate(times):
            for other_begin, other_end in times[at + 1 :]:
                assert other_begin >= end or (other_begin >= begin and other_end <= end + 0.01)


@pytest.mark.parametrize("seed", range(20))
def test_lanes_nest_whatever_runs_at_once(seed: int) -> None:
    choose = random.Random(seed)
    made: list[tuple[SpanRow, int]] = []
    begin = 0
    for i in range(1, 60):
        begin += choose.randrange(3)
        running = [row.id for row, end in made if end > begin]
        parent = choose.choice([None, *running])
        end = begin + choose.randrange(1, 30)
        status = SpanStatus.OK
        made.append((SpanRow(i, parent, SpanKind.STEP, "s", begin, end, status, 0), end))
    lanes = Lanes()
    nested(
        [
            {"tid": lanes.place(row, end), "ts": row.started_ns, "dur": end - row.started_ns}
            for row, end in made
        ]
    )


@pytest.mark.parametrize("picture", ["tree", "waterfall"])
def test_pictures(run: RecordedRun, picture: str) -> None:
    root = ET.fromstring(data(run, Form.SVG, picture=picture))
    texts = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert any("triage.py" in text for text in texts)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for element in root.iter():
        for axis, limit in (("x", width), ("y", height)):
            assert 0 <= float(element.get(axis, 0)) <= limit
    if picture == "tree":
        assert len(list(root.iter(f"{SVG}circle"))) == 13
        assert any("ValueError" in text for text in texts)
    else:
        titles = [element.text or "" for element in root.iter(f"{SVG}title")]
        assert sum(title.startswith("decode") for title in titles) == 5


def test_a_picture_of_very_much_says_what_it_leaves_out(tmp_path: Path) -> None:
    with record_many(tmp_path, 1_000, fan=100) as run:
        root = ET.fromstring(data(run, Form.SVG))
        circles = len(list(root.iter(f"{SVG}circle")))
        last = list(root.iter(f"{SVG}text"))[-1].text
    assert circles <= 300
    assert last == f"and {run_spans(tmp_path) - circles:,} more spans"


def run_spans(folder: Path) -> int:
    with open_run("latest", folder) as run:
        return run.info().spans


def test_png(run: RecordedRun) -> None:
    image = Image.open(io.BytesIO(data(run, Form.PNG)))
    assert image.format == "PNG"
    assert image.width > 1_000
    colours = image.convert("RGB").getcolors(1 << 24)
    assert colours is not None
    assert len(colours) > 10


class Collector(HTTPServer):
    """Takes OTLP as a collector does, and keeps it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.taken: list[bytes] = []
        self.status = 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"


class Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        self.server.taken.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *values: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def sent_spans(collector: Collector) -> list:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return [
        span
        for body in collector.taken
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_otlp(run: RecordedRun, collector: Collector) -> None:
    assert send(run, collector.address) == 13
    spans = sent_spans(collector)
    assert len({span.span_id for span in spans}) == 13
    assert len({span.trace_id for span in spans}) == 1
    known = {span.span_id for span in spans}
    assert sum(span.parent_span_id not in known for span in spans) == 1
    first = next(span for span in spans if span.name.startswith("text_completion"))
    attributes = {each.key: each.value for each in first.attributes}
    assert attributes[names.USAGE_INPUT_TOKENS].int_value == len(PROMPT.encode())
    assert names.PROMPT_TEXT not in attributes
    failed = next(span for span in spans if span.name == "check")
    assert failed.status.code == 2
    assert failed.status.message == "error"
    (event,) = failed.events
    assert [each.key for each in event.attributes] == ["n"]
    for secret in (b"Paris", b"no such", b"</script>"):
        assert secret not in b"".join(collector.taken)


def test_otlp_with_content_is_asked_for(run: RecordedRun, collector: Collector) -> None:
    send(run, collector.address, content=True)
    spans = sent_spans(collector)
    first = next(span for span in spans if span.name.startswith("text_completion"))
    attributes = {each.key: each.value.string_value for each in first.attributes}
    assert attributes[names.OUTPUT_TEXT] == '{"city": "Paris"}'
    failed = next(span for span in spans if span.name == "check")
    assert failed.status.message.startswith("no such")


def test_a_collector_that_refuses(
    run: RecordedRun, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    collector.status = 400
    with pytest.raises(InvalidRequest, match=r"took 0 spans.*400"):
        send(run, collector.address)
    assert not caplog.records  # what is to be known is in the error


def test_where_no_collector_is_it_is_said_at_once(run: RecordedRun) -> None:
    with socket.socket() as bound:  # and not listened on
        bound.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{bound.getsockname()[1]}/v1/traces"
        refused = os.strerror(errno.ECONNREFUSED)
        with pytest.raises(InvalidRequest, match=f"it cannot be reached: {refused}"):
            send(run, address)


def test_otlp_is_no_file(run: RecordedRun) -> None:
    with pytest.raises(InvalidRequest, match="collector"):
        exported(run, Form.OTLP)


def test_a_run_without_generations(tmp_path: Path) -> None:
    with recording(TraceConfig(folder=tmp_path)) as active:
        assert active is not None
        with span(SpanKind.PROGRAM, "nothing"):
            pass
    with open_run(active.path) as run:
        for form in Form:
            if form is not Form.OTLP:
                assert data(run, form)
