"""What running requests hold: the one place where slots and locks change hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import IntegrityError
from agentrt.runtime.scheduler.decision import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.runtime.batch import Int32Array
    from agentrt.runtime.pool import SlotPool
    from agentrt.runtime.radix import Match, Node, RadixCache
    from agentrt.runtime.request import Request


class SlotLedger:
    """Moves slots between the pool, the tree and the requests.

    `grew(request, before, now)` is called when the cache, which had the first `before` tokens of a
    request, has come to have the first `now`.
    """

    def __init__(
        self, cache: RadixCache, pool: SlotPool, *, grew: Callable[[Request, int, int], None]
    ) -> None:
        self._cache = cache
        self._pool = pool
        self._grew = grew

    @property
    def available(self) -> int:
        """Slots that can be had: free ones, and cached ones that nobody stands on."""
        return self._pool.num_free + self._cache.evictable

    def open(self, request: Request, match: Match, node: Node) -> None:
        """Starts a request on a match it has locked.

        token_ids   [0 ......... match) [match ......... len)
        slots        tree, our lock      none yet
        """
        request.node = node
        self._take_over(request, 0, match)

    def look_ahead(self, request: Request) -> None:
        """Takes over what another request has put in the tree meanwhile.

        before   [0 ... tree_len = computed) [.... found ....) [......... len)
        slots     tree, our lock              tree              none yet
        after     tree, our lock .......................        none yet
        """
        start, stop = request.computed, request.match_limit
        if start >= stop or request.tree_len < start:
            return
        node = _node_of(request)
        match = self._cache.match_from(node, request.tokens(start, stop))
        if match.length:
            request.node = self._cache.advance(node, match)
            self._take_over(request, start, match)

    def take(self, wanted: Sequence[tuple[Request, int]]) -> list[Work]:
        """Gives each request slots for its next n tokens, evicting if need be.

        Prompt tokens go to the tree at once, before their KV is written: whoever reads them does so
        in the same step or a later one, and within a step every layer writes before it attends.
        """
        slots = self._allocate(sum([n for _, n in wanted]))
        work: list[Work] = []
        given = 0
        for request, n in wanted:
            start = request.computed
            request.write_slots(start, slots[given : given + n])
            request.computed = start + n
            given += n
            work.append(Work(request, start, start + n))
            if start < request.prompt_len:
                self._share(request)
        return work

    def keep(self, request: Request, length: int) -> None:
        """Gives back the KV of all but the first `length` tokens.

        before   [0 ........ tree_len) [tree_len ...... computed)
        slots     tree, our lock        request
        after     tree, our lock | tree | request | pool      cut at `length`
        """
        if length >= request.computed:
            return
        kept = max(length, request.tree_len)
        self._pool.free(request.slots[kept : request.computed])
        if length < request.tree_len:
            # The new lock first: between the two nothing could hold the prefix.
            tokens, old = request.tokens(0, length), _node_of(request)
            match = self._cache.match(tokens, namespace=request.namespace)
            request.node = self._cache.acquire(match)
            self._cache.release(old)
            request.tree_len = length
        request.computed = length

    def close(self, request: Request, *, cache_tail: bool) -> None:
        """Ends what a request holds; its tail goes to the tree, or back to the pool.

        before   [0 ... tree_len) [tree_len ... known) [known ... computed)
        slots     tree, our lock   request              request
        after     tree             pool: the tree had   tree, or pool without `cache_tail`
        """
        node, start, stop = _node_of(request), request.tree_len, request.computed
        unused = request.tail
        if cache_tail and start < stop:
            node, unused = self._cache.extend(node, request.tokens(start, stop), request.tail)
            self._grew(request, start, stop)
        self._pool.free(unused)
        self._cache.release(node)
        request.node = None
        request.tree_len = request.computed = 0

    def _take_over(self, request: Request, start: int, match: Match) -> None:
        stop = start + match.length
        request.write_slots(start, match.slots)
        request.tree_len = request.computed = stop
        if not request.retractions:
            request.cached_tokens += max(0, min(stop, request.prompt_len) - start)

    def _share(self, request: Request) -> None:
        """Hands the prompt tokens of the tail to the tree, unless the tree has them.

        before   [0 ... tree_len) [tree_len ...... stop) [stop ... computed)
        slots     tree, our lock   request                request
        after     tree, our lock ......................   request

        The tree has them where a match was not allowed to save them (the last token, tokens to
        be scored): then all of it stays a duplicate in the tail, which has to be in one piece.
        """
        start, stop = request.tree_len, min(request.computed, request.prompt_len)
        node = _node_of(request)
        if start >= stop or self._cache.match_from(node, request.tokens(start, start + 1)).length:
            return
        request.node, duplicates = self._cache.extend(
            node, request.tokens(start, stop), request.slots[start:stop]
        )
        if duplicates.size:
            raise IntegrityError(f"{duplicates.size} tokens of {request!r} were in the tree")
        request.tree_len = stop
        self._grew(request, start, stop)

    def _allocate(self, n: int) -> Int32Array:
        short = n - self._pool.num_free
        if short > 0:
            self._cache.evict(short)
        slots = self._pool.alloc(n)
        if slots is None:
            raise IntegrityError(f"{n} slots were counted on and {self.available} could be had")
        return slots


def _node_of(request: Request) -> Node:
    if request.node is None:
        raise IntegrityError(f"{request!r} holds nothing")
    return request.node
