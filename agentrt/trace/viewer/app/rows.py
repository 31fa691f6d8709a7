"""A list of very many lines of which only those on the screen are ever made."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events


class Rows(ScrollView, can_focus=True):
    """Lines by number: `count()` says how many there are, `line(number, width)` makes one."""

    DEFAULT_CSS = "Rows { height: 1fr; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "up", show=False),
        Binding("down,j", "step(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown,space", "page(1)", "page down", show=False),
        Binding("home,g", "go(0)", "first", show=False),
        Binding("end,G", "go(-1)", "last", show=False),
        Binding("enter", "choose", "open"),
    ]
    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor is on another line."""

        def __init__(self, rows: Rows, index: int) -> None:
            super().__init__()
            self.rows = rows
            self.index = index

        @property
        def control(self) -> Rows:
            return self.rows

    class Chosen(Moved):
        """A line was asked to open."""

    def __init__(
        self,
        count: Callable[[], int],
        line: Callable[[int, int], Text],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._count = count
        self._line = line

    def on_mount(self) -> None:
        self.reload()

    def on_resize(self) -> None:
        self.reload()

    def reload(self) -> None:
        """Looks again at how many lines there are, and draws them anew."""
        self.virtual_size = Size(self.scrollable_content_region.width, self._count())
        self.cursor = max(0, min(self.cursor, self._count() - 1))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        index = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        if index >= self._count():
            return Strip.blank(width)
        text = self._line(index, width)
        text.truncate(width, pad=True)
        if index == self.cursor and self.has_focus:
            text = Text(text.plain, "reverse")  # colours on a reversed line would not be readable
        elif index == self.cursor:
            text.stylize("underline")
        console = self.app.console
        return Strip(text.render(console)).crop(0, width)

    def validate_cursor(self, cursor: int) -> int:
        return max(0, min(cursor, self._count() - 1))

    def watch_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved(self, self.cursor))

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        at = event.y + self.scroll_offset.y
        if at < self._count():
            again = at == self.cursor
            self.cursor = at
            if again:
                self.action_choose()

    def action_step(self, by: int) -> None:
        self.cursor += by

    def action_page(self, by: int) -> None:
        self.cursor += by * max(1, self.scrollable_content_region.height - 1)

    def action_go(self, index: int) -> None:
        self.cursor = index if index >= 0 else self._count() - 1

    def action_choose(self) -> None:
        if self._count():
            self.post_message(self.Chosen(self, self.cursor))


class SpanRows(Rows):
    """Rows that can be folded: right opens, left closes or goes to what a row is inside of."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "fold(True)", "unfold", show=False),
        Binding("left,h", "fold(False)", "fold", show=False),
    ]

    class Folding(Message):
        """The row under the cursor is to be opened or closed."""

        def __init__(self, index: int, *, is_opening: bool) -> None:
            super().__init__()
            self.index = index
            self.is_opening = is_opening

    def action_fold(self, is_opening: bool) -> None:
        self.post_message(self.Folding(self.cursor, is_opening=is_opening))
