"""Every recipe runs as it stands on the provided model, and what it prints is so."""

from __future__ import annotations

import csv
import importlib
import io
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = sorted(p.name for p in (ROOT / "recipes").glob("*.py") if p.name != "common.py")
USAGE = re.compile(
    r"(\d+) prompt tokens \((\d+) cached, (\d+) computed\), "
    r"(\d+) written \((\d+) sampled, (\d+) forced\), [\d.]+ s"
)

pytestmark = pytest.mark.model


def recipe(name: str, *arguments: str) -> str:
    """What a recipe prints, in wide lines and without its usage line, which must be there."""
    done = started(name, *arguments)
    assert done.returncode == 0, done.stderr
    used = USAGE.search(done.stdout)
    assert used is not None, done.stdout
    prompt, cached, computed, written, sampled, forced = map(int, used.groups())
    assert (prompt, written) == (cached + computed, sampled + forced)
    return "\n".join(line for line in done.stdout.splitlines() if not USAGE.search(line))


def started(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"recipes/{name}.py", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300", "NO_COLOR": "1"},
    )


@pytest.mark.parametrize("name", RECIPES)
def test_says_how_it_is_run(name: str) -> None:
    """The docstring is the help: the command line is in it."""
    source = (ROOT / "recipes" / name).read_text(encoding="utf-8")
    assert f"    python recipes/{name} [--model MODEL]" in source


MISTAKES = [
    ("extract_invoices", "--folder", "nowhere", "there is no folder 'nowhere'"),
    ("extract_invoices", "--folder", "recipes", "recipes has no .html pages"),
    ("map_folder", "--folder", "nowhere", "there is no folder 'nowhere'"),
    ("scrape", "--start", "recipes", "there is no file 'recipes'"),
    ("encyclopaedia", "--question", " ", "it is empty"),
    ("encyclopaedia", "--turns", "0", "'0' is no whole number from 1 on"),
    ("game24", "--puzzles", "1 2 x 4", "'1 2 x 4' is not four whole numbers"),
    ("essay_judge", "--essay", "nowhere.txt", "there is no file 'nowhere.txt'"),
    ("maths", "--samples", "0", "'0' is no whole number from 1 on"),
    ("town", "--hours", "many", "'many' is no whole number from 1 on"),
    ("debate", "--rounds", "-1", "'-1' is no whole number from 1 on"),
    ("chat", "--words", "0", "'0' is no whole number from 1 on"),
    ("route_tickets", "--model", "./nowhere", "there is no file or folder"),
]


@pytest.mark.parametrize(("name", "option", "given", "said"), MISTAKES)
def test_a_mistake_is_said_in_one_line(name: str, option: str, given: str, said: str) -> None:
    done = started(name, f"{option}={given}")
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", RECIPES)
def test_every_option_says_what_it_is(name: str) -> None:
    done = started(name.removesuffix(".py"), "--help")
    options = re.findall(r"^  (--\w+) [A-Z]+ *(.*)$", done.stdout, re.MULTILINE)
    assert options
    assert all(what for _, what in options), options


INVOICES = {
    "harbor.html": ["Blue Harbor Catering Ltd.", "BH-5521", "2025-01-14", "GBP", "255.00"],
    "hosting.html": ["Nimbus Hosting Inc.", "88213", "2025-06-01", "USD", "18.00"],
    "werkzeug.html": ["ACME Tools GmbH", "INV-2024-0117", "2024-03-05", "EUR", "77.11"],
}
INVOICE = re.compile(r"│ (\w+\.html) +│ (.+?) +│ (\S+) +│ (\S+) +│ +([A-Z]+) (\S+) +│")


def test_most_fields_of_the_invoices_are_right() -> None:
    rows = INVOICE.findall(recipe("extract_invoices"))
    assert [name for name, *_ in rows] == list(INVOICES)
    right = [a == b for name, *row in rows for a, b in zip(row, INVOICES[name], strict=True)]
    assert sum(right) >= 13


def test_a_total_that_another_amount_exceeds_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "recipes"))
    shop = importlib.import_module("extract_invoices")
    page = "Saw 25.00\nSubtotal 1,064.80\nVAT 19 % 12.31\nTotal due: EUR 1,077.11"

    def shown(total: str) -> str:
        invoice = shop.Invoice(seller="A", number="1234", issued="2024-03-05", total=total)
        with shop.console.capture() as said:
            shop.show({"page": page}, [invoice])
        return " ".join(said.get().split())

    assert "EUR 1,077.11 │" in (right := shown("EUR 1,077.11"))
    assert "largest amount there. Not checked" in right
    for wrong in ("EUR 12.31", "EUR 1,064.80"):
        assert f"{wrong} ? │" in (doubted := shown(wrong))
        assert "but for 1 marked with ?" in doubted


def test_a_page_is_shown_as_it_is_read(tmp_path: Path) -> None:
    page = ROOT / "recipes/data/invoices/hosting.html"
    (tmp_path / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    found = recipe("extract_invoices", "--live", "--folder", str(tmp_path))
    [(name, *row)] = INVOICE.findall(found)
    assert row == INVOICES[name]


def test_jobs_say_what_their_pages_say() -> None:
    found = recipe("extract_jobs")
    rows = re.findall(r"hours='([\w-]+)', salary=(None|\d+), home=(None|'\w+')\)", found)
    assert [hours for hours, _, _ in rows] == ["Full-time", "Part-time"]
    assert rows[0][2] == "None"
    assert {salary for _, salary, _ in rows} <= {"29000", "52000", "None"}


def test_a_folder_is_read_once(tmp_path: Path) -> None:
    rows = tmp_path / "rows.db"
    first = recipe("map_folder", "--resume", str(rows))
    assert len(re.findall(r"item\d\.html.*(?:In stock|Sold out)", first)) == 6
    assert "index" not in first
    again = recipe("map_folder", "--resume", str(rows))
    assert [line for line in again.splitlines() if ".html" in line] == [
        line for line in first.splitlines() if ".html" in line
    ]


def test_tickets_are_routed_better_than_by_chance() -> None:
    """Four teams, sixteen tickets: chance is four."""
    found = recipe("route_tickets")
    right, without = map(int, re.findall(r"(\d+) of 16 .*; (\d+) without", found)[0])
    assert right > max(4, without)


def test_pages_become_rows(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    said = recipe("scrape", "--out", str(out))
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [row["page"] for row in rows] == [f"item{n}.html" for n in range(1, 7)]
    assert {row["available"] for row in rows} <= {"In stock", "Sold out"}
    pages = [(ROOT / "recipes/data/shop" / row["page"]).read_text(encoding="utf-8") for row in rows]
    for row, page in zip(rows, pages, strict=True):
        assert row["name"] in page
        assert f"{float(row['price']):.2f}" in page
        assert row["available"] in page
    sure = sum(row["at_top"] == "True" for row in rows)
    assert f"6 rows, {sure} with name and price" in said
    assert sure >= 5


def test_every_answer_of_24_is_right() -> None:
    """Each step is recomputed here; for 1 1 1 1, which has no answer, all are tried."""
    found = recipe("game24", "--puzzles", "4 6 1 1, 1 1 1 1")
    assert "there is none" in found
    numbers = sorted(Fraction(n) for n in (4, 6, 1, 1))
    steps = re.findall(r"(\S+) ([-+*/]) (\S+) = (\S+) \(left: (.+?)\)", found)
    assert len(steps) == 3
    for a, sign, b, result, left in steps:
        one, two = Fraction(a), Fraction(b)
        numbers.remove(one)
        numbers.remove(two)
        exact = {"+": one + two, "-": one - two, "*": one * two, "/": two and one / two}[sign]
        assert exact == Fraction(result)
        numbers.append(exact)
        assert sorted(numbers) == [Fraction(n) for n in left.split()]
    assert numbers == [24]


def test_the_encyclopaedia_is_quoted() -> None:
    question = "How many hearts does an octopus have?"
    found = recipe("encyclopaedia", "--question", question)
    assert question in found
    assert "  thought  I look up the article about Octopus." in found
    assert re.search(r'  (search|calculator)  \{"(query|expression)":".+"\}', found)
    quotation = re.search(r"^  answer +(.+)$", found, re.MULTILINE)
    given = re.search(r"^  found +(.+)$", found, re.MULTILINE)
    assert quotation is not None
    assert given is not None
    assert quotation[1] in given[1]


def test_the_essay_has_a_mark_for_each_dimension() -> None:
    found = recipe("essay_judge", "--words", "12")
    marks = re.findall(r"│ (clarity|argument|evidence|style|whole) +│ ([\d.]+) +│ (\d+) ", found)
    assert [name for name, _, _ in marks] == ["clarity", "argument", "evidence", "style", "whole"]
    assert all(1 <= float(mark) <= 10 and 1 <= int(mode) <= 10 for _, mark, mode in marks)


def test_sums_use_the_numbers_of_the_problem_and_most_are_right() -> None:
    found = recipe("maths", "--samples", "1", "--problems", "3")
    sums = re.findall(r"  (\d+) ([-+*/]) (\d+) = (\d+): (right|wrong)", found)
    assert [{one, two} for one, _, two, _, _ in sums] == [{"5", "3"}, {"8", "4"}, {"24", "3"}]
    known = ["8", "32", "8"]
    for (one, sign, two, total, verdict), answer in zip(sums, known, strict=True):
        assert (
            Fraction(total)
            == {
                "+": Fraction(one) + int(two),
                "-": Fraction(one) - int(two),
                "*": Fraction(one) * int(two),
                "/": Fraction(one) / int(two),
            }[sign]
        )
        assert (total == answer) == (verdict == "right")
    right = sum(verdict == "right" for *_, verdict in sums)
    assert f"right by vote: {right} of 3" in found
    assert right >= 2


def test_a_chat_says_its_script_by_itself() -> None:
    found = recipe("chat", "--words", "12")
    assert re.findall(r"^(you|model) ", found, re.MULTILINE) == ["you", "model"] * 3


def test_a_debate_is_counted() -> None:
    found = recipe("debate", "--words", "12")
    votes = re.findall(r"^(yes|no) +a .+: ", found, re.MULTILINE)
    assert len(votes) == 6
    last = votes[3:]
    winner = re.search(r"in the end: (yes|no)", found)
    assert winner is not None
    assert last.count(winner[1]) >= 2


def test_a_day_in_town() -> None:
    found = recipe("town", "--hours", "1")
    place = r"(?:the bakery|the library|the park|home)"
    assert re.search(rf"8:00 +Ida: {place}, Tom: {place}, Mara: {place}", found)
