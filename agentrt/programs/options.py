"""Options of a generation, told apart; those that make no sense are refused where they are given,
also as the defaults of a program, and not by the first generation that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from agentrt.generation import SamplingOptions
from agentrt.programs.arguments import check_count, check_name
from agentrt.runtime.checks import check_call, make_params

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentrt.generation import SamplingParams


class How(TypedDict, total=False):
    """Options of a generation that say nothing of how its tokens are chosen."""

    repairs: int
    priority: int
    timeout: float
    namespace: str


class GenOptions(SamplingOptions, How, total=False):
    """Keywords of `gen` and `stream`: the sampling options, and how to go about it.

    `name` keeps the result under that name. `repairs` is how many fields that a validator refuses
    are asked for again. `priority`, `timeout` (seconds) and `namespace` are as for
    `Runtime.generate`.
    """

    name: str


_GEN = ("regex", "choices", "check", "retries", "name", *How.__annotations__)


def read_options(
    given: Mapping[str, Any], *beside: str
) -> tuple[str | None, SamplingParams, dict[str, Any]]:
    """The name for the result, the sampling parameters, and the rest, as `How` has it.

    `beside` are other keywords of the call that these came with. Raises InvalidRequest.
    """
    sampling = dict(given)
    name = sampling.pop("name", None)
    if name is not None:
        check_name("name", name)
    how = {key: sampling.pop(key) for key in How.__annotations__ if key in sampling}
    params = make_params(*_GEN, *beside, **sampling)
    check_count("repairs", how.get("repairs", 0))
    check_call(
        priority=how.get("priority", 0),
        timeout=how.get("timeout"),
        namespace=how.get("namespace", ""),
        constraint=None,
    )
    return name, params, how
