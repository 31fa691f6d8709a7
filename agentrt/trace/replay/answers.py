"""Answers by what is asked; and where there is none, what differs from the record."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from agentrt.errors import ReplayDrift

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentrt.trace.replay.record import Record, Recorded, RecordedTool

_SHOWN = 60


class Answers:
    """Gives each recorded answer once, equal requests in the order they were recorded.

    `drifts` keeps every drift, also those that the program caught. Threads may ask at once.
    """

    def __init__(self, record: Record, spell: Callable[[Sequence[int]], str]) -> None:
        self._record = record
        self._spell = spell
        self._guard = threading.Lock()
        self._left: dict[str, deque[Recorded]] = defaultdict(deque)
        self._tools_left: dict[tuple[str, str], deque[RecordedTool]] = defaultdict(deque)
        for each in record.answers:
            self._left[_key(each.prompt, each.asked)].append(each)
        for call in record.tools:
            self._tools_left[call.name, _same(call.arguments)].append(call)
        self.drifts: list[ReplayDrift] = []
        self.answered = 0
        self.tools_answered = 0

    @property
    def unasked(self) -> list[Recorded]:
        """Recorded generations and selections that nobody has asked for, in recorded order."""
        left = [each for queue in self._left.values() for each in queue]
        return sorted(left, key=lambda each: each.span_id)

    def take(self, prompt: Sequence[int], asked: Mapping[str, Any]) -> Recorded:
        """The answer to a request. Raises ReplayDrift where the record has none left."""
        with self._guard:
            queue = self._left.get(_key(prompt, asked))
            if queue:
                self.answered += 1
                return queue.popleft()
            drift = self._drift(prompt, asked)
            self.drifts.append(drift)
        raise drift

    def refused(self, prompt: Sequence[int], asked: Mapping[str, Any]) -> None:
        """A request was refused before it was asked; where it was recorded, it was then as well."""
        with self._guard:
            queue = self._left.get(_key(prompt, asked))
            if queue:
                queue.popleft()

    def take_tool(self, name: str, arguments: str) -> str | None:
        """What a tool gave. Raises what it raised, and ReplayDrift for a call not in the record."""
        with self._guard:
            queue = self._tools_left.get((name, _same(arguments)))
            if queue:
                self.tools_answered += 1
                call = queue.popleft()
            else:
                drift = self._tool_drift(name, arguments)
                self.drifts.append(drift)
                raise drift
        if call.error is not None:
            raise call.error
        return call.text

    def _drift(self, prompt: Sequence[int], asked: Mapping[str, Any]) -> ReplayDrift:
        unasked = {each.span_id for each in self.unasked}

        def nearness(each: Recorded) -> tuple[int, int, bool]:
            shared = sum(each.asked.get(key) == value for key, value in asked.items())
            return _common(each.prompt, prompt), shared, each.span_id in unasked

        if not self._record.answers:
            return ReplayDrift("the record has no generation, and one was asked for")
        nearest = max(self._record.answers, key=nearness)
        index = _common(nearest.prompt, prompt)
        where = f"span {nearest.span_id} (in {nearest.place})"
        text = self._spell(nearest.prompt)
        if len(nearest.prompt) == len(prompt) == index:
            if nearest.asked == asked:
                message = f"{where} was asked as often as it was recorded, and is asked once more"
            else:
                message = f"the prompt of {where} is asked with {_changes(nearest.asked, asked)}"
            return ReplayDrift(message, span_id=nearest.span_id, nearest=text)
        recorded, given = self._token(nearest.prompt, index), self._token(prompt, index)
        before = self._spell(nearest.prompt[:index])[-_SHOWN:]
        return ReplayDrift(
            f"a prompt is not in the record; the nearest is that of {where}, and token {index} is "
            f"{_shown(given)} where {_shown(recorded)} was recorded, after {before!r}",
            span_id=nearest.span_id,
            nearest=text,
            index=index,
            recorded=recorded,
            asked=given,
        )

    def _tool_drift(self, name: str, arguments: str) -> ReplayDrift:
        of_name = [call for call in self._record.tools if call.name == name]
        if not of_name:
            return ReplayDrift(
                f"the tool {name}({arguments}) is called; it never was in the record"
            )
        waiting = [call for call in of_name if self._tools_left[name, _same(call.arguments)]]
        nearest = (waiting or of_name)[0]
        return ReplayDrift(
            f"the tool {name}({arguments}) is called; the record has {name}({nearest.arguments}) "
            f"(span {nearest.span_id})",
            span_id=nearest.span_id,
            recorded=nearest.arguments,
            asked=arguments,
        )

    def _token(self, ids: Sequence[int], index: int) -> str | None:
        return self._spell(ids[index : index + 1]) if index < len(ids) else None


def _key(prompt: Sequence[int], asked: Mapping[str, Any]) -> str:
    return json.dumps([list(prompt), asked], sort_keys=True)


def _same(arguments: str) -> str:
    """Arguments in one form, whatever the order of their names."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return min(len(a), len(b))


def _changes(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    changed = sorted(k for k in {*recorded, *asked} if recorded.get(k) != asked.get(k))
    return ", ".join(
        f"{key.rpartition('.')[2]} {asked.get(key)!r} in place of {recorded.get(key)!r}"
        for key in changed
    )


def _shown(token: str | None) -> str:
    return "its end" if token is None else repr(token)
