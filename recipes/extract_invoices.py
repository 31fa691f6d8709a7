"""Invoices out of messy HTML, as checked objects.

    python recipes/extract_invoices.py [--model MODEL] [--live] [--folder FOLDER]

Every answer is a valid `Invoice`, and every value stands on its page: `verbatim=True` lets the
decoder write nothing else. What is left to the model is which value is which, and a type that says
what a value looks like leaves it less: the total is an amount with its currency before it. Shown
two examples, the provided model of 135 million parameters gets all the fields of these three pages;
asked for a bare number, it takes the tax for the total on one of them. So the totals are checked,
too: one that is not the largest amount on its page is marked.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Annotated

from common import DATA, arguments, console, folder, opened, pages_of, run, text_of
from pydantic import BaseModel, Field
from rich.table import Column, Table

from agentrt import Verbatim, extract, gather

if TYPE_CHECKING:
    from collections.abc import Sequence


class Invoice(BaseModel):
    seller: str = Field(description="the company that wrote the invoice", max_length=40)
    number: Annotated[str, Verbatim] = Field(
        description="the invoice number", pattern=r"^([A-Z]{1,5}-[0-9-]+|[0-9]{4,8})$"
    )
    issued: date = Field(description="the date of the invoice")
    total: Annotated[str, Verbatim] = Field(
        description="currency and total due", pattern=r"^(EUR|USD|GBP) [0-9,]+\.[0-9]{2}$"
    )


EXAMPLES = [
    (
        "Kestrel Cleaning, 3 Dock Lane, 20095 Hull\nINVOICE No. KC-2022-417\n"
        "Date: 2022-06-08 Customer: Old Mill Hotel\nWindows 110.00\nCarpets 62.50\n"
        "Subtotal 172.50\nVAT 20 % 34.50\nAmount due: GBP 207.00",
        Invoice(
            seller="Kestrel Cleaning",
            number="KC-2022-417",
            issued=date(2022, 6, 8),
            total="GBP 207.00",
        ),
    ),
    (
        "Northwind Paper Inc.\n12 Mill Road\nBill no. NW-88, issued 2023-11-30\n"
        "paper A4: USD 30.00\nenvelopes: USD 15.00\nTotal: USD 45.00",
        Invoice(
            seller="Northwind Paper Inc.",
            number="NW-88",
            issued=date(2023, 11, 30),
            total="USD 45.00",
        ),
    ),
]


def is_largest(total: str, page: str) -> bool:
    """Nothing that a page gives to the cent is more than the total."""
    amounts = re.findall(r"[\d,]*\d\.\d{2}\b", f"{page} {total}")
    return cents(total.split()[1]) == max(map(cents, amounts))


def cents(amount: str) -> int:
    return int(re.sub(r"[.,]", "", amount))


async def main() -> None:
    args = arguments(__doc__, folder=(folder, DATA / "invoices", "where the pages are"))
    pages = pages_of(args.folder)
    texts = [text_of(page) for page in pages]
    async with opened(args):
        found = await gather(
            *(extract(Invoice, text, examples=EXAMPLES, verbatim=True) for text in texts)
        )
    show({page.name: text for page, text in zip(pages, texts, strict=True)}, found)


def show(pages: dict[str, str], found: Sequence[Invoice]) -> None:
    """The rows, those in doubt marked, and what was checked of them."""
    table = Table("page", "seller", "number", "issued", Column("total", justify="right"))
    doubts = 0
    for (name, text), each in zip(pages.items(), found, strict=True):
        doubt = "" if is_largest(each.total, text) else " ?"
        doubts += bool(doubt)
        table.add_row(name, each.seller, each.number, each.issued.isoformat(), each.total + doubt)
    console.print(table)
    console.print(
        "Checked: each value stands on its page, and each total is the largest amount there"
        + (f", but for {doubts} marked with ?" if doubts else "")
        + ". Not checked: that seller, number and date are the right ones."
    )


if __name__ == "__main__":
    run(main)
