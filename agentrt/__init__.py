"""agentrt: async agent programs over a local, radix-cached, continuously batched decoder."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentrt.errors import (
        AgentrtError,
        AnswerRejected,
        Attempt,
        BudgetExhausted,
        CancelledBranch,
        DeadlineExceeded,
        EngineClosed,
        EngineFailed,
        GenerationFailed,
        InvalidRequest,
        ModelCorrupt,
        ModelNotFound,
        NoRuntime,
        NoSuchResult,
        PromptTooLong,
        QueueFull,
        ReplayDrift,
        Retry,
        RunError,
        SchemaError,
        SchemaTooLarge,
        StorageError,
        ToolDenied,
        ToolFailed,
        UnsatisfiableSchema,
        UnsupportedModel,
        UsageError,
    )
    from agentrt.generation import (
        Choice,
        Chunk,
        Completion,
        FinishReason,
        SamplingParams,
        Selection,
        Timings,
        TokenKind,
        TokenLogprob,
        Usage,
    )
    from agentrt.messages import Message, ToolCall
    from agentrt.programs import (
        Budget,
        Failed,
        Mapped,
        Program,
        Result,
        State,
        StateStream,
        Tool,
        ToolResult,
        Vote,
        call_tools,
        describe,
        describe_tools,
        extract,
        extract_sync,
        gather,
        map_as_completed,
        program,
        race,
        tool,
        vote,
    )
    from agentrt.programs import (
        map as map,
    )
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.runtime import Runtime, current_runtime
    from agentrt.runtime.stats import RuntimeStats
    from agentrt.schema import Verbatim, verbatim

__all__ = [
    "AgentrtError",
    "AnswerRejected",
    "Attempt",
    "Budget",
    "BudgetExhausted",
    "CancelledBranch",
    "Choice",
    "Chunk",
    "Completion",
    "DeadlineExceeded",
    "EngineClosed",
    "EngineFailed",
    "Failed",
    "FinishReason",
    "GenerationFailed",
    "InvalidRequest",
    "Mapped",
    "Message",
    "ModelCorrupt",
    "ModelNotFound",
    "NoRuntime",
    "NoSuchResult",
    "Program",
    "PromptTooLong",
    "QueueFull",
    "ReplayDrift",
    "Result",
    "Retry",
    "RunError",
    "Runtime",
    "RuntimeConfig",
    "RuntimeStats",
    "SamplingParams",
    "SchemaError",
    "SchemaTooLarge",
    "Selection",
    "State",
    "StateStream",
    "StorageError",
    "Timings",
    "TokenKind",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "ToolDenied",
    "ToolFailed",
    "ToolResult",
    "UnsatisfiableSchema",
    "UnsupportedModel",
    "Usage",
    "UsageError",
    "Verbatim",
    "Vote",
    "call_tools",
    "current_runtime",
    "describe",
    "describe_tools",
    "extract",
    "extract_sync",
    "gather",
    "map_as_completed",
    "program",
    "race",
    "tool",
    "verbatim",
    "vote",
]

# Looked in, in this order, for what is asked for: a command that only prints its help loads none.
_HOMES = (
    "agentrt.errors",
    "agentrt.generation",
    "agentrt.messages",
    "agentrt.runtime.config",
    "agentrt.runtime.runtime",
    "agentrt.runtime.stats",
    "agentrt.schema",
    "agentrt.programs",
)
_NOT_LISTED = ("map",)  # `from agentrt import *` must not hide Python's own

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Loads a name of `__all__` (or a submodule) when it is first used."""
        if name in __all__ or name in _NOT_LISTED:
            for home in _HOMES:
                module = import_module(home)
                if hasattr(module, name):
                    globals()[name] = found = getattr(module, name)
                    return found
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_NOT_LISTED})
