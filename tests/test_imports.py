"""Imports run one way, heavy libraries stay where they belong, and `import agentrt` is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "agentrt"

# From the ground up; a module may import what stands at its own height or below. The longest
# matching name counts.
FLOORS: dict[str, int] = {
    name: floor
    for floor, names in enumerate(
        [
            ["errors", "generation", "messages", "matching", "cachefolder", "html", "threads"],
            ["trace"],
            ["schema"],
            ["runtime"],
            ["programs"],
            ["trace.viewer", "trace.export", "trace.replay", "testing", "pytest_plugin"],
            ["trace.commands"],
            ["cli", "commands"],
        ]
    )
    for name in names
}
TOP = max(FLOORS.values()) + 1

# Rooms of the runtime that handle tensors. Every other one is plain Python and numpy: what decides
# can then be run a million steps without a model.
TENSORS = {
    f"agentrt.runtime.{name}"
    for name in [
        "attention",
        "device",
        "draw",
        "executor",
        "logit_edits",
        "memory",
        "model",
        "models.convert",
        "models.quiet",
        "models.tokenization",
        "native",
        "operators",
        "preparation",
        "products",
        "sampler",
        "stored_model",
    ]
}
ONLY_HERE = {"flashinfer": {"agentrt.runtime.attention.flashinfer"}}
# Named there for the type checker and loaded when it is first asked for.
LATER = {("agentrt.trace", "agentrt.trace.viewer")}
NEVER = {"benchmarks", "recipes", "tests"}


def modules() -> dict[str, Path]:
    out: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


MODULES = modules()


def imported(name: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """Full names of everything a module imports, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # Relative to the module's package; one more dot is one more level up.
            up = name.split(".")[: len(name.split(".")) - node.level + is_package]
            base = ".".join([*(up if node.level else []), *([node.module] if node.module else [])])
            for alias in node.names:
                submodule = f"{base}.{alias.name}"
                yield submodule if submodule in MODULES else base


def floor(name: str) -> int:
    """How high a module of agentrt stands; the package itself stands on top of everything."""
    inner = name.removeprefix("agentrt").removeprefix(".").split(".")
    if inner == [""]:
        return TOP
    for length in range(len(inner), 0, -1):
        if (known := FLOORS.get(".".join(inner[:length]))) is not None:
            return known
    raise KeyError(f"{name} has no place in the order of imports; give it one in FLOORS")


def handles_tensors(name: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in TENSORS)


def wrong_imports(name: str, source: str, *, is_package: bool = False) -> list[str]:
    """What a module imports and must not, each with the reason."""
    wrong: list[str] = []
    for target in imported(name, source, is_package=is_package):
        root = target.partition(".")[0]
        above = root == "agentrt" and floor(target) > floor(name)
        if above and (name, target) not in LATER:
            wrong.append(f"{name} imports {target}, which stands above it")
        if root in NEVER:
            wrong.append(f"{name} imports {target}, which is no part of the package")
        if root in ONLY_HERE and name not in ONLY_HERE[root]:
            wrong.append(f"{name} imports {target}; only {ONLY_HERE[root]} may")
        if root in {"torch", "transformers"} and not handles_tensors(name):
            wrong.append(f"{name} imports {target}; only the rooms in TENSORS may")
    return wrong


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_it_may(name: str) -> None:
    path = MODULES[name]
    assert wrong_imports(name, path.read_text(), is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("agentrt.schema.dfa", "import agentrt.runtime"),
        ("agentrt.schema.dfa", "from agentrt import runtime"),
        ("agentrt.schema.dfa", "from .. import runtime"),
        ("agentrt.schema.dfa", "from ..runtime import batch"),
        ("agentrt.schema.dfa", "def f():\n    import torch.nn"),
        ("agentrt.errors", "from agentrt.schema import x"),
        ("agentrt.trace.spans", "from agentrt.trace.viewer import x"),
        ("agentrt.programs.state", "from agentrt import Runtime"),
        ("agentrt.runtime.scheduler", "import torch"),
        ("agentrt.runtime.radix.tree", "from torch import Tensor"),
        ("agentrt.runtime.model", "from agentrt.programs import program"),
        ("agentrt.runtime.model", "import flashinfer"),
        ("agentrt.cli", "from benchmarks import fidelity"),
    ],
)
def test_a_wrong_import_is_noticed(name: str, source: str) -> None:
    assert len(wrong_imports(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("agentrt.schema.dfa", "import numpy\nfrom agentrt.matching import Forced"),
        ("agentrt.runtime.model", "import torch\nfrom agentrt.schema import compile"),
        ("agentrt.runtime.attention.flashinfer", "import flashinfer"),
        ("agentrt.trace.viewer", "from agentrt.trace import spans\nimport agentrt.programs"),
        ("agentrt.cli", "from agentrt.trace import viewer"),
    ],
)
def test_a_right_import_is_let_through(name: str, source: str) -> None:
    assert wrong_imports(name, source) == []


def test_importing_the_package_is_light() -> None:
    heavy = {"torch", "transformers", "gguf", "rich", "huggingface_hub", "flashinfer"}
    code = f"import sys, agentrt; print(sorted({heavy!r} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
