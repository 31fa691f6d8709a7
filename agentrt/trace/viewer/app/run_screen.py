"""One run: its tree, its waterfall, its usage and its cache, with the span under the cursor."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Input, Static, TabbedContent, TabPane

from agentrt.trace.records import RunState
from agentrt.trace.viewer.app.detail import Detail
from agentrt.trace.viewer.app.rows import Rows, SpanRows
from agentrt.trace.viewer.engine_text import engine_lines
from agentrt.trace.viewer.printing import headline, hit_line, usage_table
from agentrt.trace.viewer.radix_text import RadixRow, radix_line, radix_rows
from agentrt.trace.viewer.span_text import extent_of, tree_line, waterfall_line
from agentrt.trace.viewer.span_tree import SpanTree
from agentrt.trace.viewer.words import UNICODE

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from agentrt.trace.reading import RecordedRun
    from agentrt.trace.records import Hit

_MOST_HITS = 1_000
_OPENED = 60
"""Rows that are unfolded to begin with."""
_VIEWS = ("tree", "waterfall", "usage", "radix")


class RunScreen(Screen[None]):
    """A recorded run, in views that share one cursor; of a run that goes on it shows what comes."""

    CSS = """
    #head { height: 1; padding: 0 1; }
    #views { width: 3fr; height: 1fr; }
    #detail { width: 2fr; border-left: vkey $panel; padding: 0 1; display: none; }
    RunScreen.wide #detail { display: block; }
    RunScreen.whole #detail { display: none; }
    RunScreen.reading #detail { display: block; width: 1fr; border-left: none; }
    RunScreen.reading #views { display: none; }
    #choices { background: $panel; padding: 0 1; display: none; dock: top; max-height: 50%; }
    #find { display: none; height: 3; }
    TabPane { padding: 0; }
    #usage-rows, #engine { padding: 0 1; }
    #engine { height: auto; max-height: 9; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "view(1)", "next view", priority=True),
        Binding("shift+tab", "view(-1)", "previous view", show=False, priority=True),
        Binding("slash", "search", "search"),
        Binding("n", "hit(1)", "next hit"),
        Binding("N", "hit(-1)", "previous hit", show=False),
        Binding("e", "unfold", "unfold all"),
        Binding("escape,q", "back", "back"),
    ]

    def __init__(self, run: RecordedRun) -> None:
        super().__init__()
        self.run = run
        self.tree_of_spans = SpanTree(run)
        self.tree_of_spans.open_around(_OPENED)
        self._extent = extent_of(run) if len(self.tree_of_spans) else (0, 1)
        self._radix: list[RadixRow] | None = None
        self._hits: list[Hit] = []
        self._hit = -1
        self._is_live = run.info().state is RunState.RUNNING

    def compose(self) -> ComposeResult:
        yield Static(headline(self.run.info()), id="head")
        with Horizontal():
            with TabbedContent(id="views"):
                with TabPane("Tree", id="tree"):
                    yield SpanRows(self._rows, self._tree_line, id="tree-rows")
                with TabPane("Waterfall", id="waterfall"):
                    yield Static(id="engine")
                    yield SpanRows(self._rows, self._waterfall_line, id="waterfall-rows")
                with TabPane("Usage", id="usage"), VerticalScroll(id="usage-rows"):
                    yield Static(id="usage-table")
                with TabPane("Radix", id="radix"):
                    yield Rows(lambda: len(self._radix or ()), self._radix_line, id="radix-rows")
            yield Detail(self.run, id="detail")
        yield Input(placeholder="search names, prompts, outputs, attributes", id="find")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#tree-rows").focus()
        if self._is_live:
            self.set_interval(0.5, self._follow)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= 110, "wide")
        self.call_after_refresh(self._draw_engine)

    # What the rows show

    def _rows(self) -> int:
        return len(self.tree_of_spans)

    def _tree_line(self, index: int, width: int) -> Text:
        return tree_line(self.run, self.tree_of_spans.row(index), width, UNICODE)

    def _waterfall_line(self, index: int, width: int) -> Text:
        row = self.tree_of_spans.row(index)
        return waterfall_line(self.run, row, width, UNICODE, self._extent)

    def _radix_line(self, index: int, width: int) -> Text:
        assert self._radix is not None
        return radix_line(self._radix[index], width, UNICODE)

    def _follow(self) -> None:
        """Takes in what a run that still goes on has written since."""
        if not self.run.has_changed():
            return
        rows = self.query_one("#tree-rows", SpanRows)
        was_last = rows.cursor == self._rows() - 1
        self.tree_of_spans.refresh()
        self._extent = extent_of(self.run)
        self.query_one("#head", Static).update(headline(self.run.info()))
        for each in self.query(SpanRows):
            each.reload()
        if was_last:
            rows.action_go(-1)
        self._draw_engine()

    def _draw_engine(self) -> None:
        """What the engine did, above the waterfall and on its time."""
        if self.query_one(TabbedContent).active == "waterfall":
            width = self.query_one("#waterfall-rows").scrollable_content_region.width
            lines = engine_lines(self.run, width, UNICODE, self._extent)
            self.query_one("#engine", Static).update(Text("\n").join(lines))

    # What is done with them

    @on(Rows.Moved)
    def _show(self, event: Rows.Moved) -> None:
        if isinstance(event.rows, SpanRows) and event.rows.has_focus and self._rows():
            for other in self.query(SpanRows):
                other.set_reactive(Rows.cursor, event.index)
            self.query_one(Detail).show(self.tree_of_spans.row(event.index).span)

    @on(SpanRows.Folding)
    def _fold(self, event: SpanRows.Folding) -> None:
        row = self.tree_of_spans.row(event.index)
        if row.is_open != event.is_opening and row.span.children:
            self.tree_of_spans.toggle(event.index)
            self._reload()
        elif not event.is_opening:
            parent = self.tree_of_spans.parent_index(event.index)
            if parent is not None:
                self._focused_rows().cursor = parent

    @on(Rows.Chosen, "#tree-rows,#waterfall-rows")
    def _read(self, event: Rows.Chosen) -> None:
        detail = self.query_one(Detail)
        detail.show(self.tree_of_spans.row(event.index).span)
        self.add_class("reading")
        detail.focus()

    @on(TabbedContent.TabActivated)
    def _clicked(self, event: TabbedContent.TabActivated) -> None:
        self._read_whole(event.pane.id or "")
        self.set_class(event.pane.id in {"usage", "radix"}, "whole")

    def action_view(self, by: int) -> None:
        views = self.query_one(TabbedContent)
        self.remove_class("reading")
        views.active = _VIEWS[(_VIEWS.index(views.active) + by) % len(_VIEWS)]
        self._read_whole(views.active)
        self.query_one(f"#{views.active}-rows").focus()

    def _read_whole(self, view: str) -> None:
        """Reads what a view is made of when it is first looked at: it takes the whole record."""
        if view == "usage":
            table = usage_table(self.run.usage_by_program())
            self.query_one("#usage-table", Static).update(table)
        elif view == "waterfall":
            self.call_after_refresh(self._draw_engine)  # when it is known how wide it is
        elif view == "radix" and self._radix is None:
            self._radix = radix_rows(self.run)
            self.query_one("#radix-rows", Rows).reload()

    def action_unfold(self) -> None:
        self.tree_of_spans.open_all()
        self._reload()

    def action_back(self) -> None:
        """Out of the search, out of a span, out of the run."""
        find = self.query_one("#find", Input)
        if find.display and find.has_focus:
            find.display = False
        elif self.has_class("reading"):
            self.remove_class("reading")
        else:
            self.app.pop_screen()
            return
        self._focused_rows().focus()

    def action_search(self) -> None:
        find = self.query_one("#find", Input)
        find.display = True
        find.focus()

    @on(Input.Submitted, "#find")
    def _search(self, event: Input.Submitted) -> None:
        self._hits = list(islice(self.run.search(event.value, limit=_MOST_HITS), _MOST_HITS))
        self._hit = -1
        self.query_one("#find", Input).display = False
        self._focused_rows().focus()
        if self._hits:
            self.action_hit(1)
        else:
            self.notify(f"{event.value!r} occurs nowhere", severity="warning")

    def action_hit(self, by: int) -> None:
        """Goes to the next place where the searched text is."""
        if not self._hits:
            return
        self._hit = (self._hit + by) % len(self._hits)
        hit = self._hits[self._hit]
        if self.has_class("whole"):
            self.query_one(TabbedContent).active = "tree"
            self.remove_class("whole")
        rows = self._focused_rows()
        rows.focus()
        index = self.tree_of_spans.index_of(hit.span_id)
        self._reload()
        rows.cursor = index
        where = Text(f"{self._hit + 1}/{len(self._hits)} ", "bold")
        where.append_text(hit_line(hit, self.run.span(hit.span_id).name))
        self.query_one("#head", Static).update(where)

    def _reload(self) -> None:
        for rows in self.query(SpanRows):
            rows.reload()

    def _focused_rows(self) -> SpanRows:
        active = self.query_one(TabbedContent).active
        name = active if active in {"tree", "waterfall"} else "tree"
        return self.query_one(f"#{name}-rows", SpanRows)
