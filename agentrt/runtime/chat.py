"""Messages to tokens by the model's own chat template.

Templates are Jinja programs that come with a model, so they run in a sandbox, with the filters,
globals and whitespace rules that transformers documents for them ("Writing a chat template").
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, cast

import jinja2
import jinja2.ext
import jinja2.sandbox

from agentrt.errors import InvalidRequest
from agentrt.messages import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import nodes
    from jinja2.parser import Parser

    from agentrt.runtime.models import ModelFiles
    from agentrt.runtime.tokenizer import Tokenizer

END = "[[the message goes on here]]"


class ChatTemplate:
    """A model's chat templates ("default", and by name others such as "tool_use").

    Control tokens are those the template itself writes; the same characters in a message, a tool or
    a variable stay text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        templates: Mapping[str, str],
        *,
        special_tokens: Mapping[str, str] | None = None,
        name: str = "the model",
    ) -> None:
        self._tokenizer = tokenizer
        self._sources = dict(templates)
        self._special_tokens = dict(special_tokens or {})
        self._name = name
        self._compiled: dict[str, jinja2.Template] = {}

    @classmethod
    def from_files(cls, tokenizer: Tokenizer, files: ModelFiles) -> ChatTemplate:
        """The templates of a resolved model."""
        return cls(
            tokenizer,
            files.chat_templates,
            special_tokens=files.special_tokens,
            name=files.name,
        )

    def render(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt as a person reads it; `encode` gives its tokens and takes the same arguments.

        `add_generation_prompt` opens the assistant's turn; `continue_final` instead leaves the last
        message open, to be gone on with. Raises InvalidRequest where the model has no template, or
        its template refuses these messages.
        """
        text = self._render(messages, tools, add_generation_prompt, continue_final, variables)
        return self._tokenizer.special.unguarded(text)

    def encode(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final: bool = False,
        **variables: Any,
    ) -> list[int]:
        """Token ids of the rendered prompt, tokenised as one whole; see `render`."""
        text = self._render(messages, tools, add_generation_prompt, continue_final, variables)
        return self._tokenizer.encode(text, parse_special=True)

    def end_of_turn(self) -> int | None:
        """The control token the template writes after an assistant's message, if it writes one."""
        try:
            said = [Message("user", "?"), Message("assistant", END)]
            text = self._render(said, None, False, False, {})
        except InvalidRequest:
            return None
        return self._tokenizer.special.find(text.rpartition(END)[2])

    def _render(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        continue_final: bool,
        variables: dict[str, Any],
    ) -> str:
        """The rendered text, with special tokens from outside the template under stand-ins."""
        if not messages:
            raise InvalidRequest("a chat needs at least one message, none was given")
        turns = [self._guarded(_as_dict(message)) for message in messages]
        if continue_final:
            turns[-1] = {**turns[-1], "content": f"{turns[-1].get('content') or ''}{END}"}
        template = self._template("tool_use" if tools else "default")
        arguments = {
            **self._special_tokens,
            "messages": turns,
            "tools": self._guarded(list(tools)) if tools else None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt and not continue_final,
            **{name: self._guarded(value) for name, value in variables.items()},
        }
        try:
            text = template.render(arguments)
        except Exception as error:
            # A template can fail as any program can; in each case it refused these messages.
            roles = ", ".join(str(turn.get("role")) for turn in turns)
            raise InvalidRequest(
                f"the chat template of {self._name} refused the messages (roles: {roles}): {error}"
            ) from error
        return self._left_open(text) if continue_final else text

    def _left_open(self, text: str) -> str:
        head, found, _ = text.rpartition(END)
        if not found:
            raise InvalidRequest(
                f"the chat template of {self._name} does not write out the last message, "
                "so it cannot be continued"
            )
        return head

    def _template(self, wanted: str) -> jinja2.Template:
        name = wanted if wanted in self._sources else "default"
        if name not in self._sources:
            raise InvalidRequest(
                f"{self._name} has no chat template, so messages cannot be written for it; "
                "give the prompt as one text"
            )
        if name not in self._compiled:
            try:
                self._compiled[name] = _environment().from_string(self._sources[name])
            except jinja2.TemplateSyntaxError as error:
                raise InvalidRequest(
                    f"the chat template of {self._name} is broken in line {error.lineno}: {error}"
                ) from error
        return self._compiled[name]

    def _guarded(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._tokenizer.special.guard(value)
        if isinstance(value, dict):
            return {self._guarded(key): self._guarded(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._guarded(item) for item in value]
        return value


def _as_dict(message: Message | Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(message, Message):
        return dict(message)
    out = message.as_template_dict()
    for call in out.get("tool_calls", ()):
        call["function"]["arguments"] = _parsed(call["function"]["arguments"])
    return out


def _parsed(arguments: str) -> Any:
    """Templates write arguments with `tojson`: as an object where the text is one."""
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


class _Generation(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}`, which marks the assistant's text for training."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> jinja2.Environment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    # Typed by jinja2 as holding only what it starts with.
    known = cast("dict[str, Any]", environment.globals)
    known |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is, where Jinja's own filter would escape HTML characters."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
