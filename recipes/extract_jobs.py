"""Job adverts out of messy HTML, filling up field by field as the model writes them.

    python recipes/extract_jobs.py [--model MODEL]

`s.stream(Job)` yields the object as far as it is complete; it is valid at every moment.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from common import DATA, arguments, console, opened, text_of
from pydantic import BaseModel, Field
from rich.live import Live
from rich.text import Text

from agentrt import State, program
from agentrt.programs.extract import ask_for


class Job(BaseModel):
    title: str = Field(description="the position", max_length=40)
    company: str = Field(description="who is hiring", max_length=40)
    hours: Literal["full-time", "part-time"]
    salary: int | None = Field(description="pay for a year, null if it is not said", ge=1000)
    remote: bool = Field(description="whether one may work from home")


EXAMPLE = (
    "Gardener wanted! The Botanic Garden of Ghent seeks a gardener, full-time, 31,000 a year.",
    Job(
        title="Gardener",
        company="Botanic Garden of Ghent",
        hours="full-time",
        salary=31000,
        remote=False,
    ),
)


@program(max_tokens=100)
async def read_job(s: State, advert: str, live: Live) -> Job:
    ask_for(s, Job, examples=[EXAMPLE])
    s.user(advert)
    async with s.stream(Job) as stream:
        async for part in stream:
            growing = f" ... {part.growing[1]}" if part.growing else ""
            live.update(Text(f"{part.value}{growing}", style="dim"))
    return stream.value


async def main() -> None:
    args = arguments(__doc__, draws=True)
    async with opened(args):
        for page in sorted((DATA / "jobs").glob("*.html")):
            with Live(console=console, transient=True) as live:
                job = await read_job(text_of(page), live)
            console.print(f"[bold]{page.name}[/]  {job!r}")


if __name__ == "__main__":
    asyncio.run(main())
