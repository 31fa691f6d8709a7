"""Scripted chats: what the model is shown, and what it answers to the last thing said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrt import Runtime
from agentrt.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Mapping


def answering(answers: Mapping[str, str], **options: Any) -> Runtime:
    """A runtime whose model answers by how the prompt ends: the longest ending that is known.

    Where the assistant's turn has begun as the answer does, it writes the rest.
    """

    def reply(prompt: str) -> str:
        said, turn, begun = prompt.rpartition("\nassistant: ")
        said = said if turn else prompt
        known = [ending for ending in answers if said.endswith(ending)]
        answer = answers[max(known, key=len)] if known else "nothing is scripted for this"
        return answer.removeprefix(begun)

    return Runtime(ScriptedModel.replying(reply, **options))
