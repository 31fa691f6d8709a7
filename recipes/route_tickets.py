"""Support tickets to the team that should answer them, and how sure the model is.

    python recipes/route_tickets.py [--model MODEL]

Nothing is generated: `select` asks how likely each team is as the next words, all teams of all
tickets in one batch, after instructions that are computed once. That is where a small model is at
its best.
"""

from __future__ import annotations

import asyncio

from common import arguments, console, opened
from rich.table import Table

from agentrt import State, gather, program

TEAMS = ["billing", "shipping", "returns", "technical help"]
SOLVED = [
    ("I was charged twice in March.", "billing"),
    ("The parcel never arrived.", "shipping"),
    ("These shoes are too small, can I send them back?", "returns"),
    ("The app crashes when I open it.", "technical help"),
]
TICKETS = [
    "Your courier says delivered, but there is nothing at my door.",
    "Please send me the invoice for my last order, I need it for taxes.",
    "I cannot log in since the update.",
    "The jacket is nice but I would like my money back.",
    "Why did my card get debited 20 euros?",
    "How long does delivery to Portugal take?",
]


@program
async def route(s: State, ticket: str) -> tuple[str, float]:
    """The team for a ticket, and its share of the likelihood."""
    s.system(f"You forward tickets of customers to one of the teams: {', '.join(TEAMS)}.")
    for text, team in SOLVED:
        s.user(text)
        s.assistant(team)
    s.user(ticket)
    team = await s.select(TEAMS, name="team")
    selection = s.result("team").selection
    assert selection is not None
    return team, max(selection.probabilities)


async def main() -> None:
    args = arguments(__doc__)
    async with opened(args.model):
        found = await gather(*(route(ticket) for ticket in TICKETS))
    table = Table("ticket", "team", "sure")
    for ticket, (team, share) in zip(TICKETS, found, strict=True):
        table.add_row(ticket, team, f"{share:.0%}")
    console.print(table)


if __name__ == "__main__":
    asyncio.run(main())
