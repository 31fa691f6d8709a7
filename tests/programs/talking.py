"""Scripted chats: what the model is shown, and what it answers to the last thing said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt import Runtime
from agentrt.testing import ScriptedModel, by_ending

if TYPE_CHECKING:
    from collections.abc import Mapping


def answering(answers: Mapping[str, str], **options: Any) -> Runtime:
    """A runtime whose model answers by how the last thing said ends."""
    return Runtime(ScriptedModel.replying(by_ending(answers), **options))
