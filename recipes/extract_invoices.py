"""Invoices out of messy HTML, as checked objects.

    python recipes/extract_invoices.py [--model MODEL] [--live] [--folder FOLDER]

Every answer is a valid `Invoice`, and every value stands on its page: `verbatim=True` lets the
decoder write nothing else, and the currency is one of those that the page names. What is left to
the model is which value is which. Shown two examples, the provided one of 135 million parameters
gets 14 of the 15 fields here; on one page it takes the tax for the total.
"""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from common import DATA, arguments, console, opened, text_of
from pydantic import BaseModel, Field
from rich.table import Column, Table

from agentrt import Verbatim, extract, gather


class Invoice(BaseModel):
    seller: str = Field(description="the company that wrote the invoice", max_length=40)
    number: Annotated[str, Verbatim] = Field(
        description="the invoice number", pattern=r"^([A-Z]{1,5}-[0-9-]+|[0-9]{4,8})$"
    )
    issued: date = Field(description="the date of the invoice")
    currency: Annotated[Literal["EUR", "USD", "GBP"], Verbatim]
    total: float = Field(description="the total due, the last amount", ge=0)


EXAMPLES = [
    (
        "Kestrel Cleaning, 3 Dock Lane, 20095 Hull\nINVOICE No. KC-2022-417\n"
        "Date: 2022-06-08 Customer: Old Mill Hotel\nWindows 110.00\nCarpets 62.50\n"
        "Subtotal 172.50\nVAT 20 % 34.50\nAmount due: GBP 207.00",
        Invoice(
            seller="Kestrel Cleaning",
            number="KC-2022-417",
            issued=date(2022, 6, 8),
            currency="GBP",
            total=207,
        ),
    ),
    (
        "Northwind Paper Inc.\n12 Mill Road\nBill no. NW-88, issued 2023-11-30\n"
        "paper A4: USD 30.00\nenvelopes: USD 15.00\nTotal: USD 45.00",
        Invoice(
            seller="Northwind Paper Inc.",
            number="NW-88",
            issued=date(2023, 11, 30),
            currency="USD",
            total=45,
        ),
    ),
]


async def main() -> None:
    args = arguments(__doc__, folder=str(DATA / "invoices"))
    pages = sorted(Path(args.folder).glob("*.html"))
    async with opened(args):
        found = await gather(
            *(extract(Invoice, text_of(page), examples=EXAMPLES, verbatim=True) for page in pages)
        )
    table = Table("page", "seller", "number", "issued", Column("total", justify="right"))
    for page, each in zip(pages, found, strict=True):
        total = f"{each.currency} {each.total:.2f}"
        table.add_row(page.name, each.seller, each.number, each.issued.isoformat(), total)
    console.print(table)


if __name__ == "__main__":
    asyncio.run(main())
