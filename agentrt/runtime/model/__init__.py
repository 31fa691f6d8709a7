"""Any decoder-only causal LM that transformers loads, run one flat ragged batch a step."""

from agentrt.runtime.model.graph.trace import NotCapturable
from agentrt.runtime.model.model import Model
from agentrt.runtime.model.recording import FORMAT, Recording, load_recording, record

__all__ = ["FORMAT", "Model", "NotCapturable", "Recording", "load_recording", "record"]
