"""`agentrt trace`: the recorded runs on the command line."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentrt.errors import InvalidRequest
from agentrt.trace.config import default_folder
from agentrt.trace.runs import delete_run, list_runs, open_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from rich.console import Console

    from agentrt.trace.reading import RecordedRun

_VIEWS = ("tree", "waterfall", "tokens", "usage", "radix")
RUN = "a run's id, the beginning of it, latest, or the path of its file"
_TO = (
    "jsonl: its spans as lines of JSON; html: a page to look at offline; chrome: for Perfetto; "
    "otlp: to an OpenTelemetry collector; svg, png: a picture"
)
_FORMS = ("jsonl", "html", "chrome", "otlp", "svg", "png")
_SUFFIXES = {"chrome": "json"}
_ENDLESS = 10_000
"""Columns of what is no screen."""


class Subparsers(Protocol):
    """What `argparse.ArgumentParser.add_subparsers` returns."""

    def add_parser(self, name: str, /, **options: Any) -> argparse.ArgumentParser: ...


def add_to(trace: argparse.ArgumentParser) -> Subparsers:
    """Adds what `agentrt trace` takes; what is asked for is called as `arguments.run(arguments)`,
    which returns the exit status and raises InvalidRequest. Returns where more may be added."""
    trace.set_defaults(run=_browse, json=False, search=None, folder=None)
    trace.add_argument("--folder", type=Path, help="where the runs are, if not in the usual place")
    inner = trace.add_subparsers(metavar="COMMAND")

    listed = _command(inner, "list", _list, "the runs there are")
    listed.add_argument("--search", metavar="TEXT", help="only those in which this occurs")
    listed.add_argument("--limit", type=_count, default=50, metavar="N", help="most runs (50)")
    _add_json(listed, "the runs as one JSON document")

    show = _command(inner, "show", _show, "one run; browsed where there is a terminal")
    show.add_argument("id", nargs="?", default="latest", metavar="RUN", help=f"{RUN} (latest)")
    show.add_argument("--view", choices=_VIEWS, help="print this view instead")
    show.add_argument(
        "--span", type=int, action="append", metavar="N", help="print this generation's tokens"
    )
    show.add_argument("--search", metavar="TEXT", help="print where this occurs")
    _add_json(show, "the view, or the places, as one JSON document")

    diff = _command(inner, "diff", _diff, "what a second run did otherwise")
    diff.add_argument("left", metavar="A", help=RUN)
    diff.add_argument("right", metavar="B", help="the run that is compared with it")
    _add_json(diff, "sums and differences as one JSON document")

    export = _command(inner, "export", _export, "a run in another form")
    export.add_argument("id", nargs="?", default="latest", metavar="RUN", help=f"{RUN} (latest)")
    export.add_argument("--to", choices=_FORMS, required=True, help=_TO)
    export.add_argument("-o", "--output", type=Path, help="the file; - is the standard output")
    export.add_argument(
        "--picture",
        choices=("tree", "waterfall"),
        default="tree",
        help="of svg and png: what is drawn (tree)",
    )
    export.add_argument("--endpoint", help="of otlp: the collector's address for traces")
    export.add_argument("--content", action="store_true", help="of otlp: send texts as well")

    delete = _command(inner, "delete", _delete, "delete runs")
    delete.add_argument("ids", nargs="+", metavar="RUN", help=RUN)
    return inner


def opened(name: str, folder: Path | None) -> RecordedRun:
    """A recorded run as it is named on the command line, which also says what names there are.

    Raises InvalidRequest where it is not there.
    """
    try:
        return open_run(name, folder)
    except InvalidRequest as error:
        raise InvalidRequest(f"{error} (`agentrt trace list` shows the runs)") from error


def _command(
    subparsers: Subparsers, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError
    return int(text)


def _add_json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=what)


def _browse(asked: argparse.Namespace) -> int:
    """The list of runs, to walk through where somebody can."""
    if not _is_interactive():
        asked.limit = 50
        return _list(asked)
    from agentrt.trace.viewer.app import ViewerApp

    ViewerApp(asked.folder).run()
    return 0


def _list(asked: argparse.Namespace) -> int:
    from agentrt.trace.export.values import run_value
    from agentrt.trace.viewer.printing import runs_lines, runs_table

    found = (info for info in list_runs(asked.folder) if _has(info.path, asked.search))
    runs = list(islice(found, asked.limit))
    if asked.json:
        return _print_json([run_value(info) for info in runs])
    if runs and not sys.stdout.isatty():
        print(*runs_lines(runs), sep="\n")
        return 0
    if runs:
        console = _console()
        return _print([runs_table(runs, console.width)], console)
    what = f"no run has {asked.search!r} in it" if asked.search else "no run is recorded"
    return _print([f"{what} in {asked.folder or default_folder()}"])


def _show(asked: argparse.Namespace) -> int:
    if asked.span is not None:
        if asked.view not in (None, "tokens"):
            raise InvalidRequest(
                f"--span is of --view tokens, and --view {asked.view} was given; leave one out"
            )
        asked.view = "tokens"
    with opened(asked.id, asked.folder) as run:
        if asked.search is not None:
            return _print_hits(run, asked)
        if asked.json or asked.view is not None:
            return _print_view(run, asked)
        if not _is_interactive():
            asked.view = "tree"
            return _print_view(run, asked)
        from agentrt.trace.viewer.app import ViewerApp

        ViewerApp(asked.folder, run).run()
    return 0


def _print_hits(run: RecordedRun, asked: argparse.Namespace) -> int:
    from agentrt.trace.export.values import hit_value
    from agentrt.trace.viewer.printing import hits_page

    hits = list(run.search(asked.search))
    if asked.json:
        _print_json([hit_value(hit) for hit in hits])
    elif hits:
        _print(hits_page(run, hits))
    else:
        print(f"{asked.search!r} is not in {run.path.stem}", file=sys.stderr)
    return 0 if hits else 1


def _print_view(run: RecordedRun, asked: argparse.Namespace) -> int:
    if asked.json:
        return _print_json(_view_value(run, asked.view or "tree", asked.span))
    from agentrt.trace.viewer import printing

    console = _console()
    pages: dict[str, Callable[[], Iterable[Any]]] = {
        "tree": lambda: [printing.headline(run.info()), *printing.tree_page(run, console)],
        "waterfall": lambda: printing.waterfall_page(run, console),
        "tokens": lambda: printing.tokens_page(run, asked.span or printing.generations_of(run)),
        "usage": lambda: [printing.usage_table(run.usage_by_program())],
        "radix": lambda: printing.radix_page(run, console),
    }
    return _print(pages[asked.view](), console)


def _view_value(run: RecordedRun, view: str, span_ids: list[int] | None) -> Any:
    """A view as JSON."""
    from agentrt.trace.export import values
    from agentrt.trace.viewer.printing import generations_of
    from agentrt.trace.viewer.token_text import pieces

    if view == "usage":
        return [values.usage_value(row) for row in run.usage_by_program()]
    if view == "radix":
        return values.radix_value(run)
    if view == "tokens":
        return {
            span_id: [
                {
                    "id": piece.token.id,
                    "text": piece.text,
                    "origin": piece.origin.value,
                    "in_prompt": piece.in_prompt,
                    "logprob": piece.token.logprob,
                    "top": piece.token.top,
                }
                for piece in pieces(run, span_id)
            ]
            for span_id in span_ids or generations_of(run)
        }
    spans = [values.span_value(run, span, large=False) for span in values.spans_of(run)]
    return {"run": values.run_value(run.info()), "spans": spans}


def _diff(asked: argparse.Namespace) -> int:
    """Exits with 1 where the runs are not the same, as diff does."""
    from agentrt.trace.viewer.diff import differences, figures
    from agentrt.trace.viewer.printing import diff_page, first_differences

    with opened(asked.left, asked.folder) as left, opened(asked.right, asked.folder) as right:
        if not asked.json:
            shown = first_differences(left, right)
            _print(diff_page(left, right, shown))
            return int(bool(shown))
        found = list(differences(left, right))
        _print_json(
            {
                "figures": {f.name: [f.left, f.right] for f in figures(left, right)},
                "differences": [
                    {
                        "path": difference.path,
                        "left": difference.left,
                        "right": difference.right,
                        "changes": dict(difference.changes),
                    }
                    for difference in found
                ],
            }
        )
        return int(bool(found))


def _export(asked: argparse.Namespace) -> int:
    from agentrt.trace.export import Form, exported, send
    from agentrt.trace.viewer.words import sized

    with opened(asked.id, asked.folder) as run:
        if asked.to == Form.OTLP:
            count = send(run, asked.endpoint, content=asked.content)
            print(f"{count} spans sent", file=sys.stderr)
            return 0
        data = exported(run, Form(asked.to), picture=asked.picture)
        if asked.output == Path("-"):
            sys.stdout.buffer.writelines(data)
            return 0
        suffix = _SUFFIXES.get(asked.to, asked.to)
        path: Path = asked.output or Path(f"{run.path.stem}.{suffix}")
        try:
            with path.open("wb") as file:
                file.writelines(data)
        except OSError as error:
            raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from error
        print(f"wrote {path.absolute()} ({sized(path.stat().st_size)})", file=sys.stderr)
    return 0


def _delete(asked: argparse.Namespace) -> int:
    for name in asked.ids:
        with opened(name, asked.folder) as run:
            path = run.path
        delete_run(path)
        print(f"deleted {path}", file=sys.stderr)
    return 0


def _has(path: Path, text: str | None) -> bool:
    """Whether a run is called so, or has this in it."""
    if text is None or text.lower() in path.stem.lower():
        return True
    with open_run(path) as run:
        in_name = text.lower() in run.info().name.lower()
        return in_name or next(iter(run.search(text, limit=1)), None) is not None


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def _print(lines: Iterable[Any], console: Console | None = None) -> int:
    """Prints what is there to be read; in a pipe nothing of it is cut or wrapped."""
    console = console or _console()
    whole: dict[str, Any] = {} if console.is_terminal else {"soft_wrap": True, "width": _ENDLESS}
    for line in lines:
        console.print(line, markup=False, **whole)
    return 0


def _print_json(value: Any) -> int:
    from agentrt.trace.export.values import json_text

    print(json_text(value, indent=2))
    return 0
