"""Union, intersection and complement of normal forms."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from agentrt.errors import SchemaError
from agentrt.schema.algebra.shapes import (
    ArrayShape,
    Contains,
    ObjectShape,
    Some,
    Values,
    least,
)
from agentrt.schema.limits import current_pointer, spend
from agentrt.schema.regex.words import of_words
from agentrt.schema.values.strings import EVERY_STRING, Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentrt.schema.algebra.space import Expr, Space

T = TypeVar("T")


def union(parts: Sequence[Values]) -> Values:
    return Values(
        any(p.null for p in parts),
        any(p.true for p in parts),
        any(p.false for p in parts),
        _distinct(n for p in parts for n in p.numbers),
        _distinct(s for p in parts for s in p.strings),
        _distinct(a for p in parts for a in p.arrays),
        _distinct(o for p in parts for o in p.objects),
    )


def _distinct(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def intersection(space: Space, parts: Sequence[Values]) -> Values:
    return reduce(lambda a, b: _both(space, a, b), parts)


def _both(space: Space, a: Values, b: Values) -> Values:
    spend(1 + len(a.arrays) * len(b.arrays) + len(a.objects) * len(b.objects))
    numbers = [x.intersection(y) for x, y in product(a.numbers, b.numbers)]
    strings = [x.intersection(y) for x, y in product(a.strings, b.strings)]
    arrays = [_both_arrays(space, x, y) for x, y in product(a.arrays, b.arrays)]
    objects = [_both_objects(space, x, y) for x, y in product(a.objects, b.objects)]
    return Values(
        a.null and b.null,
        a.true and b.true,
        a.false and b.false,
        _distinct(n for n in numbers if not n.is_empty),
        _distinct(s for s in strings if not s.is_empty),
        _distinct(x for x in arrays if x is not None),
        _distinct(x for x in objects if x is not None),
    )


def _both_arrays(space: Space, a: ArrayShape, b: ArrayShape) -> ArrayShape | None:
    length = max(len(a.prefix), len(b.prefix))
    prefix = tuple(space.all_of((a.item(i), b.item(i))) for i in range(length))
    return array(
        space,
        ArrayShape(
            prefix,
            space.all_of((a.rest, b.rest)),
            max(a.lo, b.lo),
            least(a.hi, b.hi),
            _distinct((*a.contains, *b.contains)),
            a.unique or b.unique,
        ),
    )


def array(space: Space, shape: ArrayShape) -> ArrayShape | None:
    """The same shape, tidied: items that nothing can be end the array. None if plainly empty."""
    shape = _without_banned(space, shape)
    hi, prefix, rest = shape.hi, shape.prefix, shape.rest
    for i, item in enumerate(prefix):
        if item is space.nothing:
            hi = least(hi, i)
            break
    if rest is space.nothing:
        hi = least(hi, len(prefix))
    if hi is not None:
        prefix = prefix[:hi]
        rest = space.nothing if hi <= len(prefix) else rest
    while prefix and prefix[-1] is rest:
        prefix = prefix[:-1]
    contains = tuple(c for c in shape.contains if c.lo > 0 or c.hi is not None)
    if hi is not None and (shape.lo > hi or any(c.lo > max(0, hi - c.start) for c in contains)):
        return None
    unique = shape.unique and (hi is None or hi > 1)
    return ArrayShape(prefix, rest, shape.lo, hi, contains, unique)


def _without_banned(space: Space, shape: ArrayShape) -> ArrayShape:
    """Where no item may match, every item is one that does not."""
    banned = [c for c in shape.contains if c.hi == 0 and c.lo == 0]
    if not banned:
        return shape
    prefix = [shape.item(i) for i in range(max(len(shape.prefix), *(c.start for c in banned)))]
    rest = shape.rest
    for c in banned:
        allowed = space.negation(c.item)
        prefix = [space.all_of((e, allowed)) if i >= c.start else e for i, e in enumerate(prefix)]
        rest = space.all_of((rest, allowed))
    kept = tuple(c for c in shape.contains if c not in banned)
    return ArrayShape(tuple(prefix), rest, shape.lo, shape.hi, kept, shape.unique)


def _both_objects(space: Space, a: ObjectShape, b: ObjectShape) -> ObjectShape | None:
    names = list(dict.fromkeys([n for n, _ in a.named] + [n for n, _ in b.named]))
    in_a, in_b = dict(a.named), dict(b.named)
    named = tuple(
        (n, space.all_of((in_a.get(n) or a.class_of(n), in_b.get(n) or b.class_of(n))))
        for n in names
    )
    return tidy_object(
        space,
        ObjectShape(
            named,
            both_classes(space, a.rest, b.rest),
            a.required | b.required,
            max(a.lo, b.lo),
            least(a.hi, b.hi),
            a.implied | b.implied,
            _distinct((*a.some, *b.some)),
        ),
    )


Classes = tuple[tuple["Strings", "Expr"], ...]


def both_classes(space: Space, a: Classes, b: Classes) -> Classes:
    """Two partitions of the names into classes, refined to one."""
    merged: dict[Expr, list[Strings]] = {}
    for (names_a, value_a), (names_b, value_b) in product(a, b):
        spend()
        names = names_a.intersection(names_b)
        if not names.is_empty:
            merged.setdefault(space.all_of((value_a, value_b)), []).append(names)
    return tuple((n, value) for value, group in merged.items() for n in group)


def tidy_object(space: Space, shape: ObjectShape) -> ObjectShape | None:
    """The same shape with what is plain worked in; None if plainly empty."""
    values = dict(shape.named)
    for name in shape.required:
        if (values.get(name) or shape.class_of(name)) is space.nothing:
            return None
    lo = max(shape.lo, len(shape.required))
    if shape.hi is not None and lo > shape.hi:
        return None
    implied = frozenset((a, b) for a, b in shape.implied if not b <= shape.required)
    return ObjectShape(
        shape.named, shape.rest, shape.required, shape.lo, shape.hi, implied, shape.some
    )


def complement(space: Space, given: Values) -> Values:
    return difference(space, space.normal(space.anything), given)


def difference(space: Space, left: Values, taken: Values) -> Values:
    """The values of the first set that are not in the second, shape after shape."""
    numbers = left.numbers
    for n in taken.numbers:
        parts = (x.intersection(y) for x, y in product(numbers, n.complement()))
        numbers = _distinct(p for p in parts if not p.is_empty)
    strings = left.strings
    for s in taken.strings:
        parts = (x.intersection(y) for x, y in product(strings, s.complement()))
        strings = _distinct(p for p in parts if not p.is_empty)
    arrays = left.arrays
    for a in taken.arrays:
        arrays = _remaining(space, arrays, a, _both_arrays, _not_array)
    objects = left.objects
    for o in taken.objects:
        objects = _remaining(space, objects, o, _both_objects, _not_object)
    return Values(
        left.null and not taken.null,
        left.true and not taken.true,
        left.false and not taken.false,
        numbers,
        strings,
        arrays,
        objects,
    )


_ABSORB_UP_TO = 400
Shape = TypeVar("Shape", ArrayShape, ObjectShape)


def _remaining(
    space: Space,
    shapes: tuple[Shape, ...],
    taken: Shape,
    both: Callable[[Space, Shape, Shape], Shape | None],
    refusing: Callable[[Space, Shape], Iterable[Shape]],
) -> tuple[Shape, ...]:
    """What is left of the shapes without one: those that it does not meet stay as they are."""
    from agentrt.schema.algebra.emptiness import may_hold

    out: list[Shape] = []
    refused: list[Shape] | None = None
    for shape in shapes:
        spend()
        shared = both(space, shape, taken)
        if shared is None or not may_hold(space, shared):
            out.append(shape)
            continue
        refused = list(refusing(space, taken)) if refused is None else refused
        for part in refused:
            piece = both(space, shape, part)
            if piece is not None and may_hold(space, piece):
                out.append(piece)
    return _absorbed(space, out)


def _absorbed(space: Space, shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    """The shapes without those that plainly lie within another."""
    listed = _distinct(shapes)
    if len(listed) > _ABSORB_UP_TO:
        return listed
    kept: list[Shape] = []
    for i, shape in enumerate(listed):
        others = (o for j, o in enumerate(listed) if j != i)
        if not any(_within(space, shape, o) and (o in kept or o in listed[i:]) for o in others):
            kept.append(shape)
    return tuple(kept)


def _within(space: Space, small: ArrayShape | ObjectShape, big: ArrayShape | ObjectShape) -> bool:
    """Whether all that fits the one plainly fits the other (and not plainly the reverse)."""
    if not (big.lo <= small.lo and least(small.hi, big.hi) == small.hi):
        return False
    if isinstance(small, ObjectShape) and isinstance(big, ObjectShape):
        return (
            big.required <= small.required
            and big.implied <= small.implied
            and set(big.some) <= set(small.some)
            and _same_classes(space, small, big)
            and all(
                value is space.anything or small.value_of(name) is value
                for name, value in big.named
            )
        )
    assert isinstance(small, ArrayShape)
    assert isinstance(big, ArrayShape)
    length = max(len(small.prefix), len(big.prefix)) + 1
    return (
        small.unique >= big.unique
        and set(big.contains) <= set(small.contains)
        and all(big.item(i) in (space.anything, small.item(i)) for i in range(length))
    )


def _same_classes(space: Space, small: ObjectShape, big: ObjectShape) -> bool:
    if all(value is space.anything for _, value in big.rest):
        return True
    known = {name for name, _ in big.named}
    return small.rest == big.rest and all(
        name in known or small.class_of(name) is value for name, value in small.named
    )


def _not_array(space: Space, shape: ArrayShape) -> Iterable[ArrayShape]:
    anything = space.anything
    if shape.unique:
        raise SchemaError(
            current_pointer(),
            "arrays that do hold equal items cannot be asked for (the negation of uniqueItems)",
            "leave uniqueItems out of what is negated or told apart by oneOf",
        )
    if shape.lo > 0:
        yield ArrayShape((), anything, 0, shape.lo - 1)
    if shape.hi is not None:
        yield ArrayShape((), anything, shape.hi + 1)
    for i, item in enumerate(shape.prefix):
        wrong = space.negation(item)
        if wrong is not space.nothing:
            yield ArrayShape((anything,) * i + (wrong,), anything, i + 1)
    wrong = space.negation(shape.rest)
    start = len(shape.prefix)
    if wrong is not space.nothing and (shape.hi is None or shape.hi > start):
        yield ArrayShape((), anything, start + 1, None, (Contains(wrong, start),))
    for c in shape.contains:
        if c.lo > 0:
            yield ArrayShape((), anything, contains=(Contains(c.item, c.start, 0, c.lo - 1),))
        if c.hi is not None:
            yield ArrayShape((), anything, contains=(Contains(c.item, c.start, c.hi + 1),))


def _not_object(space: Space, shape: ObjectShape) -> Iterable[ObjectShape]:
    anything = space.anything
    whole: Classes = ((EVERY_STRING, anything),)
    known_values = dict(shape.named)
    for name in sorted(shape.required | known_values.keys()):
        wrong = space.negation(known_values.get(name, anything))
        # absent and wrong are one shape, where both are refused
        if name in shape.required or wrong is not space.nothing:
            yield ObjectShape(((name, wrong),), whole, frozenset({name}) - shape.required)
    known = Strings(of_words(name for name, _ in shape.named)).complement() if shape.named else []
    for names, value in shape.rest:
        wrong = space.negation(value)
        others = names.intersection(known[0]) if known else names
        if wrong is not space.nothing and not others.is_empty:
            yield ObjectShape((), whole, some=(Some(others, wrong),))
    if shape.lo > 0:
        yield ObjectShape((), whole, hi=shape.lo - 1)
    if shape.hi is not None:
        yield ObjectShape((), whole, lo=shape.hi + 1)
    for name, others in sorted(shape.implied, key=lambda pair: (pair[0], sorted(pair[1]))):
        for other in sorted(others):
            if other != name:
                yield ObjectShape(
                    ((name, anything), (other, space.nothing)), whole, frozenset({name})
                )
    for some in shape.some:
        refused = space.negation(some.value)
        classes = [(some.names, refused)]
        classes += [(rest, anything) for rest in some.names.complement()]
        yield ObjectShape((), tuple(classes))


def exactly_one(space: Space, parts: Sequence[Values]) -> Values:
    """The values in one part and no other: each part less what it shares with the others."""
    from agentrt.schema.algebra.emptiness import without_empty

    chosen: list[Values] = []
    for i, part in enumerate(parts):
        left = part
        for j, other in enumerate(parts):
            if i == j:
                continue
            spend()
            shared = without_empty(space, _both(space, left, other))
            if shared != Values():
                left = without_empty(space, difference(space, left, shared))
        chosen.append(without_empty(space, left) if left is not part else left)
    return union(chosen)
