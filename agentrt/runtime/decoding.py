"""The tokens of one request's output, from what may come next to what was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.errors import AgentrtError, GenerationFailed, InvalidRequest
from agentrt.generation import FinishReason, TokenKind
from agentrt.matching import Forced
from agentrt.runtime.batch import SampleRow
from agentrt.runtime.choices import Choice, choices_from, free_choices
from agentrt.runtime.constraining import check_forced
from agentrt.runtime.lookup import Lookup
from agentrt.runtime.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentrt.matching import Matcher
    from agentrt.runtime.batch import ModelSpec, Sampled
    from agentrt.runtime.output import Output
    from agentrt.runtime.submission import Submission

    Truncate = Callable[[Request, int], None]


class Decoding:
    """Keeps a request, its output and its constraint's matcher in step.

        token_ids   [0 ... prompt_len) [... written) [... len)
                     prompt             output        guesses

    The token at `written` is the next to be chosen, from the row before it. The matcher has
    accepted the output. Raises, here and later, an AgentrtError for what the constraint does wrong.
    """

    def __init__(
        self, request: Request, submission: Submission, *, output: Output, spec: ModelSpec
    ) -> None:
        self._request = request
        self._submission = submission
        self._output = output
        self._spec = spec
        self._matcher = _matcher(submission, output.max_tokens)
        self._choices: list[Choice] = []
        self._lookup = Lookup()
        self._row_price = 1.0  # unknown before the first step
        try:
            self._advance(Request.drop_tokens)  # nothing is computed yet
        except Exception as error:
            raise _constraint_failed(error) from error

    def sample_rows(self, start: int, end: int, first: int) -> list[SampleRow]:
        """What to choose, the tokens [start, end) being computed in flat rows from `first` on."""
        request, params = self._request, self._submission.params
        tokens, prompt_len = request.token_ids, request.prompt_len
        written = len(tokens) - request.guessed
        if end < written:
            return []
        prompt = tokens[:prompt_len] if params.repetition_penalty != 1.0 else ()
        return [
            SampleRow(
                first + position - 1 - start,
                params,
                self._submission.seed,
                position,
                choice.mask,
                tokens[prompt_len:position],
                prompt,
                self._banned(position - prompt_len) if params.min_tokens else (),
            )
            for position, choice in zip(range(written, end + 1), self._choices, strict=False)
        ]

    def _banned(self, written: int) -> Sequence[int]:
        params = self._submission.params
        if written >= params.min_tokens:
            return ()
        ends = () if params.ignore_eos else self._spec.eos_token_ids
        return (*ends, *params.stop_token_ids)

    def take(self, sampled: Sequence[Sampled], truncate: Truncate, row_price: float) -> None:
        """Takes the chosen tokens in, as far as they follow one another, and what is certain next.

        `truncate` cuts the request's tokens and their KV to a length; `row_price` is what a guess
        costs (`price_of_a_row`).
        """
        self._row_price = row_price
        try:
            for choice in sampled:
                if not self._take(choice, truncate):
                    break
            if not self._choices:
                self._advance(truncate)
        except BaseException as error:  # on the engine's thread: none of it comes from outside
            raise _constraint_failed(error) from error

    def _take(self, sampled: Sampled, truncate: Truncate) -> bool:
        """Takes one chosen token in; whether what was guessed to follow it still may."""
        if sampled.error is not None:
            raise GenerationFailed(
                f"no token could be chosen at output position {len(self._output)}: {sampled.error}"
            )
        choice = self._choices.pop(0)
        if self._matcher is not None:
            self._matcher.accept(sampled.token_id)
        came_true = sampled.token_id == choice.guess
        if came_true:
            self._request.guessed -= 1
        else:
            if self._choices:
                self._drop_guesses(truncate)
            self._request.token_ids.append(sampled.token_id)
        if came_true and choice.forced:
            self._output.push(sampled.token_id, TokenKind.FORCED)
        else:
            self._output.push(sampled.token_id, TokenKind.SAMPLED, sampled.logprob, sampled.top)
        if choice.guess is not None and not choice.forced:
            self._learn(came_true)
        if self._output.finish_reason is not None:
            self._drop_guesses(truncate)
        return bool(self._choices)

    def _drop_guesses(self, truncate: Truncate) -> None:
        self._choices.clear()
        guessed, self._request.guessed = self._request.guessed, 0
        if guessed:
            truncate(self._request, len(self._request.token_ids) - guessed)

    def _learn(self, came_true: bool) -> None:
        """What became of a draft's token says how far the next draft may reach."""
        if not came_true:
            self._lookup.went_wrong()
        elif self._choices[0].guess is None:
            self._lookup.came_true()

    def _draft(self, most: int) -> list[int]:
        return self._lookup.draft(self._request.packed, self._row_price, most)

    def _advance(self, truncate: Truncate) -> None:
        """Writes what is certain, up to where the model has a choice again, and guesses on."""
        forced = 0
        while self._output.finish_reason is None and (left := self._output.tokens_left):
            if self._matcher is None:
                self._guess(free_choices(self._draft, left))
                return
            if self._matcher.is_finished:
                self._output.end(FinishReason.STOP)
                return
            step = self._matcher.next(left)
            if not isinstance(step, Forced):
                self._guess(
                    choices_from(
                        self._matcher,
                        step,
                        self._draft,
                        tokens_left=left,
                        vocab_size=self._spec.vocab_size,
                    )
                )
                return
            forced += 1
            if forced > 2 * self._output.max_tokens:
                raise GenerationFailed(
                    f"the constraint forced {forced} times in a row and the output did not grow"
                )
            self._force(step, truncate)

    def _guess(self, choices: list[Choice]) -> None:
        self._choices = choices
        if len(choices) > 1:
            guesses = [choice.guess for choice in choices if choice.guess is not None]
            self._request.token_ids += guesses
            self._request.guessed = len(guesses)

    def _force(self, step: Forced, truncate: Truncate) -> None:
        assert self._matcher is not None
        check_forced(step, len(self._output), self._spec.vocab_size)
        told = self._output.text if step.rollback else ""
        if step.rollback:
            self._matcher.rollback(step.rollback)
            self._output.drop(step.rollback)
            truncate(self._request, len(self._request.token_ids) - step.rollback)
        for token_id in step.token_ids:
            self._matcher.accept(token_id)
            self._request.token_ids.append(token_id)
            self._output.push(token_id, TokenKind.FORCED)
            if self._output.finish_reason is not None:
                break
        if not self._output.text.startswith(told):
            raise GenerationFailed(
                f"the constraint took {step.rollback} tokens back, and {len(step.token_ids)} new "
                f"ones do not repeat their text: {told!r} became {self._output.text!r}"
            )


def _matcher(submission: Submission, max_tokens: int) -> Matcher | None:
    constraint = submission.constraint
    if constraint is None:
        return None
    try:
        if constraint.min_tokens > max_tokens:
            raise InvalidRequest(
                f"max_tokens={max_tokens} cannot hold any value of the type asked for; the "
                f"shortest takes {constraint.min_tokens} tokens: raise max_tokens to at least that"
            )
        return constraint.matcher()
    except Exception as error:
        raise _constraint_failed(error) from error


def _constraint_failed(error: BaseException) -> AgentrtError:
    if isinstance(error, AgentrtError):
        return error
    try:
        said = repr(error)
    except Exception:  # its words are the user's as well
        said = type(error).__name__
    failure = GenerationFailed(f"the constraint failed: {said}")
    failure.__cause__ = error
    return failure
