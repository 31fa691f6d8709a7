"""The engines by name, each in a module that is imported only where it runs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.workloads import Engine

ENGINES = {
    "agentrt": ("native", "Agentrt"),
    "agentrt-plain": ("native", "AgentrtPlain"),
    "agentrt-file": ("native", "AgentrtFile"),
    "transformers": ("hf_generate", "TransformersGenerate"),
    "transformers-cb": ("hf_continuous", "TransformersContinuous"),
    "llama.cpp": ("llamacpp", "LlamaCpp"),
    "openvino": ("openvino", "Openvino"),
    "guidance": ("guided", "Guidance"),
    "outlines": ("outlined", "Outlines"),
}
OURS = ("agentrt", "agentrt-plain", "agentrt-file")
"""What no ratio counts among the peers. The second looks nothing up that was written before, the
third rounds activations to 8 bits, as llama.cpp does."""
PEERS = tuple(name for name in ENGINES if name != "agentrt")


def make(name: str, threads: int) -> Engine:
    """An engine that is not started yet. Raises ImportError where its library is missing."""
    module, kind = ENGINES[name]
    return getattr(importlib.import_module(f"benchmarks.peers.{module}"), kind)(threads)
