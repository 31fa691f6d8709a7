"""Recorded runs to look at, written through the recorder itself."""

from __future__ import annotations

from pathlib import Path

from agentrt.trace import TraceConfig, open_run, recording
from agentrt.trace import attributes as names
from agentrt.trace.engines import EngineStep, Tree, TreeNode
from agentrt.trace.reading import RecordedRun
from agentrt.trace.spans import SpanKind, now_ns, span

PROMPT = "user: Where is the 首都?\nassistant: "


def token_bytes(token: int) -> bytes:
    return bytes([token])


def generate(
    runtime: int,
    output: str,
    *,
    prompt: str = PROMPT,
    cached: int = 10,
    forced: int = 0,
    top: bool = False,
) -> int:
    """Records a generation of one token a byte; its first `forced` tokens are forced ones."""
    ids, written = list(prompt.encode()), list(output.encode())
    with span(SpanKind.GENERATION, "text_completion tiny") as current:
        current.set(
            {
                names.RUNTIME_ID: runtime,
                names.PROMPT_IDS: ids,
                names.TOKEN_IDS: written,
                names.OUTPUT_TEXT: output,
                names.TOKEN_KINDS: "f" * forced + "s" * (len(written) - forced),
                names.USAGE_INPUT_TOKENS: len(ids),
                names.USAGE_CACHED_TOKENS: cached,
                names.USAGE_SAMPLED_TOKENS: len(written) - forced,
                names.USAGE_FORCED_TOKENS: forced,
                names.TIMING_QUEUE_S: 0.001,
                names.TIMING_PREFILL_S: 0.002,
                names.TIMING_DECODE_S: 0.003,
            }
        )
        if top:
            current.set(
                {
                    names.TOKEN_LOGPROBS: [-0.25] * len(written),
                    names.TOKEN_TOP: [[[i, -0.25], [ord("?"), -2.5]] for i in written],
                }
            )
        return current.id


def record(
    folder: Path,
    *,
    answer: str = "Paris",
    prompt: str = PROMPT,
    branches: int = 3,
    name: str = "triage.py",
    steps: int = 0,
) -> RecordedRun:
    """A run of a program with branches, a tool, a repair and a failure, its cache, and `steps` of
    its engine: of 100 slots 50 are held and 25 cached, a token is written and one is evicted."""
    with recording(TraceConfig(folder=folder), name=name) as active:
        assert active is not None
        runtime = active.recorder.add_runtime("tiny", token_bytes, {})
        with span(SpanKind.PROGRAM, "solve") as program:
            program.set({names.PROGRAM_RESULT: f"{answer!r}"})
            generate(runtime.id, f'{{"city": "{answer}"}}', prompt=prompt, forced=9, top=True)
            for index in range(branches):
                with span(SpanKind.BRANCH, f"branch {index + 1}"):
                    generate(runtime.id, f"way {index}", prompt=prompt + "a way: ")
            with span(
                SpanKind.TOOL,
                "search",
                {names.TOOL_NAME: "search", names.TOOL_CALL_ARGUMENTS: '{"q": "</script>"}'},
            ):
                pass
            with span(SpanKind.VALIDATION, "repair City"):
                generate(runtime.id, '"Rome"')
        try:
            with span(SpanKind.PROGRAM, "check") as check:
                check.event("looked", n=1, text="Paris no such")
                raise ValueError("no such\x1b[2J city")
        except ValueError:
            pass
        began, length = active.span.started_ns, now_ns() - active.span.started_ns
        runtime.steps += [
            EngineStep(began + at * length // steps, 0.0, 1, 1, 2, 0, 25, 25, 50, 1)
            for at in range(1, steps + 1)
        ]
        shared = tuple(prompt.encode())
        tails = [
            TreeNode(4, tuple(tail), last_use=at) for at, tail in enumerate((b"tail", b"more"))
        ]
        root = TreeNode(
            0, (), children=(TreeNode(len(shared), shared, locks=1, children=tuple(tails)),)
        )
        runtime.trees.append(Tree(now_ns(), {"": root}))
    return open_run(active.path)


def record_many(folder: Path, spans: int, *, fan: int = 1_000) -> RecordedRun:
    """A run of very many spans: branches of `fan` steps each."""
    with recording(TraceConfig(folder=folder), name="large") as active:
        assert active is not None
        for at in range(spans // (fan + 1)):
            with span(SpanKind.BRANCH, f"branch {at}"):
                for inner in range(fan):
                    with span(SpanKind.STEP, f"step {at}.{inner}"):
                        pass
            active.flush()
    return open_run(active.path)
