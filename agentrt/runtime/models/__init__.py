"""From a model's name to files ready to be mapped: fetched, checked and converted once."""

from agentrt.cachefolder import cache_dir
from agentrt.runtime.models.files import ModelFiles, reading
from agentrt.runtime.models.sources import is_stored, models_dir, pull, resolve
from agentrt.runtime.models.store import derived

__all__ = [
    "ModelFiles",
    "cache_dir",
    "derived",
    "is_stored",
    "models_dir",
    "pull",
    "reading",
    "resolve",
]
