"""A compiled schema, regex or choice, over one vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from agentrt.errors import SchemaTooLarge
from agentrt.schema.flat.view import flat_regex
from agentrt.schema.machine.shortest import LONGEST
from agentrt.schema.matcher import GrammarMatcher
from agentrt.schema.statistics import GrammarStats, statistics
from agentrt.schema.tokens.bits import set_bits
from agentrt.schema.tokens.budget import Budget
from agentrt.schema.tokens.costs import TOO_DEAR
from agentrt.schema.tokens.jump import Jumps
from agentrt.schema.tokens.leaves import Leaves
from agentrt.schema.tokens.masks import Masks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agentrt.schema.compile import Source
    from agentrt.schema.machine.machine import Machine
    from agentrt.schema.tokens.vocabulary import Vocabulary


_leaves: dict[str, Leaves] = {}


def leaves_of(vocabulary: Vocabulary) -> Leaves:
    """The masks inside strings of a vocabulary: shared by all its grammars."""
    found = _leaves.get(vocabulary.fingerprint)
    if found is None:
        if len(_leaves) >= 4:
            _leaves.clear()
        found = _leaves[vocabulary.fingerprint] = Leaves(vocabulary)
    return found


@dataclass(frozen=True)
class Engine:
    """What a grammar's matchers work with; all of it caches, and is shared by them."""

    machine: Machine
    vocabulary: Vocabulary

    @cached_property
    def masks(self) -> Masks:
        return Masks(self.machine, self.vocabulary, leaves_of(self.vocabulary))

    @cached_property
    def budget(self) -> Budget:
        return Budget(self.machine, self.vocabulary, self.masks)

    @cached_property
    def jumps(self) -> Jumps:
        return Jumps(self.machine, self.vocabulary)

    @cached_property
    def end_mask(self) -> np.ndarray:
        mask = np.zeros(self.vocabulary.words, dtype=np.uint32)
        set_bits(mask, [*self.vocabulary.eos_ids])
        return mask


class Grammar:
    """Makes matchers (the protocol is `agentrt.matching.Constraint`). Safe to share and to pickle.

    `source` is what it was compiled from; `jumps` is whether its matchers tell ahead the tokens of
    text that can only be one thing.
    """

    def __init__(
        self,
        source: Source,
        machine: Machine,
        vocabulary: Vocabulary | None,
        *,
        jumps: bool = True,
    ) -> None:
        self.source = source
        self.jumps = jumps
        self._machine = machine
        self.vocabulary = vocabulary

    def __repr__(self) -> str:
        return f"<Grammar of {self.source.kind}>"

    def __reduce__(self) -> tuple[Any, ...]:
        from agentrt.schema.compile import rebuilt

        return rebuilt, (self.source, self.vocabulary, self.jumps)

    @cached_property
    def engine(self) -> Engine:
        if self.vocabulary is None:
            raise ValueError("this grammar was compiled without a vocabulary: it only matches text")
        return Engine(self._machine, self.vocabulary)

    def matches(self, text: bytes | str) -> bool:
        """Whether a whole text matches."""
        raw = text.encode() if isinstance(text, str) else text
        reached = self._machine.run(self._machine.start, raw)
        return reached is not None and self._machine.may_end(reached)

    def accepts_prefix(self, text: bytes | str) -> bool:
        """Whether a text can be continued to one that matches."""
        raw = text.encode() if isinstance(text, str) else text
        return self._machine.run(self._machine.start, raw) is not None

    @property
    def min_tokens(self) -> int:
        """The fewest tokens that a match was found to take, the end token not counted.

        Raises SchemaTooLarge where the shortest that was found is longer than any model writes.
        """
        return self._min_tokens

    @cached_property
    def _min_tokens(self) -> int:
        found = self.engine.budget.cost(self._machine.start)
        if found >= TOO_DEAR:
            raise SchemaTooLarge(
                "",
                f"no value was found that takes at most {LONGEST} bytes",
                "lower its minLength, minItems or minProperties, or require less",
            )
        return found

    def regex(self, *, most: int = 20_000) -> str:
        """One regex of Python's `re` that `re.fullmatch` takes the same texts by, for people.

        At most `most` characters. Raises SchemaError, with pointer and reason, for what is not flat
        or not small.
        """
        return flat_regex(self.source, self._machine, most)

    def statistics(self) -> GrammarStats:
        """Its figures as it stands: sizes, the shortest text, how much of that is forced."""
        return statistics(self)

    def matcher(self, *, jump: bool | None = None) -> GrammarMatcher:
        """A fresh matcher at the start of the text; `jump` is the grammar's `jumps` by default."""
        self._machine.trim()
        return GrammarMatcher(self, jump=self.jumps if jump is None else jump)

    def without_jumps(self) -> Grammar:
        """The same grammar, every token of whose texts the model chooses, under a mask."""
        if not self.jumps:
            return self
        other = Grammar(self.source, self._machine, self.vocabulary, jumps=False)
        if self.vocabulary is not None:
            other.engine = self.engine  # what both work out is the same
        return other


def fill_masks(
    matchers: Sequence[GrammarMatcher], out: np.ndarray, tokens_left: Iterable[int | None]
) -> None:
    """Writes the masks of a batch into `out` [batch, words], uint32."""
    for row, (matcher, left) in enumerate(zip(matchers, tokens_left, strict=True)):
        out[row] = matcher.next(left).mask
