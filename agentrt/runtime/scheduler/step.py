"""One step in the making: the rules by which slots and the token budget are given out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrt.runtime.request import Request, RequestStatus
from agentrt.runtime.scheduler.growth import Demand
from agentrt.runtime.scheduler.policy import CHOOSE

if TYPE_CHECKING:
    from agentrt.runtime.radix import RadixCache
    from agentrt.runtime.scheduler.decision import Work
    from agentrt.runtime.scheduler.growth import GrowthEstimate
    from agentrt.runtime.scheduler.ledger import SlotLedger
    from agentrt.runtime.scheduler.running import RunningSet
    from agentrt.runtime.scheduler.scheduler import SchedulerConfig
    from agentrt.runtime.scheduler.waiting import WaitingQueue


@dataclass(frozen=True, slots=True)
class Books:
    """Who waits, who runs, and what they hold: what one step hands on to the next."""

    config: SchedulerConfig
    cache: RadixCache
    ledger: SlotLedger
    waiting: WaitingQueue
    running: RunningSet
    growth: GrowthEstimate
    blocked: dict[Request, None] = field(default_factory=dict[Request, None])
    """Waiting requests that pins leave no room for; their deadline ends it if no unpin does."""

    def wait(self, request: Request, *, at_front: bool = False) -> None:
        """Enters a request that holds nothing."""
        tokens = request.tokens(0, request.match_limit)
        match = self.cache.match(tokens, namespace=request.namespace)
        request.status = RequestStatus.WAITING
        self.waiting.add(request, match.length, at_front=at_front)

    def leave(self, request: Request, *, cache_tail: bool) -> None:
        """Ends a request, wherever it is."""
        if request in self.blocked:
            del self.blocked[request]
        elif request.status is RequestStatus.WAITING:
            self.waiting.remove(request)
        elif request.status is RequestStatus.RUNNING:
            self.running.remove(request)
            self.ledger.close(request, cache_tail=cache_tail)
        request.status = RequestStatus.FINISHED

    def block(self, request: Request) -> None:
        """Takes a waiting request out of the others' way until something is unpinned."""
        self.waiting.remove(request)
        self.blocked[request] = None

    def unblock(self) -> None:
        """Lets the blocked wait for their turn again, as they did before."""
        for request in self.blocked:
            self.wait(request, at_front=request.retractions > 0)
        self.blocked.clear()

    def keep(self, request: Request, length: int) -> None:
        """Leaves a running request the KV of its first `length` tokens."""
        self.ledger.keep(request, length)
        self.running.forget_arrangement()


@dataclass(slots=True)
class Step:
    """Builds one step. `budget` counts down the tokens that may still be computed.

    Where prompts are pinned the pool can be too small even for a request that has it to itself.
    Whoever pinned them may be waiting for this very request, so it fails at once, unless it has a
    deadline: then it stands aside, and the deadline is the longest that anybody waits for anybody.
    """

    books: Books
    budget: int
    work: list[Work] = field(default_factory=list["Work"])
    retracted: list[Request] = field(default_factory=list[Request])
    starved: list[Request] = field(default_factory=list[Request])
    _demand: Demand | None = None  # of the running; not counted yet

    def build(self) -> None:
        """Fills `work`; it stays empty only when nobody is left that there is room for."""
        while True:
            self._decode()
            self._prefill()
            if self.work or not self._make_room():
                return

    def _decode(self) -> None:
        """One token for each request whose prompt is computed, or as many as were jumped over."""
        running, ledger = self.books.running, self.books.ledger
        decoding = self._decoding()
        while len(decoding) > ledger.available and len(running) > 1:
            self._retract()
            decoding = self._decoding()
        room = min(self.budget, ledger.available)
        if not decoding or len(decoding) > room:
            return
        spare = room - len(decoding)
        wanted: list[tuple[Request, int]] = []
        for request in decoding:
            more = min(request.remaining - 1, spare)
            spare -= more
            wanted.append((request, 1 + more))
        self._add(wanted)

    def _decoding(self) -> list[Request]:
        decoding = [r for r in self.books.running if r.computed >= r.prompt_len]
        cut = [r for r in decoding if not r.remaining]
        for request in cut:
            # Nothing was appended: the logits after its last token are wanted again.
            self.books.keep(request, request.target - 1)
        return [r for r in decoding if r.computed >= r.prompt_len] if cut else decoding

    def _prefill(self) -> None:
        """What is left of the budget, to prompts: those begun go first among equals."""
        begun = [r for r in self.books.running if r.computed < r.prompt_len]
        for request in sorted(begun, key=lambda r: -r.priority):
            self._admit(above=request.priority)
            self._extend(request)
        self._admit()

    def _extend(self, request: Request) -> None:
        if self.budget > 0:
            before = request.computed
            self.books.ledger.look_ahead(request)
            n = min(request.remaining, self.budget, self.books.ledger.available)
            if n > 0:
                self._add([(request, n)])
            if self._demand is not None:
                self._demand.missing -= request.computed - before

    def _add(self, wanted: list[tuple[Request, int]]) -> None:
        self.work += self.books.ledger.take(wanted)
        self.budget -= sum(n for _, n in wanted)

    def _admit(self, *, above: int | None = None) -> None:
        """Lets waiting requests in while there is budget and room for what they may grow to."""
        config, running, waiting = self.books.config, self.books.running, self.books.waiting
        choose = CHOOSE[config.policy]
        while waiting and self.budget > 0 and len(running) < config.most_running:
            if running and self._is_full():
                return
            request = waiting.choose(choose, above=above)
            if request is None or not self._try(request):
                return

    def _is_full(self) -> bool:
        """Whether it is clear without a look at the queue that nobody can be let in."""
        return self._running_demand().peak() >= self.books.ledger.available

    def _try(self, request: Request) -> bool:
        """Admits a request, fails it, sets it aside or corrects its place in the queue.

        False: it has to wait for those that run.
        """
        cache, ledger, running = self.books.cache, self.books.ledger, self.books.running
        tokens = request.tokens(0, request.match_limit)
        match = cache.match(tokens, namespace=request.namespace)
        if self.books.waiting.lower(request, match.length):
            return True
        missing = request.target - match.length
        if running:
            need = self._running_demand().peak_with(request, missing)
        else:
            need = missing + max(0, request.output_left - 1)  # with the pool to itself, all of it
        # Estimate, lock, check again: what is locked can no longer be evicted.
        if running and need > ledger.available:
            return False
        with cache.locked(match) as hold:
            has_room = need <= ledger.available
            if has_room:
                ledger.open(request, match, hold.keep())
        if has_room:
            self._start(request)
        elif running:
            return False
        elif request.deadline is None:
            self._starve(request)
        else:
            self.books.block(request)
        return True

    def _start(self, request: Request) -> None:
        if self._demand is not None:
            self._demand.add(request)
        self.books.waiting.admit(request)
        request.status = RequestStatus.RUNNING
        self.books.running.add(request)
        self._extend(request)

    def _running_demand(self) -> Demand:
        if self._demand is None:
            self._demand = Demand(self.books.growth, list(self.books.running))
        return self._demand

    def _make_room(self) -> bool:
        """When nobody could be given a slot: one leaves for the others. False if nobody runs."""
        running = list(self.books.running)
        self._demand = None
        if len(running) == 1 and running[0].deadline is None:
            self._starve(running[0])
        elif running:
            self._retract()
        return bool(running)

    def _retract(self) -> None:
        """Sends the least loss back to wait: lowest priority, then the shortest output.

        The longest output of the highest priority is never sent back while others run, so however
        small the pool, somebody finishes.
        """
        victim = min(
            self.books.running,
            key=lambda r: (r.priority, r.output_len, -r.prompt_len, -r.arrival),
        )
        self.books.running.remove(victim)
        self.books.ledger.close(victim, cache_tail=True)
        victim.retractions += 1
        self.books.growth.retracted()
        self.books.wait(victim, at_front=True)
        self.retracted.append(victim)

    def _starve(self, request: Request) -> None:
        self.books.leave(request, cache_tail=False)
        self.starved.append(request)
