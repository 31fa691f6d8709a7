"""Support tickets to the team that should answer them, and how sure the model is.

    python recipes/route_tickets.py [--model MODEL] [--live]

Nothing is generated: `classify` asks how likely each team is as the next word, all teams of all
tickets in one batch, after instructions that are computed once. Each team is named by one word, so
that no name wins by its length, and shown by as many examples. The teams that a person would choose
stand beside it, and the last line counts.
"""

from __future__ import annotations

import asyncio

from common import arguments, console, opened
from rich.table import Table

from agentrt import gather
from agentrt.programs import classify

TEAMS = {
    "billing": "invoices, charges, payments",
    "delivery": "parcels on their way or lost",
    "returns": "goods to be sent back, refunds",
    "support": "logins, apps and devices that do not work",
}
SOLVED = [
    ("I was charged twice in March.", "billing"),
    ("The parcel never arrived.", "delivery"),
    ("These shoes are too small, can I send them back?", "returns"),
    ("The app crashes when I open it.", "support"),
    ("Where is my order? It was sent a week ago.", "delivery"),
    ("My password is not accepted.", "support"),
    ("Your invoice has the wrong address.", "billing"),
    ("I do not want this coat any more.", "returns"),
]
TICKETS = [
    ("Your courier says delivered, but there is nothing at my door.", "delivery"),
    ("Please send me the invoice for my last order, I need it for taxes.", "billing"),
    ("I cannot log in since the update.", "support"),
    ("The jacket is nice but I would like my money back.", "returns"),
    ("Why did my card get debited 20 euros?", "billing"),
    ("How long does delivery to Portugal take?", "delivery"),
    ("The screen stays black when I press the button.", "support"),
    ("Can I swap this lamp for another colour?", "returns"),
]


async def main() -> None:
    args = arguments(__doc__)
    table = Table("ticket", "team", "sure", "a person")
    right = 0
    async with opened(args):
        found = await gather(
            *(
                classify(
                    ticket,
                    TEAMS,
                    question="Which team answers this ticket?",
                    examples=SOLVED,
                    by="unconditional",
                )
                for ticket, _ in TICKETS
            )
        )
        for (ticket, known), chosen in zip(TICKETS, found, strict=True):
            right += chosen.label == known
            table.add_row(ticket, chosen.label, f"{chosen.confidence:.0%}", known)
        console.print(table)
        console.print(f"{right} of {len(TICKETS)} as a person would")


if __name__ == "__main__":
    asyncio.run(main())
