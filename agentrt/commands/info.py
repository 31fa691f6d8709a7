"""`agentrt info`: what there is to run on, for a person or a bug report."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from agentrt.commands.common import add_json, print_json

if TYPE_CHECKING:
    import argparse

_PACKAGES = ("agentrt", "torch", "transformers", "tokenizers", "pydantic", "flashinfer-python")


def add_to(parser: argparse.ArgumentParser) -> None:
    add_json(parser, "for machines")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace) -> None:
    facts = gathered()
    if asked.json:
        print_json(facts)
        return
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):>18}  {'none' if value is None else value}")


def gathered() -> dict[str, Any]:
    """The facts, by name."""
    from agentrt.runtime.device import describe_device, describe_kernels
    from agentrt.runtime.models import cache_dir, is_stored, models_dir
    from agentrt.runtime.models.fetch import PROVIDED

    facts: dict[str, Any] = {name: _version(name) for name in _PACKAGES}
    facts |= {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": describe_device(),
        "kernels": describe_kernels(),
        "cache_folder": str(cache_dir()),
        "models_folder": str(models_dir()),
        "provided_model": PROVIDED.name,
        "is_stored": is_stored(),
    }
    return facts


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
