"""Any decoder-only causal LM that transformers loads, run one flat ragged batch a step."""

from agentrt.runtime.model.folder import load_model
from agentrt.runtime.model.model import Model

__all__ = ["Model", "load_model"]
