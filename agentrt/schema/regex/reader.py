"""The characters of a regular expression's text: plain ones, escapes and classes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrt.errors import SchemaError
from agentrt.schema.charset import CharSet, chars, charset
from agentrt.schema.regex import classes

Dialect = Literal["python", "ecma"]
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


@dataclass(frozen=True, slots=True)
class Flags:
    """What the flags in force say; `verbose` that white space and comments are left out."""

    ignore_case: bool = False
    multiline: bool = False
    dot_all: bool = False
    verbose: bool = False
    ascii: bool = False


class Reader:
    """Reads a pattern from left to right, by the syntax of a dialect and the flags in force."""

    def __init__(self, pattern: str, dialect: Dialect, pointer: str) -> None:
        self.text = pattern
        self.pos = 0
        self.dialect = dialect
        self.pointer = pointer
        self.flags = Flags(ascii=dialect == "ecma")

    def fail(self, reason: str, suggestion: str | None = None) -> SchemaError:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return SchemaError(
            self.pointer, f"the regex {shown!r}, at character {self.pos}: {reason}", suggestion
        )

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.pos)

    def eat(self, text: str) -> bool:
        if self.peek(text):
            self.pos += len(text)
            return True
        return False

    def take(self) -> str:
        if self.pos >= len(self.text):
            raise self.fail("it ends too early")
        self.pos += 1
        return self.text[self.pos - 1]

    def until(self, end: str) -> str:
        stop = self.text.find(end, self.pos)
        if stop < 0:
            raise self.fail(f"a closing {end!r} is missing")
        found = self.text[self.pos : stop]
        self.pos = stop + len(end)
        return found

    def cased(self, given: CharSet) -> CharSet:
        if self.flags.ignore_case:
            return classes.ignoring_case(given, ascii_only=self.flags.ascii)
        return given

    def escaped_set(self) -> CharSet:
        """What stands after a backslash, inside a class or out."""
        c = self.take()
        if c in "dDwWsS":
            found = self.shorthand(c.lower())
            return found.complement() if c.isupper() else found
        if c in "pP":
            return self.cased(self.property_class(negated=c == "P"))
        return chars(self.escaped_char(c))

    def shorthand(self, letter: str) -> CharSet:
        if self.flags.ascii:
            space = classes.ECMA_SPACE if self.dialect == "ecma" else classes.ASCII_SPACE
            return {"d": classes.ASCII_DIGIT, "w": classes.ASCII_WORD, "s": space}[letter]
        return {
            "d": classes.unicode_digit,
            "w": classes.unicode_word,
            "s": classes.unicode_space,
        }[letter]()

    def property_class(self, *, negated: bool) -> CharSet:
        name = self.until("}") if self.eat("{") else self.take()
        if name.startswith("^"):
            name, negated = name[1:], not negated
        found = classes.unicode_property(name)
        if found is None:
            raise self.fail(f"unknown Unicode property {name!r}")
        return found.complement() if negated else found

    def escaped_char(self, c: str) -> str:
        if c in _CONTROL and (c != "a" or self.dialect == "python"):
            return _CONTROL[c]
        if c == "x":
            return chr(self.hex_digits(2))
        if c == "u":
            return chr(self.unicode_escape())
        if c == "U" and self.dialect == "python":
            return chr(self.hex_digits(8))
        if c == "0":
            return self.octal()
        if c == "c" and self.text[self.pos : self.pos + 1].isalpha():
            return chr(ord(self.take()) % 32)
        lenient = self.dialect == "ecma" and c.isalpha() and c not in "AZzQE"
        if c.isascii() and c.isalnum() and not lenient:
            raise self.fail(f"unknown escape \\{c}")
        return c

    def octal(self) -> str:
        digits = ""
        while len(digits) < 2 and self.text[self.pos : self.pos + 1] in tuple("01234567"):
            digits += self.take()
        return chr(int(digits or "0", 8))

    def unicode_escape(self) -> int:
        if self.dialect == "ecma" and self.eat("{"):
            return self.as_code_point(self.until("}"))
        high = self.hex_digits(4)
        if 0xD800 <= high < 0xDC00 and self.peek("\\u"):
            back = self.pos
            self.pos += 2
            low = self.hex_digits(4)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
            self.pos = back
        return high

    def hex_digits(self, count: int) -> int:
        digits = self.text[self.pos : self.pos + count]
        self.pos += count
        if len(digits) != count:
            raise self.fail("a hexadecimal escape is cut short")
        return self.as_code_point(digits)

    def as_code_point(self, digits: str) -> int:
        try:
            value = int(digits, 16)
        except ValueError:
            raise self.fail(f"{digits!r} is no hexadecimal number") from None
        if value > 0x10FFFF:
            raise self.fail(f"{digits} is beyond Unicode")
        return value

    def char_class(self) -> CharSet:
        negated = self.eat("^")
        single: list[CharSet] = []
        wide: list[CharSet] = []
        first = self.dialect == "python"
        while first or not self.peek("]"):
            first = False
            low = self.class_item()
            if not (self.peek("-") and not self.peek("-]")):
                (single if low.size == 1 else wide).append(low)
                continue
            self.pos += 1
            high = self.class_item()
            if low.size != 1 or high.size != 1:
                # \w-x: ECMA without the u flag takes the dash for itself
                wide += [low, chars("-"), high]
                continue
            lo, hi = low.intervals[0][0], high.intervals[0][0]
            if lo > hi:
                raise self.fail(f"the range {chr(lo)!r}-{chr(hi)!r} runs backwards")
            single.append(charset([(lo, hi)]))
        self.pos += 1
        # case is of the characters written: Python asks \w and its like of the character as it is
        written = self.cased(charset(i for s in single for i in s.intervals))
        union = charset(i for s in (written, *wide) for i in s.intervals)
        return union.complement() if negated else union

    def class_item(self) -> CharSet:
        c = self.take()
        if c != "\\":
            return chars(c)
        if self.peek("b"):
            self.pos += 1
            return chars("\b")
        return self.escaped_set()
