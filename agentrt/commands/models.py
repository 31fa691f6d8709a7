"""`agentrt models`: what is stored, fetching, and facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from agentrt.commands.common import add_json, print_json

if TYPE_CHECKING:
    import argparse

_ACTIONS = {
    "list": "the models that are stored, with the bytes they take",
    "pull": "fetch and convert a model; check a stored one and mend what is damaged",
    "info": "facts of a model: size, context, end tokens, templates",
    "path": "the folder of a model, prepared first if need be",
}


def add_to(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, text in _ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text)
        add_json(action, "for machines")
        if name != "list":
            action.add_argument(
                "model", nargs="?", help="a hub id, a folder or a .gguf file (the provided one)"
            )
    parser.set_defaults(run=run, action="list", json=False)


def run(asked: argparse.Namespace) -> None:
    from agentrt.runtime.models import models_dir, pull, resolve
    from agentrt.runtime.models.store import stored_bytes, stored_names

    if asked.action == "list":
        folder = models_dir()
        rows = [(name, stored_bytes(folder, name)) for name in stored_names(folder)]
        if asked.json:
            stored = [{"name": name, "bytes": size} for name, size in rows]
            print_json({"folder": str(folder), "models": stored})
            return
        for name, size in rows:
            print(f"{in_units(size):>8}  {name}")
        print(f"{len(rows)} {'model' if len(rows) == 1 else 'models'} in {folder}")
        return
    files = pull(asked.model) if asked.action == "pull" else resolve(asked.model)
    facts: dict[str, Any] = {"name": files.name, "folder": str(files.folder)}
    if asked.action == "info":
        facts |= _facts(files)
    if asked.json:
        print_json(facts)
    elif asked.action == "pull":
        print(f"{files.name} is ready in {files.folder}")
    elif asked.action == "path":
        print(files.folder)
    else:
        for name, value in facts.items():
            value = in_units(value) if name == "bytes" else value
            name = "size" if name == "bytes" else name
            print(f"{name.replace('_', ' '):>16}  {value}")


def in_units(size: int) -> str:
    """Bytes as a person says them: 98 MB, 1.2 GB."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _facts(files: Any) -> dict[str, Any]:
    from agentrt.runtime.models.store import stored_bytes

    config = json.loads(files.config.read_text(encoding="utf-8"))
    architectures = config.get("architectures") or [config.get("model_type")]
    return {
        "architecture": architectures[0],
        "layers": config.get("num_hidden_layers"),
        "hidden_size": config.get("hidden_size"),
        "vocabulary": config.get("vocab_size"),
        "context_length": files.context_length,
        "dtype": files.dtype,
        "quantised": files.blocks is not None,
        "bytes": stored_bytes(files.folder.parent, files.folder.name),
        "eos_token_ids": list(files.eos_token_ids),
        "chat_templates": list(files.chat_templates),
    }
