"""A folder of product pages into rows, with a progress bar; it can be killed and goes on later.

    python recipes/map_folder.py [--model MODEL] [--live] [--folder FOLDER] [--resume rows.db]

The pages are read four at a time. With --resume, finished pages are not read again. Names and
prices are copied from the page, and of "In stock" and "Sold out" only what it says can be answered;
the provided model gets all 18 fields of the six pages here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from common import DATA, arguments, console, folder, opened, pages_of, run, text_of, words
from pydantic import BaseModel, Field
from rich.table import Table

import agentrt
from agentrt import State, Verbatim, program, verbatim
from agentrt.programs.extract import ask_for


class Product(BaseModel):
    name: str = Field(description="what is sold", max_length=40)
    price: float = Field(description="its price in euros", ge=0)
    available: Annotated[Literal["In stock", "Sold out"], Verbatim]


EXAMPLES = [
    (
        "Copper pan\nEUR 64.00\nfor gas and wood\nSold out\n"
        "You may also like: Tea towel (EUR 6.00)",
        Product(name="Copper pan", price=64, available="Sold out"),
    ),
    (
        "Cotton rug\nEUR 31.20\n60 x 90 cm, blue\nIn stock\n"
        "You may also like: Coat hook (EUR 9.00)",
        Product(name="Cotton rug", price=31.2, available="In stock"),
    ),
]


@program(max_tokens=60)
async def read_page(s: State, path: str) -> Product:
    ask_for(s, Product, examples=EXAMPLES)
    page = text_of(Path(path))
    s.user(page)
    return await s.gen(verbatim(Product, page))


async def main() -> None:
    args = arguments(
        __doc__,
        folder=(folder, DATA / "shop", "where the pages are"),
        resume=(words, None, "a file that keeps what is finished, and is made if need be"),
    )
    pages = [str(page) for page in pages_of(args.folder)]
    pages = [page for page in pages if not Path(page).name.startswith("index")]  # lists of links
    async with opened(args):
        products = await agentrt.map(read_page, pages, limit=4, progress=True, resume=args.resume)
    table = Table("page", "name", "price", "available")
    for page, product in zip(pages, products, strict=True):
        table.add_row(Path(page).name, product.name, f"{product.price:.2f}", product.available)
    console.print(table)


if __name__ == "__main__":
    run(main)
