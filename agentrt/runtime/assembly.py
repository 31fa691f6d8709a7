"""Puts a runtime's parts together; the one place that knows them all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.errors import InvalidRequest
from agentrt.runtime.engine import Engine
from agentrt.runtime.pool import SlotPool
from agentrt.runtime.radix import RadixCache
from agentrt.runtime.scheduler import SchedulePolicy, Scheduler, SchedulerConfig

if TYPE_CHECKING:
    from agentrt.runtime.batch import Executor
    from agentrt.runtime.config import RuntimeConfig
    from agentrt.runtime.source import LoadedModel, ModelSource


def open_model(model: str | Path | ModelSource | None, config: RuntimeConfig) -> LoadedModel:
    """Loads what a runtime was asked for. Blocking; imports torch for a real model."""
    if model is not None and not isinstance(model, str | Path):
        if isinstance(model, type) or not callable(getattr(model, "open", None)):
            raise InvalidRequest(
                f"model={model!r} is no model; give a hub id, a folder, a .gguf file, a "
                "ModelSource, or None for the provided one"
            )
        return model.open(config)
    from agentrt.runtime.stored_model import StoredModel

    return StoredModel(model).open(config)


def make_engine(executor: Executor, config: RuntimeConfig) -> Engine:
    """An engine with an empty cache over the executor's pool."""
    pool = SlotPool(executor.num_slots)
    cache = RadixCache(pool)
    scheduler = Scheduler(
        cache,
        pool,
        SchedulerConfig(
            policy=SchedulePolicy(config.policy),
            max_step_tokens=config.max_step_tokens,
            max_running=config.max_running,
            max_waiting=config.max_waiting,
            max_passed_over=config.max_passed_over,
        ),
    )
    return Engine(executor, scheduler, cache, pool, reuse=config.cache, lookup=config.lookup)
