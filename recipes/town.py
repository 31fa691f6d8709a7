"""Three people, one day: generative agents that plan, meet, talk and remember.

    python recipes/town.py [--model MODEL] [--seed N]

After Park et al. 2023 (arXiv:2304.03442), small. Each hour everyone decides where to go (a choice
by likelihood), and whoever meets somebody says one sentence; what was said is remembered. The three
decide at the same time, and what they know of the town is computed once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from common import arguments, console, opened

from agentrt import State, gather, program

PLACES = ["the bakery", "the library", "the park", "home"]
TOWN = f"Fernhill is a small town. Its places are {', '.join(PLACES)}. It is a sunny Saturday."


@dataclass
class Person:
    name: str
    about: str
    place: str = "home"
    memory: list[str] = field(default_factory=list)


PEOPLE = [
    Person("Ida", "a retired teacher who reads a lot and likes company"),
    Person("Tom", "a baker who is up early and loves to talk about bread"),
    Person("Mara", "a student who is writing a paper and gets hungry at noon"),
]


def begin(s: State, person: Person, hour: int) -> None:
    """What a person knows: the town first, since everybody shares that."""
    s.system(TOWN)
    recent = " ".join(person.memory[-3:]) or "Nothing has happened yet."
    s.user(
        f"You are {person.name}, {person.about}. {recent} It is {hour}:00 and you are at "
        f"{person.place}."
    )


@program
async def decide(s: State, person: Person, hour: int) -> str:
    begin(s, person, hour)
    s.assistant("I am going to")
    return (await s.select([f" {place}" for place in PLACES], by="unconditional")).strip()


@program(temperature=0.7, max_tokens=30)
async def speak(s: State, person: Person, to: str, hour: int) -> str:
    begin(s, person, hour)
    s.user(f"You meet {to}. Say one short sentence to {to}.")
    s.assistant(f'{person.name}: "')
    return await s.gen(regex=r'[A-Z][^"\n]{10,90}[.!?]')


async def live(hour: int) -> None:
    places = await gather(*(decide(person, hour) for person in PEOPLE))
    for person, place in zip(PEOPLE, places, strict=True):
        person.place = place
    console.print(f"[bold]{hour}:00[/]  " + ", ".join(f"{p.name}: {p.place}" for p in PEOPLE))
    met = [(a, b) for a in PEOPLE for b in PEOPLE if a is not b and a.place == b.place]
    said = await gather(*(speak(a, b.name, hour) for a, b in met))
    for (a, b), words in zip(met, said, strict=True):
        console.print(f"       {a.name} to {b.name}: {words}")
        a.memory.append(f"You told {b.name}: {words}")
        b.memory.append(f"{a.name} told you: {words}")


async def main() -> None:
    args = arguments(__doc__)
    async with opened(args.model):
        for hour in range(8, 20, 3):
            await live(hour)


if __name__ == "__main__":
    asyncio.run(main())
