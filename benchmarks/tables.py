"""What benchmarks report, as tables in Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Rows = list[str]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Rows:
    lines = [[*columns], ["---"] * len(columns), *([shown(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def shown(cell: object) -> str:
    """Three digits that count; nothing for what is not there."""
    if cell is None:
        return ""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"


def percent(share: float | None, digits: int = 1) -> str | None:
    return None if share is None else f"{100 * share:.{digits}f} %"


def decode(report: dict[str, Any]) -> Rows:
    batches = list(report["decode"]["floor"])
    figures = ("ttft_s", "tokens_per_s", "decode_tokens_per_s")
    columns = [f"{batch}: {name}" for batch in batches for name in ("first", "all", "decode")]
    rows = [
        (engine, *(by_batch.get(batch, {}).get(name) for batch in batches for name in figures))
        for engine, by_batch in report["decode"].items()
    ]
    least = report["machine"]
    return [
        *table(["", *columns], rows),
        "",
        "By batch: seconds to the last of the first tokens; new tokens per second, prompts "
        f"included; the same after the prompts. Memory is read at {least['memory_gb_per_s']:.1f} "
        f"GB/s; large products go at {least['fp32_gop_per_s']:.0f} (fp32) and "
        f"{least['int8_gop_per_s']:.0f} (int8) Gop/s.",
    ]


def programs(report: dict[str, Any]) -> Rows:
    """Programs per second of every engine, and agentrt's own figures."""
    workloads = report["programs"]["workloads"]
    engines = dict.fromkeys(
        engine for by_engine in workloads.values() for engine in by_engine if _is_engine(engine)
    )
    rows = [
        (
            name,
            *(_rate(by_engine.get(engine)) for engine in engines),
            by_engine["ratio_best_peer"],
        )
        for name, by_engine in workloads.items()
    ]
    return [
        f"Texts: {report['programs']['texts']}; size {report['programs']['size']}.",
        "",
        *table(["programs/s", *engines, "over the best peer"], rows),
        "",
        *own_programs(report),
        *_valid(workloads),
    ]


def _is_engine(name: str) -> bool:
    return name != "ratio_best_peer"


def _rate(figures: dict[str, Any] | None) -> str | None:
    if figures is None:
        return None
    return ("< " if figures.get("unfinished") else "") + shown(figures["programs_per_s"])


def own_programs(report: dict[str, Any]) -> Rows:
    """What agentrt tells of each workload."""
    own = {name: by["agentrt"] for name, by in report["programs"]["workloads"].items()}
    rows = [
        (
            name,
            figures["programs_per_s"],
            figures.get("tokens_per_s") or None,
            figures.get("ttft_p50_s"),
            figures.get("ttft_p95_s"),
            percent(figures.get("hit_rate")),
            figures.get("computed_over_least"),
            percent(figures.get("outside_model")),
        )
        for name, figures in own.items()
    ]
    columns = ("programs/s", "tokens/s", "TTFT p50 s", "p95", "hit rate", "computed/least")
    return table(["agentrt", *columns, "outside the model"], rows)


def _valid(workloads: dict[str, Any]) -> Rows:
    answers = {
        engine: percent(figures["valid"], 0)
        for engine, figures in workloads.get("json", {}).items()
        if _is_engine(engine) and figures.get("valid") is not None
    }
    told = ", ".join(f"{engine} {share}" for engine, share in answers.items())
    return ["", f"Valid answers of `json`: {told}."] if told else []


def costs(report: dict[str, Any]) -> Rows:
    figures = report["overhead"]
    rows: list[tuple[str, object]] = [
        ("time inside the radix cache", percent(figures["zero_reuse_share"], 3)),
        ("wall time, cache on over off", figures["cache_on_over_off"]),
        ("wall time outside the model", percent(figures["outside_model_share"], 2)),
        ("outside the model, a step", f"{figures['outside_model_ms']:.2f} ms"),
        ("recording, at worst", percent(figures["recording_share"], 2)),
        *((f"a step of {n} running", f"{ms:.2f} ms") for n, ms in figures["step_ms"].items()),
        *(
            (f"a step of 64 running, {n} waiting", f"{ms:.2f} ms")
            for n, ms in figures["step_ms_waiting"].items()
        ),
    ]
    return table(["with prompts that share nothing", ""], rows)


def scale(report: dict[str, Any]) -> Rows:
    lines: Rows = []
    for kind, by_size in report["scale"].items():
        columns = [kind, *next(iter(by_size.values()))]
        lines += [*table(columns, ((size, *c.values()) for size, c in by_size.items())), ""]
    return lines[:-1]


def branches_and_prompts(report: dict[str, Any]) -> Rows:
    """Those figures of `scale` that the model's own time is in."""
    both = report["scale"]
    return [
        *table(
            ["branches of a 1,000-token prompt", "ms each, 8 tokens", "outside the model"],
            (
                (n, c["model_ms_each"], f"{c['outside_ms_each']:.2f} ms")
                for n, c in both["branches"].items()
            ),
        ),
        "",
        *table(
            ["prompt tokens", "first token s"],
            ((n, c["ttft_s"]) for n, c in both["prompt"].items()),
        ),
    ]


def startup(report: dict[str, Any]) -> Rows:
    seconds = report["seconds"]
    return [
        f"A median of {report['median_s']:.1f} s, {min(seconds):.1f} to {max(seconds):.1f} over "
        f"{len(seconds)} starts."
    ]


def replicas(report: dict[str, Any]) -> Rows:
    rows = [
        (
            number,
            way,
            percent(figures["hit_rate"]),
            percent(figures["best_hit_rate"]),
            figures["imbalance"],
            percent(figures["efficiency"], 0),
        )
        for number, by_way in report["replicas"].items()
        for way, figures in by_way.items()
    ]
    columns = ("hit rate", "of one endless cache", "busiest over mean", "efficiency")
    return table(["replicas", "routing", *columns], rows)
