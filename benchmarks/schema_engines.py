"""Schema engines behind one interface: a grammar from a schema, then masks, token by token.

Each is used as its documentation says, and asked for compact JSON. Where an engine has a stricter
and a looser way, both are measured.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from agentrt.errors import SchemaError
from agentrt.schema import compile_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentrt.schema import Vocabulary


class Refused(Exception):
    """The engine will not compile the schema."""


class Session(Protocol):
    """One text. `mask()` is packed, uint32; `forced()` the tokens that the engine says must come
    next."""

    def mask(self) -> np.ndarray: ...
    def accept(self, token: int) -> None: ...
    def forced(self) -> list[int]: ...


class Engine(Protocol):
    """`compile` raises Refused, and gives what `begin` makes sessions of."""

    def compile(self, schema: dict[str, Any]) -> Any: ...
    def begin(self, grammar: Any) -> Session: ...


class Agentrt:
    """Keys in any order, each once, the required ones all."""

    def __init__(self, vocabulary: Vocabulary, tokenizer: str, limit_s: float) -> None:
        del tokenizer
        self.vocabulary, self.limit_s = vocabulary, limit_s
        _ = vocabulary.trie.plain, vocabulary.trie.special
        self.begin(self.compile({"type": "string"})).mask()

    def compile(self, schema: dict[str, Any]) -> Any:
        try:
            return compile_schema(schema, self.vocabulary, key_order="any", deadline=self.limit_s)
        except SchemaError as error:
            raise Refused(str(error)) from None

    def begin(self, grammar: Any) -> Session:
        return _Ours(grammar)


class _Ours:
    def __init__(self, grammar: Any) -> None:
        self.matcher = grammar.matcher(jump=False)
        self.engine = grammar.engine
        self.at = self.engine.machine.start

    def mask(self) -> np.ndarray:
        return self.matcher.next().mask

    def accept(self, token: int) -> None:
        self.matcher.accept(token)
        text = self.engine.vocabulary.tokens[token]
        self.at = self.at if text is None else self.engine.machine.run(self.at, text)

    def forced(self) -> list[int]:
        return list(self.engine.jumps.of(self.at))


class Llguidance:
    """`lenient`: what it does not know it leaves out, where it would else refuse."""

    def __init__(
        self, vocabulary: Vocabulary, tokenizer: str, limit_s: float, *, lenient: bool = False
    ) -> None:
        del limit_s
        llguidance = import_module("llguidance")
        self.library, self.vocabulary, self.lenient = llguidance, vocabulary, lenient
        self.tokenizer = llguidance.LLTokenizer(
            tokenizer, n_vocab=vocabulary.size, eos_token=sorted(vocabulary.eos_ids)
        )

    def compile(self, schema: dict[str, Any]) -> Any:
        matcher = self.library.LLMatcher
        try:
            text = matcher.grammar_from_json_schema(
                schema, overrides={"whitespace_flexible": False, "lenient": self.lenient}
            )
        except ValueError as error:
            raise Refused(str(error)) from None
        made = matcher(self.tokenizer, text)
        if made.is_error():
            raise Refused(made.get_error())
        return made

    def begin(self, grammar: Any) -> Session:
        return _Llguidance(grammar.deep_copy(), self.vocabulary.words)


class _Llguidance:
    def __init__(self, matcher: Any, words: int) -> None:
        self.fill = import_module("llguidance.numpy").fill_next_token_bitmask
        self.matcher = matcher
        self.row = np.zeros((1, words), dtype=np.int32)

    def mask(self) -> np.ndarray:
        self.fill(self.matcher, self.row)
        return self.row[0].view(np.uint32)

    def accept(self, token: int) -> None:
        self.matcher.consume_token(token)

    def forced(self) -> list[int]:
        return self.matcher.compute_ff_tokens()


class Xgrammar:
    """`dynamic`: additional keys are let through, and masks worked out when asked for."""

    def __init__(
        self, vocabulary: Vocabulary, tokenizer: str, limit_s: float, *, dynamic: bool = False
    ) -> None:
        del tokenizer, limit_s
        xgrammar = import_module("xgrammar")
        self.library, self.vocabulary, self.dynamic = xgrammar, vocabulary, dynamic
        info = xgrammar.TokenizerInfo(
            [t or b"" for t in vocabulary.tokens], stop_token_ids=sorted(vocabulary.eos_ids)
        )
        self.compiler = xgrammar.GrammarCompiler(
            info, max_threads=1, cache_enabled=False, enable_dynamic_compilation=dynamic
        )

    def compile(self, schema: dict[str, Any]) -> Any:
        try:
            return self.compiler.compile_json_schema(
                json.dumps(schema),
                any_whitespace=False,
                separators=(",", ":"),
                strict_mode=not self.dynamic,
            )
        except Exception as error:
            raise Refused(str(error)) from None

    def begin(self, grammar: Any) -> Session:
        return _Xgrammar(self.library.GrammarMatcher(grammar), self.vocabulary)


class _Xgrammar:
    def __init__(self, matcher: Any, vocabulary: Vocabulary) -> None:
        self.matcher, self.vocabulary = matcher, vocabulary
        self.row = np.zeros((1, vocabulary.words), dtype=np.int32)

    def mask(self) -> np.ndarray:
        # false: everything is allowed, and the row left as it is
        if not self.matcher.fill_next_token_bitmask(self.row):
            self.row.fill(-1)
        return self.row[0].view(np.uint32)

    def accept(self, token: int) -> None:
        self.matcher.accept_token(token)

    def forced(self) -> list[int]:
        """Its text, as the tokenizer cuts it: more than can be jumped over safely."""
        return self.vocabulary.tokenise(self.matcher.find_jump_forward_string().encode())


class OutlinesCore:
    """One regex for the schema, one index for the regex."""

    def __init__(self, vocabulary: Vocabulary, tokenizer: str, limit_s: float) -> None:
        del tokenizer, limit_s
        outlines_core = import_module("outlines_core")
        self.library, self.words = outlines_core, vocabulary.words
        by_text: dict[bytes | str, list[int]] = {}
        for number, text in enumerate(vocabulary.tokens):
            if text is not None:
                by_text.setdefault(text, []).append(number)
        self.vocabulary = outlines_core.Vocabulary(min(vocabulary.eos_ids), by_text)

    def compile(self, schema: dict[str, Any]) -> Any:
        try:
            regex = self.library.json_schema.build_regex_from_schema(
                json.dumps(schema), whitespace_pattern=""
            )
            return self.library.Index(regex, self.vocabulary)
        except Exception as error:
            raise Refused(str(error)) from None

    def begin(self, grammar: Any) -> Session:
        return _OutlinesCore(self.library.Guide(grammar), self.words)


class _OutlinesCore:
    def __init__(self, guide: Any, words: int) -> None:
        self.guide = guide
        self.row = np.zeros(words, dtype=np.uint32)

    def mask(self) -> np.ndarray:
        self.guide.write_mask_into(self.row.ctypes.data, self.row.size, self.row.itemsize)
        return self.row

    def accept(self, token: int) -> None:
        self.guide.advance(token, return_tokens=False)

    def forced(self) -> list[int]:
        """It tells of none."""
        return []


def _lenient(vocabulary: Vocabulary, tokenizer: str, limit_s: float) -> Engine:
    return Llguidance(vocabulary, tokenizer, limit_s, lenient=True)


def _dynamic(vocabulary: Vocabulary, tokenizer: str, limit_s: float) -> Engine:
    return Xgrammar(vocabulary, tokenizer, limit_s, dynamic=True)


ENGINES: dict[str, tuple[str, Callable[[Vocabulary, str, float], Engine]]] = {
    "agentrt": ("agentrt", Agentrt),
    "llguidance": ("llguidance", Llguidance),
    "llguidance lenient": ("llguidance", _lenient),
    "xgrammar strict": ("xgrammar", Xgrammar),
    "xgrammar dynamic": ("xgrammar", _dynamic),
    "outlines-core": ("outlines_core", OutlinesCore),
}
"""By name: the module that it needs, and what makes it."""
