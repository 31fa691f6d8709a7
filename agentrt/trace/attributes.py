"""Names of span attributes.

The `gen_ai.*` names are those of the OpenTelemetry GenAI semantic conventions, release 0.1.0 of
open-telemetry/semantic-conventions-genai (on semantic conventions 1.45); all of them are marked
"Development" there and may still move, which is why they stand here and nowhere else. The
`agentrt.*` names are agentrt's own: what only the owner of the decoder knows.
"""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

# Errors (stable names of the general conventions).
ERROR_TYPE: Final = "error.type"
EXCEPTION_MESSAGE: Final = "exception.message"

# What is done, by whom.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"

# Values of gen_ai.operation.name.
CHAT: Final = "chat"
TEXT_COMPLETION: Final = "text_completion"
EXECUTE_TOOL: Final = "execute_tool"
PLAN: Final = "plan"

PROVIDER: Final = "agentrt"
"""The value of gen_ai.provider.name: the model runs in this process."""

# What is asked for.
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_STREAM: Final = "gen_ai.request.stream"

# What came of it.
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"

# Tools.
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"

# agentrt's own, of a request: what the conventions have no name for.
REQUEST_MIN_TOKENS: Final = "agentrt.request.min_tokens"
REQUEST_MIN_P: Final = "agentrt.request.min_p"
REQUEST_REPETITION_PENALTY: Final = "agentrt.request.repetition_penalty"
REQUEST_LOGIT_BIAS: Final = "agentrt.request.logit_bias"
REQUEST_STOP_TOKEN_IDS: Final = "agentrt.request.stop_token_ids"
REQUEST_IGNORE_EOS: Final = "agentrt.request.ignore_eos"
REQUEST_LOGPROBS: Final = "agentrt.request.logprobs"
REQUEST_TOP_LOGPROBS: Final = "agentrt.request.top_logprobs"
REQUEST_PRIORITY: Final = "agentrt.request.priority"
REQUEST_TIMEOUT_S: Final = "agentrt.request.timeout_s"
REQUEST_NAMESPACE: Final = "agentrt.request.namespace"
CONSTRAINT: Final = "agentrt.constraint"
"""What the output must be, in words: a type, a regex, the choices."""
CONSTRAINT_POINTER: Final = "agentrt.constraint.pointer"
"""Where in the value a repair takes the constraint up again, as a JSON pointer."""
BRANCH_PARENT: Final = "agentrt.branch.parent"
"""The id of the branch that a branch was forked from, or that a generation is in."""

# Of a response. Tokens: input = cached + computed, output = sampled + forced.
USAGE_COMPUTED_TOKENS: Final = "agentrt.usage.computed_tokens"
USAGE_CACHED_TOKENS: Final = "agentrt.usage.cached_tokens"
USAGE_SAMPLED_TOKENS: Final = "agentrt.usage.sampled_tokens"
USAGE_FORCED_TOKENS: Final = "agentrt.usage.forced_tokens"
TIMING_QUEUE_S: Final = "agentrt.timing.queue_s"
TIMING_PREFILL_S: Final = "agentrt.timing.prefill_s"
TIMING_DECODE_S: Final = "agentrt.timing.decode_s"
POOL_SLOTS_HELD: Final = "agentrt.pool.slots_held"
"""The most slots of the KV pool that running requests held while a generation ran."""
POOL_EVICTED_TOKENS: Final = "agentrt.pool.evicted_tokens"
"""Tokens that left the radix cache while it ran."""
RESPONSE_STOPPED_BY: Final = "agentrt.response.stopped_by"
RESPONSE_SEED: Final = "agentrt.response.seed"

# Content, large. Prompt first: its text, its token ids.
PROMPT_TEXT: Final = "agentrt.prompt.text"
PROMPT_IDS: Final = "agentrt.prompt.ids"
PROMPT_LOGPROBS: Final = "agentrt.prompt.logprobs"
OUTPUT_TEXT: Final = "agentrt.output.text"
TOKEN_IDS: Final = "agentrt.tokens.ids"
TOKEN_KINDS: Final = "agentrt.tokens.kinds"
"""One letter a token: s sampled, f forced."""
TOKEN_LOGPROBS: Final = "agentrt.tokens.logprobs"
"""One number a token, None where no distribution was computed."""
TOKEN_TOP: Final = "agentrt.tokens.top"
"""The likeliest alternatives of each token, as [[token id, log-probability], ...]."""

# A choice among given texts.
SELECT_CHOICES: Final = "agentrt.select.choices"
SELECT_SCORES: Final = "agentrt.select.scores"
SELECT_BY: Final = "agentrt.select.by"
SELECT_INDEX: Final = "agentrt.select.index"

# Programs and validation.
PROGRAM_ARGUMENTS: Final = "agentrt.program.arguments"
PROGRAM_RESULT: Final = "agentrt.program.result"
VALIDATION_ERRORS: Final = "agentrt.validation.errors"
"""What was refused: its JSON pointer and the reason."""

# The run and what it ran on.
RUNTIME_ID: Final = "agentrt.runtime.id"
"""Which of the run's runtimes served a generation."""
RUN_COMMAND: Final = "agentrt.run.command"
RUNTIME_CONFIG: Final = "agentrt.runtime.config"
RUNTIME_CONTEXT_LENGTH: Final = "agentrt.runtime.context_length"
RUNTIME_SLOTS: Final = "agentrt.runtime.slots"
RUNTIME_EOS_IDS: Final = "agentrt.runtime.eos_ids"

# Events.
CHUNK: Final = "agentrt.chunk"
"""A generation wrote some more: its text and token ids. Heard live, never stored."""
LIMITED: Final = "agentrt.limited"
"""A budget had fewer tokens left than a generation wanted: which, and where it was entered."""

LARGE: Final = frozenset(
    {
        TOOL_CALL_ARGUMENTS,
        TOOL_CALL_RESULT,
        PROMPT_TEXT,
        PROMPT_IDS,
        PROMPT_LOGPROBS,
        OUTPUT_TEXT,
        TOKEN_IDS,
        TOKEN_KINDS,
        TOKEN_LOGPROBS,
        TOKEN_TOP,
        SELECT_CHOICES,
        PROGRAM_ARGUMENTS,
        PROGRAM_RESULT,
        VALIDATION_ERRORS,
    }
)
"""Attributes that a store keeps apart from the others and reads only when they are asked for."""

CONTENT: Final = (LARGE - {TOKEN_KINDS}) | {
    EXCEPTION_MESSAGE,
    REQUEST_STOP_SEQUENCES,
    REQUEST_STOP_TOKEN_IDS,
    REQUEST_LOGIT_BIAS,
    REQUEST_NAMESPACE,
    RESPONSE_STOPPED_BY,
    CONSTRAINT,
    CONSTRAINT_POINTER,
    RUN_COMMAND,
}
"""Attributes that say what was written, not only how it went; a record can do without."""

STRUCTURE: Final = (
    frozenset(
        value for name, value in list(globals().items()) if name.isupper() and type(value) is str
    )
    - CONTENT
)
"""The other ones."""
