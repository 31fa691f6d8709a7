"""A vocabulary of 152 thousand byte-level tokens: masks are right, memory stays bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_CHILD = r"""
import json, random
from pathlib import Path
from agentrt.schema import Vocabulary, compile_schema

SIZE = 152_064
rng = random.Random(0)
parts = ["ka", "to", "re", "in", "st", "ing", "er", "the", "pre", "qu", "x", "able", "\u0448",
         "\u0434\u0430", "\u03bf\u03c2", "\u4f60", "\u597d", "\u8a9e", "\ud55c", "\u00e9", "_"]
marks = ['"', '":', '":"', '","', '{"', '"}', '},{', '],', '":{"', '."', "://", ', "', "\\n", '"]']
tokens = {bytes([b]): None for b in range(256)} | {m.encode(): None for m in marks}
while len(tokens) < SIZE - 64:
    word = "".join(rng.choices(parts, k=rng.randint(1, 5)))
    word = rng.choice(("", "", " ")) + (word.title() if rng.random() < 0.3 else word)
    kind = rng.random()
    word = rng.choice(marks) + word if kind < 0.1 else word + rng.choice(marks) * (kind < 0.15)
    raw = word.encode()
    tokens[raw[:-1] if len(raw) > 1 and rng.random() < 0.03 else raw] = None
listed = [*tokens, *[None] * 64]
vocabulary = Vocabulary(listed, [SIZE - 1])
schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "email": {"type": "string", "format": "email"},
        "born": {"type": "string", "format": "date"},
        "count": {"type": "integer", "minimum": 0},
        "code": {"type": "string", "pattern": "^[A-Z]{2,4}-[a-z\u00e9]+$"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "email", "born"],
}
grammar = compile_schema(schema, vocabulary)
text = ('{"name":"Kato \u4f60\u597d","email":"re.ka@to.in","born":"2024-02-29","count":12,'
        '"code":"AB-kato\u00e9","tags":["x"],"other":[1.5]}')
matcher = grammar.matcher(jump=False)
wrong = looked_at = 0
for token in vocabulary.segment(text.encode()):
    mask = matcher.next().mask
    begun = matcher.text
    for other in [token, *rng.sample(range(SIZE), 60)]:
        raw = listed[other]
        allowed = raw is not None and grammar.accepts_prefix(begun + raw)
        wrong += allowed != bool(mask[other >> 5] >> (other & 31) & 1)
        looked_at += allowed
    matcher.accept(token)
# not ru_maxrss: that counts what the process was before it became this one
[peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
print(json.dumps({
    "size": vocabulary.size, "wrong": wrong, "allowed": looked_at, "complete": matcher.is_complete,
    "words": len(mask), "peak_mb": int(peak.split()[1]) / 1024,
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_masks_are_right_and_memory_is_bounded() -> None:
    done = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    peak = found.pop("peak_mb")
    assert found.pop("allowed") > 300
    assert found == {"size": 152_064, "wrong": 0, "complete": True, "words": 4752}
    assert peak < 1024
