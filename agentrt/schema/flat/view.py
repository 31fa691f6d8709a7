"""A grammar as one regex of Python's `re`, to be matched in full."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from agentrt.errors import SchemaError
from agentrt.schema.flat.automaton import either, regex_of
from agentrt.schema.flat.spelling import (
    ANY_ASCII_CHARACTER,
    ANY_CHARACTER,
    characters,
    digit_runs,
)
from agentrt.schema.machine.numbers import known_pattern, number_text
from agentrt.schema.machine.texts import StringText
from agentrt.schema.values.numbers import is_integral
from agentrt.schema.values.strings import words

if TYPE_CHECKING:
    from agentrt.schema.algebra.objects import ObjectPlan
    from agentrt.schema.algebra.shapes import ArrayShape, ObjectShape, Values
    from agentrt.schema.algebra.space import Expr
    from agentrt.schema.compile import Source
    from agentrt.schema.machine.digits import NumberText
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.values.numbers import Numbers
    from agentrt.schema.values.strings import Strings


def flat_regex(source: Source, machine: Machine, most: int) -> str:
    """The regex whose full matches are the grammar's texts, in at most `most` characters.

    Raises SchemaError, with the pointer and the reason, for what is not flat (recursion, keys in
    any order or of any name, items that must differ or are counted, white space that is free, exact
    bounds on fractions) and for what is too long.
    """
    if source.kind == "regex":
        return source.text
    if source.kind == "choices":
        return either([re.escape(choice) for choice in json.loads(source.text)])
    if source.options.whitespace == "free":
        raise SchemaError("", "white space that is free stands everywhere", "compact or spaced")
    return _View(machine, most).value(machine.root)


def contents_regex(machine: Machine, most: int, deep: int) -> str:
    """The regex of JSON texts to stand inside a string: values are within themselves at most `deep`
    times. Names that are not known may come twice, of which a reader takes the last, and so may the
    items of a set of which one is enough."""
    return _View(machine, most, deep=deep).value(machine.root)


class _TooDeep(Exception):
    """A value that would stand within itself once too often."""


class _View:
    """Writes the regex of expressions; `open` counts those that are being written.

    `deep`: the most times that a value may stand within itself, and what a reader takes once may
    come twice; None for a view that is exact.
    """

    def __init__(self, machine: Machine, most: int, *, deep: int | None = None) -> None:
        self.machine = machine
        self.most = most
        self.deep = deep
        self.open: Counter[Expr] = Counter()
        self.pointer = ""
        spaced = machine.options.whitespace == "spaced"
        self.comma, self.colon = (", ", ": ") if spaced else (",", ":")

    def value(self, expr: Expr) -> str:
        pointer = self.pointer = expr.pointer or self.pointer
        if self.open[expr] > (self.deep or 0):
            if self.deep is None:
                raise SchemaError(pointer, "it is recursive, and a flat regex has no end there")
            raise _TooDeep
        self.open[expr] += 1
        values = self.machine.space.normal(expr)
        flags = ((values.null, "null"), (values.true, "true"), (values.false, "false"))
        ways = [word for holds, word in flags if holds]
        ways += [self.string(strings) for strings in values.strings if not strings.is_empty]
        ways += [self.number(numbers) for numbers in values.numbers if not numbers.is_empty]
        try:
            ways += self._nested(values, any_way=bool(ways))
        finally:
            self.open[expr] -= 1
        self.pointer = pointer
        return self._short(either([way for way in ways if way]))

    def _nested(self, values: Values, *, any_way: bool) -> list[str]:
        """Those of arrays and objects; one that goes too deep is left out where there is another
        way."""
        writers = [lambda shape=shape: self.array(shape) for shape in values.arrays]
        writers += [lambda shape=shape: self.object(shape) for shape in values.objects]
        out: list[str] = []
        too_deep: _TooDeep | None = None
        for write in writers:
            try:
                out.append(write())
            except _TooDeep as error:
                too_deep = error
        if too_deep is not None and not (out or any_way):
            raise too_deep
        return out

    def _short(self, regex: str) -> str:
        if len(regex) > self.most:
            raise self._refused(f"its regex passes {self.most:,} characters")
        return regex

    def _refused(self, reason: str) -> SchemaError:
        return SchemaError(self.pointer, reason)

    def string(self, strings: Strings) -> str:
        ascii_only = self.machine.options.ascii_only
        one = ANY_ASCII_CHARACTER if ascii_only else ANY_CHARACTER
        bounds = "*"
        if strings.lo or strings.hi is not None:
            bounds = f"{{{strings.lo},{'' if strings.hi is None else strings.hi}}}"
        if strings.dfa is None:
            return f'"{one}{bounds}"'
        text = self._automaton(strings, json_text=True)
        ahead = "" if bounds == "*" else f'(?={one}{bounds}")'
        return f'"{ahead}{text}"'

    def _automaton(self, strings: Strings, *, json_text: bool) -> str:
        assert strings.dfa is not None
        return regex_of(
            strings.dfa,
            json=json_text,
            ascii_only=self.machine.options.ascii_only and json_text,
            pointer=self.pointer,
            most=self.most,
        )

    def number(self, numbers: Numbers) -> str:
        options = self.machine.options
        plain = self.machine.is_plain(numbers)
        known = known_pattern(numbers, options.max_digits, plain=plain)
        if known is not None:
            return f"(?:{known})"
        text = number_text(numbers, options.max_digits, plain=plain)
        if isinstance(text, StringText):
            return self._automaton(text.strings, json_text=False)
        if not plain or not is_integral(numbers):
            raise self._refused("bounds or multiples are exact arithmetic, which no regex does")
        if numbers.multiple != 1 or numbers.not_multiples or numbers.excluded:
            raise self._refused("multiples are exact arithmetic, which no regex does")
        return _integers(numbers, text)

    def array(self, shape: ArrayShape) -> str:
        plan = self.machine.array(shape).plan
        # a set that is read takes one of those that are alike: that leaves enough where one is
        apart = shape.unique and (self.deep is None or plan.lo > 1)
        if shape.contains or apart:
            raise self._refused("items that are counted or must differ")
        if plan.hi is not None and plan.lo > plan.hi:
            return ""
        return rf"\[{self._items(shape, plan.lo, plan.hi)}\]"

    def _items(self, shape: ArrayShape, lo: int, hi: int | None) -> str:
        at = len(shape.prefix) if hi is None else min(hi, len(shape.prefix))
        out, item = "", None
        if hi is None or hi > at:
            item = self._unless_deep(shape.rest, needed=lo > at)
        if item is not None:
            least, most = max(lo - at, 0), "" if hi is None else hi - at
            more = f"(?:{self.comma}{item})"
            if at:
                out = f"{more}{{{least},{most}}}"
            else:
                most = "" if hi is None else hi - 1
                out = f"{item}{more}{{{max(lo - 1, 0)},{most}}}"
                out = out if lo else f"(?:{out})?"
        for i in range(at - 1, -1, -1):
            item = self._unless_deep(shape.prefix[i], needed=i < lo)
            out = "" if item is None else (self.comma if i else "") + item + out
            out = self._short(out if i < lo or not out else f"(?:{out})?")
        return out

    def _unless_deep(self, expr: Expr, *, needed: bool) -> str | None:
        """The regex of a value, or None of one that goes too deep and may be left out."""
        try:
            return self.value(expr)
        except _TooDeep:
            if needed:
                raise
            return None

    def object(self, shape: ObjectShape) -> str:
        plan = self.machine.object(shape).plan
        if not plan.ordered:
            raise self._refused("keys may come in any order")
        if plan.usable_classes and self.deep is None:
            raise self._refused("names that are not known may not come twice")
        if plan.all_some or shape.implied:
            raise self._refused("which keys come depends on one another")
        names = [i for i in range(len(plan.names)) if plan.fits(i)]
        needed = [i for i in names if plan.required >> i & 1]
        free = bool(plan.usable_classes)
        if shape.lo > len(needed) or (shape.hi is not None and (free or shape.hi < len(names))):
            raise self._refused("its members are counted")
        if len(needed) < plan.required.bit_count():
            return ""
        return rf"\{{{self._members(plan, names)}\}}"

    def _members(self, plan: ObjectPlan, names: list[int]) -> str:
        """From the last to the first: what follows a member, and what may come as the first."""
        after = first = ""
        if others := either(self._others(plan)):
            after = f"(?:{self.comma}{others})*"
            first = f"(?:{others}{after})?"
        for i in reversed(names):
            needed = bool(plan.required >> i & 1)
            value = self._unless_deep(plan.values[i], needed=needed)
            if value is None:
                continue
            member = self._key(plan.names[i]) + self.colon + value
            if needed:
                first, after = member + after, self.comma + member + after
            else:
                first = either([member + after, first])
                after = f"(?:{self.comma}{member})?{after}"
            self._short(first)
        return first

    def _others(self, plan: ObjectPlan) -> list[str]:
        """Members of names that are not known, by class of names."""
        known = words(plan.names)
        out: list[str] = []
        for cls in plan.usable_classes:
            value = self._unless_deep(cls.value, needed=False)
            if value is not None:
                names = [cls.names.intersection(left) for left in known.complement()]
                keys = either([self.string(each) for each in names if not each.is_empty])
                out.append(self._short(keys + self.colon + value))
        return out

    def _key(self, name: str) -> str:
        ascii_only = self.machine.options.ascii_only
        spelled = (characters([(ord(c), ord(c))], json=True, ascii_only=ascii_only) for c in name)
        return '"' + "".join(either(ways) for ways in spelled) + '"'


def _integers(numbers: Numbers, text: NumberText) -> str:
    """Integers between two bounds, as they are plainly written."""
    most = 10**text.max_digits - 1
    lo = (
        -most
        if numbers.lo is None
        else int(-(-numbers.lo // 1)) + _open(numbers.lo, numbers.lo_open)
    )
    hi = most if numbers.hi is None else int(numbers.hi // 1) - _open(numbers.hi, numbers.hi_open)
    ways: list[str] = []
    if lo < 0:
        below = either(_numerals(max(1, -hi), -lo))
        ways.append(f"-{below}")
    if hi >= 0:
        ways += _numerals(max(lo, 0), hi)
    return either(ways)


def _open(bound: object, is_open: bool) -> int:
    return int(is_open and getattr(bound, "denominator", 0) == 1)


def _numerals(lo: int, hi: int) -> list[str]:
    """Numerals without leading zeros, by length; long stretches of whole lengths as one."""
    out: list[str] = []
    while lo <= hi:
        width = len(str(lo))
        longest = len(str(hi + 1)) - 1  # the last length that is within the bounds to its end
        if lo == 10 ** (width - 1) and lo > 0 and longest > width:
            out.append(f"[1-9][0-9]{{{width - 1},{longest - 1}}}")
            lo = 10**longest
            continue
        last = min(hi, 10**width - 1)
        out += digit_runs(lo, last, width)
        lo = last + 1
    return out
