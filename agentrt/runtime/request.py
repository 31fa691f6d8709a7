"""One request as the scheduler sees it: its tokens, what it asks for, and what KV it holds."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from agentrt.errors import InvalidRequest

if TYPE_CHECKING:
    from agentrt.generation import SamplingParams
    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.radix import Node


class RequestStatus(StrEnum):
    """Where a request is. Retraction takes it from running back to waiting."""

    NEW = "new"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


_NO_SLOTS = np.zeros(0, dtype=np.int32)


@dataclass(slots=True, eq=False, kw_only=True, repr=False)
class Request:
    """A prompt, the output so far, and the KV slots of both.

    `token_ids` is prompt then output, the last `guessed` tokens of it being only supposed to come.
    Whoever runs the engine appends to it, and only `Scheduler.truncate` takes tokens away. Who owns
    the slots, while it runs:

        token_ids   [0 .... tree_len) [tree_len .... computed) [computed .... len)
        slots        tree, locked by   this request: its tail   none yet
                     `node`

    Output is in its tail until it finishes or is retracted; only what it was re-admitted on can be
    output in the tree. Waiting and finished requests hold nothing.

    With `score_from` the request asks how likely what comes at that index is, and what comes after:
    rows from score_from - 1 are computed even where cached.
    """

    id: int
    token_ids: list[int]
    params: SamplingParams
    max_tokens: int
    priority: int = 0
    """Higher goes first among the waiting, strictly."""
    deadline: float | None = None
    """Seconds, on the clock that `Scheduler.schedule` is given."""
    namespace: str = ""
    score_from: int | None = None
    guessed: int = field(default=0, init=False)

    prompt_len: int = field(init=False)
    status: RequestStatus = field(default=RequestStatus.NEW, init=False)
    arrival: int = field(default=-1, init=False)
    """Counts requests in the order they were added."""
    epoch: int = field(default=-1, init=False)
    """Counts the schedule calls before it was added: those of one epoch arrived together."""
    passed_over: int = field(default=0, init=False)
    """How many requests of a later epoch and no higher priority were admitted ahead of it."""
    cached_tokens: int = field(default=0, init=False)
    """Prompt tokens it did not have to compute, up to its first retraction."""
    retractions: int = field(default=0, init=False)

    node: Node | None = field(default=None, init=False)
    tree_len: int = field(default=0, init=False)
    computed: int = field(default=0, init=False)
    slots: Int32Array = field(default_factory=lambda: _NO_SLOTS, init=False)
    """int32, at least `computed` long; a table with room to grow."""

    # The first of token_ids, as many as were there when they were last asked for.
    _packed: array[int] = field(default_factory=lambda: array("i"), init=False)

    def __post_init__(self) -> None:
        self.prompt_len = len(self.token_ids)
        if not self.token_ids:
            raise InvalidRequest("a request needs at least one token")
        if self.score_from is not None and not 1 <= self.score_from <= self.prompt_len:
            raise InvalidRequest(
                f"score_from is {self.score_from}: of {self.prompt_len} tokens, those at "
                f"1 to {self.prompt_len} have a distribution to be scored by"
            )

    @property
    def output_len(self) -> int:
        return len(self.token_ids) - self.prompt_len

    @property
    def output_left(self) -> int:
        """The most output tokens that may still come."""
        return max(0, self.max_tokens - self.output_len)

    @property
    def target(self) -> int:
        """How many tokens have to be computed before a token can be sampled or scores read."""
        return len(self.token_ids)

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return len(self.token_ids) - self.computed

    @property
    def match_limit(self) -> int:
        """Most tokens a cache may save: what comes after must be computed for its logits."""
        if self.score_from is not None:
            return self.score_from - 1
        return len(self.token_ids) - self.guessed - 1

    @property
    def tail(self) -> Int32Array:
        """The slots this request owns, int32 [computed - tree_len], a view."""
        return self.slots[self.tree_len : self.computed]

    def tokens(self, start: int, stop: int) -> Int32Array:
        """token_ids[start:stop], int32, a copy."""
        return np.frombuffer(self.packed()[start:stop], np.int32)

    def packed(self) -> array[int]:
        """All of token_ids as C ints, to be read: cheaper to look into than numpy's arrays."""
        self._packed.extend(self.token_ids[len(self._packed) :])
        return self._packed

    def write_slots(self, start: int, slots: Int32Array) -> None:
        """Enters the slots of the tokens from `start` on, growing the table."""
        if len(slots) == 1 and start < len(self.slots):  # a decode; most calls are
            self.slots[start] = slots[0]
        else:
            self.slots = _written(self.slots, start, slots)

    def drop_tokens(self, length: int) -> None:
        """Cuts token_ids to `length`; what KV it holds is for the scheduler to cut first."""
        del self.token_ids[length:], self._packed[length:]

    def __repr__(self) -> str:
        return (
            f"<Request {self.id} {self.status}: {self.prompt_len} + {self.output_len} tokens, "
            f"{self.computed} computed, {self.tree_len} of them in the tree>"
        )


def _written(table: Int32Array, start: int, values: Int32Array) -> Int32Array:
    """The table with `values` at `start`, in place while they fit and twice the size if not."""
    stop = start + len(values)
    if stop > len(table):
        grown = np.zeros(max(64, 2 * stop), dtype=np.int32)
        grown[:start] = table[:start]
        table = grown
    table[start:stop] = values
    return table
