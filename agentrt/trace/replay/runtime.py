"""A runtime that answers from a record: no weights are loaded and nothing is computed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

from agentrt.errors import EngineFailed, InvalidRequest
from agentrt.runtime.batch import ModelSpec
from agentrt.runtime.runtime import Runtime, standing_in
from agentrt.runtime.source import LoadedModel
from agentrt.testing import ByteCodec
from agentrt.trace import attributes as names
from agentrt.trace.replay.answers import Answers
from agentrt.trace.replay.front import ReplayFront
from agentrt.trace.replay.record import read_record
from agentrt.trace.runs import open_run

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path
    from types import TracebackType

    from agentrt.errors import ReplayDrift
    from agentrt.runtime.batch import Batch, StepResult
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.front import Front
    from agentrt.runtime.source import TextCodec
    from agentrt.trace.replay.record import Record, Recorded

Tools = Literal["recorded", "live"]
_SCRIPTED = "scripted"


class Replay(Runtime):
    """A recorded run as a runtime: every generation and selection is answered from the record.

        async with Replay("latest") as runtime:
            assert await greet("Bob") == "Hi Bob."

    `run` is an id, the beginning of one, "latest", or the path of a record. A request is found by
    its prompt's token ids, sampling parameters and constraint; equal ones get their answers in
    recorded order. One that the record does not have raises ReplayDrift; where the program caught
    that, leaving the block raises it again. With `tools="recorded"` tools are not called: the
    record says what they gave for their name and arguments; "live" calls them.

    `model` names the model whose tokenizer is needed, if it is not the provided or a scripted one;
    its weights are not loaded. Raises InvalidRequest for a run that has several models, or was
    recorded without content.
    """

    def __init__(
        self,
        run: str | Path = "latest",
        *,
        model: str | Path | None = None,
        tools: Tools = "recorded",
        folder: Path | None = None,
    ) -> None:
        if tools not in ("recorded", "live"):
            raise InvalidRequest(f'tools={tools!r}; "recorded" or "live" is wanted')
        self._source = _RecordSource(run, folder, model, tools)
        super().__init__(self._source, trace=False)
        self._answered_by = self._source

    @property
    def drifts(self) -> list[ReplayDrift]:
        """What was asked for and is not in the record. Those still there at the end are raised."""
        return self._source.answers.drifts

    @property
    def answered(self) -> int:
        """Generations and selections that were answered so far."""
        return self._source.answers.answered

    @property
    def tools_answered(self) -> int:
        """Tool calls that were answered so far."""
        return self._source.answers.tools_answered

    @property
    def unasked(self) -> list[Recorded]:
        """Recorded generations and selections that were not asked for so far."""
        return self._source.answers.unasked

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)
        if error is None and self.drifts:
            raise self.drifts[0]


@contextmanager
def replaying(
    run: str | Path = "latest",
    *,
    model: str | Path | None = None,
    tools: Tools = "recorded",
    folder: Path | None = None,
) -> Generator[Replay]:
    """Answers every runtime that is made in the block from one record, whatever model it names.

        with replaying("latest") as replay:
            asyncio.run(main())  # opens `Runtime("a-model")` itself
        assert not replay.drifts and not replay.unasked

    For programs that open their own runtimes; they share the record, as they did when it was made.
    Yields what counts for all of them. One opened for the process is closed at the end. Arguments,
    and what is raised, are those of :class:`Replay`.
    """
    whole = Replay(run, model=model, tools=tools, folder=folder)
    source = whole._source  # pyright: ignore[reportPrivateUsage]
    source.read()
    with standing_in(source):
        yield whole


class _RecordSource:
    """The record in place of a model, for one runtime or several."""

    def __init__(
        self, run: str | Path, folder: Path | None, model: str | Path | None, tools: Tools
    ) -> None:
        self._run = run
        self._folder = folder
        self._model = model
        self._tools = tools
        self._read: tuple[Record, TextCodec, Answers] | None = None

    @property
    def answers(self) -> Answers:
        if self._read is None:
            raise InvalidRequest("the replay was not opened; open it with `async with Replay(...)`")
        return self._read[2]

    def open(self, config: RuntimeConfig) -> LoadedModel:
        """Reads the record, if that is not done; called on the thread of the engine."""
        del config
        record, codec, _ = self._read or self.read()
        return LoadedModel(_NoExecutor(record, codec), codec)

    def front(self, front: Front) -> Front:
        return ReplayFront(front, self.answers)

    def tool(self, name: str, arguments: str) -> str | None:
        return None if self._tools == "live" else self.answers.take_tool(name, arguments)

    def read(self) -> tuple[Record, TextCodec, Answers]:
        """The record, the tokenizer of its model, and its answers, of which none is given yet."""
        with open_run(self._run, self._folder) as run:
            record = read_record(run)
        codec = _codec(record.runtime.model, self._model)

        def spell(ids: Sequence[int]) -> str:
            return b"".join(map(codec.token_bytes, ids)).decode("utf-8", "replace")

        self._read = record, codec, Answers(record, spell)
        return self._read


class _NoExecutor:
    """Stands where a model would compute; is never asked to."""

    def __init__(self, record: Record, codec: TextCodec) -> None:
        facts = cast("dict[str, Any]", record.runtime.attributes)
        self.num_slots: int = facts[names.RUNTIME_SLOTS]
        self.spec = ModelSpec(
            name=record.runtime.model,
            vocab_size=codec.vocabulary.size,
            context_length=facts[names.RUNTIME_CONTEXT_LENGTH],
            eos_token_ids=frozenset(facts[names.RUNTIME_EOS_IDS]),
            kv_bytes_per_token=0,
        )

    def execute(self, batch: Batch) -> StepResult:
        raise EngineFailed(f"a replay computes nothing, and {batch.layout.num_tokens} tokens came")

    def close(self) -> None:
        """There is nothing to free."""


def _codec(recorded: str, given: str | Path | None) -> TextCodec:
    """The tokenizer of the recorded model. Raises InvalidRequest where `given` is another's."""
    if recorded == _SCRIPTED and given is None:
        return ByteCodec()
    from agentrt.runtime.codec import ModelCodec
    from agentrt.runtime.models import resolve

    files = resolve(given)
    if files.name != recorded:
        raise InvalidRequest(
            f"the run was recorded with {recorded} and the tokenizer given is {files.name}'s; name "
            "the recorded one as the model of the replay"
        )
    return ModelCodec(files)
