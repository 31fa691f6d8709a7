"""Job adverts out of messy HTML, filling up field by field as the model writes them.

    python recipes/extract_jobs.py [--model MODEL]

`s.stream(Job)` yields the object as far as it is complete; it is valid at every moment. As
`verbatim(Job, advert)` it is made of what the advert says: its words, its numbers, and of the hours
and of working from home only what it names, so that a page that says nothing of it gets null. The
provided model gets all ten fields of the two adverts here; where the first line is no job title
("We are hiring: ...") expect it to be taken for one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from common import DATA, arguments, console, opened, run, text_of
from pydantic import BaseModel, Field
from rich.live import Live
from rich.text import Text

from agentrt import State, Verbatim, program, verbatim
from agentrt.programs.extract import ask_for

Hours = Literal["Full-time", "full-time", "Part-time", "part-time"]


class Job(BaseModel):
    title: str = Field(description="the position", max_length=40)
    company: str = Field(description="who is hiring", max_length=40)
    hours: Annotated[Hours, Verbatim]
    salary: int | None = Field(description="pay for a year, null if it is not said", ge=1000)
    home: Annotated[Literal["remote", "hybrid", "work from home"], Verbatim] | None = Field(
        description="whether one may work from elsewhere"
    )


EXAMPLES = [
    (
        "Gardener (all genders)\nBotanic Garden of Ghent\nYou plant and prune, outdoors in all "
        "weathers. Full-time. 31,000 a year.",
        Job(
            title="Gardener",
            company="Botanic Garden of Ghent",
            hours="Full-time",
            salary=31000,
            home=None,
        ),
    ),
    (
        "Translator\nNorthern Lights Press, Bergen or remote\nYou turn novels into English. "
        "Part-time, pay to be agreed.",
        Job(
            title="Translator",
            company="Northern Lights Press",
            hours="Part-time",
            salary=None,
            home="remote",
        ),
    ),
]


@program(max_tokens=100)
async def read_job(s: State, advert: str, live: Live) -> Job:
    ask_for(s, Job, examples=EXAMPLES)
    s.user(advert)
    async with s.stream(verbatim(Job, advert)) as stream:
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
    run(main)
