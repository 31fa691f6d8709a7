"""A regular expression's text to its syntax tree, in the syntax of Python's `re` or of ECMA-262.

What no automaton can follow (back-references, conditionals) is refused by name. Lazy and possessive
quantifiers and atomic groups differ from greedy ones in which match is found; the first only in
that, so it is read as its language, the others are refused where they could change the language.
"""

from __future__ import annotations

from dataclasses import replace

from agentrt.schema.charset import ANY, chars
from agentrt.schema.regex import classes
from agentrt.schema.regex.nodes import (
    EMPTY,
    END_OR_FINAL_NEWLINE,
    Assertion,
    At,
    Cat,
    Chars,
    Look,
    Node,
    Repeat,
    alt,
    cat,
)
from agentrt.schema.regex.reader import Dialect, Reader

_BLANK = tuple(" \t\n\r\f\v")
MAX_DEPTH = 200
_FLAG_FIELDS = {"i": "ignore_case", "m": "multiline", "s": "dot_all", "x": "verbose", "a": "ascii"}


def parse(pattern: str, *, dialect: Dialect = "python", pointer: str = "") -> Node:
    """The syntax tree of a pattern.

    Raises SchemaError, with the pointer given, for a pattern that is malformed or not regular.
    """
    return _Parser(pattern, dialect, pointer).parse()


class _Parser(Reader):
    def __init__(self, pattern: str, dialect: Dialect, pointer: str) -> None:
        super().__init__(pattern, dialect, pointer)
        self.depth = 0

    def parse(self) -> Node:
        node = self.alternation()
        if self.pos < len(self.text):
            raise self.fail("unbalanced ')'")
        return node

    def alternation(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"groups are nested more than {MAX_DEPTH} deep")
        outer = self.flags
        branches = [self.sequence()]
        while self.eat("|"):
            branches.append(self.sequence())
        self.flags = outer
        self.depth -= 1
        return alt(branches)

    def sequence(self) -> Node:
        parts: list[Node] = []
        while True:
            self.skip_ignored()
            if self.pos >= len(self.text) or self.peek("|") or self.peek(")"):
                return cat(parts)
            atom = self.atom()
            if atom is not None:
                parts.append(self.quantified(atom))

    def skip_ignored(self) -> None:
        """Comments and, in verbose mode, white space; they may stand before a quantifier."""
        while True:
            if self.eat("(?#"):
                self.until(")")
            elif self.flags.verbose and self.text[self.pos : self.pos + 1] in _BLANK:
                self.pos += 1
            elif self.flags.verbose and self.eat("#"):
                stop = self.text.find("\n", self.pos)
                self.pos = len(self.text) if stop < 0 else stop + 1
            else:
                return

    def quantified(self, atom: Node) -> Node:
        while True:
            self.skip_ignored()
            bounds = self.quantifier()
            if bounds is None:
                return atom
            lo, hi = bounds
            if isinstance(atom, Assertion | Look):
                atom = atom if lo else EMPTY
            if self.eat("+"):
                self.check_possessive(atom)
            else:
                self.eat("?")
            atom = Repeat(atom, lo, hi)
            if self.quantifier_follows():
                raise self.fail("a quantifier follows a quantifier")

    def quantifier_follows(self) -> bool:
        return self.pos < len(self.text) and self.text[self.pos] in "*+?"

    def quantifier(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.eat(sign):
                return bounds
        return self.counted() if self.peek("{") else None

    def counted(self) -> tuple[int, int | None] | None:
        start = self.pos
        stop = self.text.find("}", start)
        low, comma, high = self.text[start + 1 : max(stop, start + 1)].partition(",")
        digits = all(part == "" or (part.isascii() and part.isdigit()) for part in (low, high))
        open_low = self.dialect == "python" and comma
        if stop < 0 or not digits or not (low or open_low):
            return None
        self.pos = stop + 1
        lo = int(low or 0)
        hi = lo if not comma else (int(high) if high else None)
        if hi is not None and hi < lo:
            raise self.fail(f"the repeat {{{low},{high}}} has its least above its most")
        return lo, hi

    def check_possessive(self, atom: Node) -> None:
        """A possessive repeat has a greedy one's language when what it repeats cannot start what
        follows; only its being last guarantees that here."""
        if not isinstance(atom, Chars) or self.text[self.pos :].strip("$)"):
            raise self.fail(
                "a possessive quantifier gives nothing back, which changes what matches",
                "write the greedy form",
            )

    def atom(self) -> Node | None:
        c = self.take()
        if c == "(":
            return self.group()
        if c == "[":
            return Chars(self.char_class())
        if c == ".":
            dot = classes.ECMA_DOT if self.dialect == "ecma" else classes.PYTHON_DOT
            return Chars(ANY if self.flags.dot_all else dot)
        if c == "^":
            return Assertion(At.LINE_START if self.flags.multiline else At.START)
        if c == "$":
            if self.flags.multiline:
                return Assertion(At.LINE_END)
            return Assertion(At.END) if self.dialect == "ecma" else END_OR_FINAL_NEWLINE
        if c == "\\":
            return self.escape()
        if c in "*+?":
            self.pos -= 1
            raise self.fail("nothing to repeat")
        return Chars(self.cased(chars(c)))

    def group(self) -> Node | None:
        if not self.eat("?"):
            return self.closed(self.alternation())
        for sign, ahead, negated in (
            ("=", True, False),
            ("!", True, True),
            ("<=", False, False),
            ("<!", False, True),
        ):
            if self.eat(sign):
                return Look(self.closed(self.alternation()), ahead, negated)
        if self.eat(":"):
            return self.closed(self.alternation())
        if self.eat(">"):
            raise self.fail("an atomic group gives nothing back, which changes what matches")
        if self.peek("P=") or self.peek("("):
            what = "a back-reference" if self.peek("P=") else "a conditional group"
            raise self.fail(f"{what} is not regular")
        if self.eat("P<") or self.eat("<"):
            self.until(">")
            return self.closed(self.alternation())
        return self.flag_group()

    def closed(self, node: Node) -> Node:
        if not self.eat(")"):
            raise self.fail("a closing ')' is missing")
        return node

    def flag_group(self) -> Node | None:
        on, off, target = self.flags, False, {}
        while True:
            c = self.take()
            if c == "-":
                off = True
            elif c in _FLAG_FIELDS:
                target[_FLAG_FIELDS[c]] = not off
            elif c == "u":
                target["ascii"] = False
            elif c in ":)":
                break
            else:
                raise self.fail(f"unknown extension (?{c}")
        self.flags = replace(on, **target)
        if c == ")":
            return None
        node = self.closed(self.alternation())
        self.flags = on
        return node

    def escape(self) -> Node:
        c = self.text[self.pos : self.pos + 1]
        if c in ("b", "B"):
            self.pos += 1
            return self.boundary(negated=c == "B")
        if self.dialect == "python" and c in ("A", "Z", "z"):
            self.pos += 1
            return Assertion(At.START if c == "A" else At.END)
        if (c.isdigit() and c != "0") or (c == "k" and self.text[self.pos + 1 :][:1] == "<"):
            raise self.fail("a back-reference is not regular", "write out what it may repeat")
        found = self.escaped_set()
        return Chars(self.cased(found) if found.size == 1 else found)

    def boundary(self, *, negated: bool) -> Node:
        if self.flags.ascii:
            at = At.NOT_ASCII_WORD_BOUNDARY if negated else At.ASCII_WORD_BOUNDARY
        else:
            at = At.NOT_WORD_BOUNDARY if negated else At.WORD_BOUNDARY
        if negated and self.dialect == "python":
            # Python's \B, before 3.14, never matches in an empty text
            return Cat((Assertion(At.NOT_EMPTY), Assertion(at)))
        return Assertion(at)
