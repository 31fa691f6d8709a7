"""Web pages into rows: follows the links from an index, reads every item under one schema, CSV out.

    python recipes/scrape.py [--model MODEL] [--live] [--start FOLDER/index.html] [--out rows.csv]

As a desktop scraper does it, on pages of this folder. A page with links to further pages here is a
list, any other an item. The values are copied from their pages, whatever the model: a name is a
span of the page, a price a number on it. That it is the item's own is up to the model; `at_top`
says whether name and price stand in the page's first two lines, where this shop puts them.
"""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from common import DATA, arguments, console, file, opened, run, text_of
from map_folder import EXAMPLES, Product

from agentrt import extract, gather


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def links(page: Path) -> list[Path]:
    """The pages beside or below this one that it links to."""
    reader = _Links()
    reader.feed(page.read_text(encoding="utf-8"))
    parts = [urlsplit(link) for link in reader.found]
    local = [unquote(p.path) for p in parts if not p.scheme and not p.netloc and p.path]
    found = [(page.parent / path).resolve() for path in local if not path.startswith("/")]
    return [each for each in found if each.is_relative_to(page.parent) and each.is_file()]


def crawled(start: Path) -> list[Path]:
    """The items that can be reached from a page, each once, in the order they are linked."""
    pages, items = [start.resolve()], list[Path]()
    for page in pages:  # it grows while it is walked
        further = links(page)
        if not further:
            items.append(page)
        pages += [each for each in dict.fromkeys(further) if each not in pages]
    return items


def is_at_top(page: str, product: Product) -> bool:
    top = page.splitlines()[:2]
    return product.name in top[0] and f"{product.price:.2f}" in top[-1]


async def main() -> None:
    args = arguments(
        __doc__,
        start=(file, DATA / "shop" / "index.html", "the page to begin at"),
        out=(Path, None, "the CSV file to write, if not to the terminal"),
    )
    items = crawled(args.start)
    texts = [text_of(item) for item in items]
    async with opened(args):
        products = await gather(
            *(extract(Product, t, examples=EXAMPLES, verbatim=True) for t in texts), limit=8
        )
        rows = [
            {"page": item.name, **product.model_dump(), "at_top": is_at_top(text, product)}
            for item, text, product in zip(items, texts, products, strict=True)
        ]
        write(rows, args.out)
        sure = sum(bool(row["at_top"]) for row in rows)
        console.print(f"{len(rows)} rows, {sure} with name and price from the top of their page")


def write(rows: list[dict[str, object]], out: Path | None) -> None:
    """The rows as CSV, to a file or to the terminal."""
    with out.open("w", encoding="utf-8", newline="") if out else nullcontext(sys.stdout) as f:
        writer = csv.DictWriter(f, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    run(main)
