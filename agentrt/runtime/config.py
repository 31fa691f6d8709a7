"""What a runtime can be told; every field has a default that works."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agentrt.trace.config import TraceConfig


class RuntimeConfig(BaseModel):
    """Options of one :class:`agentrt.Runtime`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: str | None = None
    """A torch device ("cpu", "cuda", "cuda:1"); None takes CUDA when there is one."""
    weights: Literal["auto", "fp32", "int8", "file", "file-fast", "bf16", "fp16"] = "auto"
    """How the weights are kept. "file" multiplies by the file's own quantised blocks, activations
    rounded to 16 bits ("file-fast": to 8, and to 16 where a block of them stands out and in the
    last layer), "fp32" by full floats, "int8" by blocks of 32 eight-bit weights; "auto" is
    "file-fast" on a CPU where the file is quantised, fp32 elsewhere on a CPU, and bf16 on CUDA.
    docs/performance.md says what each costs and how far it is from fp32."""
    kernels: Literal["auto", "native", "torch"] = "auto"
    """CPU kernels. "native" ones give the same bits whatever the batch is; "torch" ones do not, and
    are taken by "auto" only where no C compiler is found (a warning says so)."""
    attention: Literal["auto", "torch", "native", "flashinfer"] = "auto"
    threads: int | None = Field(default=None, ge=1)
    """CPU threads; None is the number of cores this process may use."""

    kv_tokens: int | None = Field(default=None, ge=16)
    """Slots of the KV pool; None sizes it from free memory."""
    kv_memory_share: float = Field(default=0.3, gt=0.0, le=0.95)
    """Share of free memory that a pool of unspecified size may take."""

    cache: bool = True
    """Whether what one request computed may serve another."""
    lookup: bool = True
    """Whether free text is guessed from where its last tokens came before, and computed ahead of
    the choice as far as a step has room. The answer is the same; wrong guesses are computed for
    nothing. Only with kernels that give the same bits whatever the batch is."""
    policy: Literal["lpm", "dfs-weight", "fcfs"] = "lpm"
    max_running: int = Field(default=256, ge=1)
    max_waiting: int = Field(default=100_000, ge=1)
    max_step_tokens: int | None = Field(default=512, ge=1)
    """Tokens one engine step computes at most; longer prompts are computed in chunks."""
    max_passed_over: int = Field(default=64, ge=1)
    """How often later arrivals may be admitted ahead of a request before it must go first."""

    trace: bool | TraceConfig | None = None
    """Whether and how what runs here is recorded; None does as `agentrt.trace.configure` and
    AGENTRT_TRACE say. Runtimes open at the same time are recorded as one run."""
