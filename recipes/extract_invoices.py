"""Invoices out of messy HTML, as checked objects.

    python recipes/extract_invoices.py [--model MODEL] [--folder FOLDER]

Every answer is a valid `Invoice`: the decoder cannot write anything else, and a field that a
validator of yours refuses is asked for again. Whether it is the right one is up to the model: the
provided one, of 135 million parameters, gets most fields of short pages when it is shown one
example, and mixes up some.
"""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Literal

from common import DATA, arguments, console, opened, text_of
from pydantic import BaseModel, Field

from agentrt import extract, gather


class Invoice(BaseModel):
    seller: str = Field(description="the company that wrote the invoice", max_length=40)
    number: str = Field(description="the invoice number", pattern=r"^[A-Z0-9-]{3,20}$")
    issued: date = Field(description="the date of the invoice")
    currency: Literal["EUR", "USD", "GBP"]
    total: float = Field(description="the total due, the last amount", ge=0)


EXAMPLE = (
    "Northwind Paper Inc.\n12 Mill Road\nBill no. NW-88, issued 2023-11-30\n"
    "paper A4: USD 30.00\nenvelopes: USD 15.00\nTotal: USD 45.00",
    Invoice(
        seller="Northwind Paper Inc.",
        number="NW-88",
        issued=date(2023, 11, 30),
        currency="USD",
        total=45,
    ),
)


async def main() -> None:
    args = arguments(__doc__, folder=str(DATA / "invoices"))
    pages = sorted(Path(args.folder).glob("*.html"))
    async with opened(args.model):
        found = await gather(
            *(extract(Invoice, text_of(page), examples=[EXAMPLE]) for page in pages)
        )
        for page, invoice in zip(pages, found, strict=True):
            console.print(f"[bold]{page.name}[/]  {invoice!r}")


if __name__ == "__main__":
    asyncio.run(main())
