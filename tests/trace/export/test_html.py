"""The page of a run: as a file, and as a browser shows it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

from agentrt.trace import SpanKind, TraceConfig, open_run, recording
from agentrt.trace import attributes as names
from agentrt.trace.export.html import embedded, html
from agentrt.trace.reading import RecordedRun
from agentrt.trace.spans import span
from tests.trace.viewer.recorded import generate, record, record_many, token_bytes

BROWSER = next(
    filter(None, map(shutil.which, ["chromium-headless-shell", "chromium", "google-chrome"])), None
)
in_a_browser = pytest.mark.skipif(BROWSER is None, reason="there is no browser")
EVIL = '</script><script>document.title="taken"</script><!-- <b>&amp; \u2028'


class Elements(HTMLParser):
    """Elements by tag, with their attributes and what is written in them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1][2].append(data)

    def text(self, tag: str, **wanted: str) -> list[str]:
        return [
            "".join(text)
            for name, attributes, text in self.found
            if name == tag and all(attributes.get(k.strip("_")) == v for k, v in wanted.items())
        ]


def shown(tmp_path: Path, run: RecordedRun, place: str = "") -> str:
    """The page as a browser has it once its script ran."""
    path = tmp_path / "page.html"
    path.write_text(html(run), encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,700",
            "--dump-dom",
            f"{path.as_uri()}#{place}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def classes(page: str, name: str) -> int:
    return len(re.findall(rf'class="(?:[^"]* )?{name}(?: [^"]*)?"', page))


def test_nothing_is_fetched(tmp_path: Path) -> None:
    with record(tmp_path) as run:
        page = html(run)
    elements = Elements(page)
    for tag, attributes, _ in elements.found:
        assert not {"src", "href", "srcset", "action"} & attributes.keys(), tag
    assert "url(" not in page
    assert "@import" not in page
    assert "http" not in "".join(elements.text("script", type="application/json"))
    (policy,) = [a["content"] for _, a, _ in elements.found if "http-equiv" in a]
    assert policy is not None
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("text", [EVIL, "<!--<script>", "\ud800", "\u2029", "<", ""])
def test_data_cannot_end_its_element(text: str) -> None:
    written = embedded({"text": text})
    assert "<" not in written
    assert ">" not in written
    assert json.loads(written) == {"text": text}


def test_the_data_is_whole(tmp_path: Path) -> None:
    with record(tmp_path) as run:
        (text,) = Elements(html(run)).text("script", type="application/json")
    data = json.loads(text)
    assert len(data["spans"]) == 13
    assert len(data["generations"]) == 5
    assert data["usage"][0]["program"] == "solve"


@in_a_browser
def test_the_tree_and_a_generation(tmp_path: Path) -> None:
    with record(tmp_path) as run:
        page = shown(tmp_path, run, "tree/" + str(run.spans(kinds=[SpanKind.GENERATION])[0].id))
    assert classes(page, "row") == 13
    assert classes(page, "picked") == 1
    for origin, count in (("cached", 10), ("computed", 28), ("forced", 9), ("sampled", 8)):
        assert classes(page, origin) == count + 1  # and once in the legend
        assert f"{origin} {count}" in page
    assert "首" in page
    assert "ValueError: no such" in page


@in_a_browser
def test_the_other_views(tmp_path: Path) -> None:
    with record(tmp_path) as run:
        waterfall = shown(tmp_path, run, "waterfall")
        usage = Elements(shown(tmp_path, run, "usage"))
        radix = Elements(shown(tmp_path, run, "radix"))
    for phase in ("queue", "prefill", "decode"):
        assert classes(waterfall, phase) == 5
    assert 'id="engine" aria-label="Engine" hidden' in waterfall  # no step is recorded
    assert usage.text("td")[:6] == ["solve", "1", "0", "5", "161", "50"]
    assert radix.text("li")[0].startswith("user: Where is the")
    assert len(radix.text("li")) == 3


@in_a_browser
def test_what_the_engine_did_is_above_the_waterfall(tmp_path: Path) -> None:
    with record(tmp_path, steps=200) as run:
        waterfall = shown(tmp_path, run, "waterfall")
        tree = shown(tmp_path, run, "tree")
    names = ("pool held", "pool cached", "tokens/s", "hit rate", "evicted")
    assert [f"engine: {name}" in waterfall for name in names] == [True] * 5
    assert classes(waterfall, "lane") == 5
    assert "height: 50%" in waterfall  # half of the pool is held
    assert 'id="engine" aria-label="Engine">' in waterfall
    assert 'id="engine" aria-label="Engine" hidden' in tree


@in_a_browser
def test_searching(tmp_path: Path) -> None:
    with record(tmp_path) as run:
        page = shown(tmp_path, run, "tree//" + quote("a way:"))
        picked = run.spans(kinds=[SpanKind.GENERATION])[1].id
    assert "1 of 3" in page
    assert re.search(rf'class="row tree picked"[^>]*data-span="{picked}"', page)


@in_a_browser
def test_a_text_cannot_take_over_the_page(tmp_path: Path) -> None:
    with recording(TraceConfig(folder=tmp_path), name=EVIL) as active:
        assert active is not None
        runtime = active.recorder.add_runtime(EVIL, token_bytes, {})
        with span(SpanKind.TOOL, EVIL, {names.TOOL_CALL_ARGUMENTS: EVIL}):
            generate(runtime.id, EVIL, prompt=EVIL)
    with open_run(active.path) as run:
        page = shown(tmp_path, run, "tree")
    assert "<title>taken" not in page
    assert page.count("<script") == 2
    assert classes(page, "row") == 3


@in_a_browser
@pytest.mark.slow
def test_ten_thousand_spans(tmp_path: Path) -> None:
    with record_many(tmp_path, 10_000) as run:
        last = run.spans(name="step 8.999")[0].id
        page = shown(tmp_path, run, f"tree/{last}")
    assert re.search(rf'class="row tree picked"[^>]*data-span="{last}"', page)
    assert classes(page, "row") < 100
    assert len(page) < 8_000_000
