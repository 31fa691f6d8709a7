"""What a caller asks of the runtime, checked and complete, before it becomes a job."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentrt.errors import InvalidRequest
from agentrt.generation import SamplingParams
from agentrt.runtime.checks import check_call, make_params

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrt.matching import Constraint


_BESIDE = ("constraint", "priority", "timeout", "namespace")  # what calls take beside sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """How one request is to be served; the prompt comes beside it.

    `score_from` asks for the log-probabilities of the prompt's tokens from that index on or, where
    `targets` are given, of each of `targets[i]` at index `score_from` + i, in that order. `pin`
    keeps the prompt in the cache after the request has ended. `seed` is resolved: a request that
    samples and names no seed has drawn one.
    """

    params: SamplingParams
    seed: int
    constraint: Constraint | None = None
    score_from: int | None = None
    targets: tuple[tuple[int, ...], ...] | None = None
    priority: int = 0
    timeout: float | None = None
    namespace: str = ""
    streaming: bool = False
    pin: bool = False

    @classmethod
    def make(
        cls, params: SamplingParams | None, sampling: Mapping[str, Any], **how: Any
    ) -> Submission:
        """Raises InvalidRequest for options that make no sense or are given twice.

        All of them are looked at here, on the caller's side: what the engine's thread trips over
        would stop it for everybody.
        """
        if not isinstance(params, SamplingParams | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRequest(
                f"params is a {type(params).__name__}; give a SamplingParams, or its fields as "
                "keywords"
            )
        if params is not None and sampling:
            given = ", ".join(sampling)
            raise InvalidRequest(
                f"both params and {given} were given; put {given} into the SamplingParams, or use "
                "keywords alone"
            )
        chosen = params if params is not None else make_params(*_BESIDE, **sampling)
        seed = chosen.seed if chosen.seed is not None else secrets.randbits(63)
        submission = cls(params=chosen, seed=seed, **how)
        check_call(
            priority=submission.priority,
            timeout=submission.timeout,
            namespace=submission.namespace,
            constraint=submission.constraint,
        )
        return submission

    def numbered(self, index: int) -> Submission:
        """The `index`-th of several generations of one prompt: its own random stream."""
        return replace(self, seed=(self.seed + index) % 2**63)

    def scoring(self, first: int, targets: tuple[tuple[int, ...], ...]) -> Submission:
        """The same request asking how likely `targets` are from prompt token `first` on."""
        return replace(self, score_from=first, targets=targets)
