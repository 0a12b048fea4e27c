"""Merging of the parts' logs into one JSON, shares of the reachable rates, and tables for reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_parts.bench import read_log, short

PARTS = ("rates", "traces", "operators", "settings", "cases")
USUAL = PARTS[:4]
"""Parts that run unless some are named."""


def reachable(rates: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The best rate measured for each type, and of memory beyond the cache: TFLOP/s and GB/s."""
    best: dict[str, float] = {}
    cold = any(row.get("cold") for row in rates.values())  # without a GPU there are no such rows
    for name, row in rates.items():
        if name.startswith("matmul/") and "tflops" in row:
            best[row["kind"]] = max(best.get(row["kind"], 0.0), row["tflops"])
        if name.startswith("memory/") and "gbs" in row and (row["cold"] or not cold):
            for key in (f"memory_{row['kind']}", "memory"):
                if row["size"] >= 64 << 20 or not row["cold"]:
                    best[key] = max(best.get(key, 0.0), row["gbs"])
    return best


def shares(operators: dict[str, dict[str, Any]], best: dict[str, float]) -> None:
    """Put the limit at reachable rates, what bounds it, and the share of it that was reached, into each operator."""
    for row in operators.values():
        if "ms" not in row:
            continue
        rate, memory = best.get(row["kind"]), best.get("memory")
        compute_ms = row["flops"] / rate / 1e9 if rate else None
        memory_ms = row["bytes"] / memory / 1e6 if memory else None
        known = [limit for limit in (compute_ms, memory_ms) if limit is not None]
        if not known:
            continue
        row["limit_ms"] = max(known)
        row["bound"] = "compute" if compute_ms is not None and compute_ms == row["limit_ms"] else "memory"
        row["share"] = row["limit_ms"] / (row.get("kernel_ms") or row["ms"])


def merged(folder: Path, seconds: float) -> dict[str, Any]:
    """All figures of *folder*'s logs."""
    logs = {part: read_log(folder / f"{part}.jsonl") for part in PARTS}
    best = reachable(logs["rates"])
    shares(logs["operators"], best)
    return {"seconds": round(seconds, 1), "device": logs["rates"].get("device", {}), "reachable": best, **logs}


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return [
        *lines,
        *("| " + " | ".join(str("" if cell is None else short(cell)) for cell in row) + " |" for row in rows),
        "",
    ]


def failures(log: dict[str, dict[str, Any]]) -> list[str]:
    """Lines on all that failed or was skipped."""
    bad = [
        f"- {name}: {row.get('error') or row.get('skipped')}"
        for name, row in log.items()
        if "error" in row or "skipped" in row
    ]
    return [f"{len(bad)} without a figure:", "", *(line.replace("\n", " ")[:300] for line in bad), ""] if bad else []


def plain(row: dict[str, Any]) -> str:
    """Its scalar figures in one cell."""
    return ", ".join(f"{key} {short(value)}" for key, value in row.items() if not isinstance(value, (dict, list)))


def cases(log: dict[str, dict[str, Any]]) -> list[str]:
    """Slow kernels beside their remedies; the gain is that of one row of work, where the remedy does more of them."""
    head = ["case", "reason", "remedy", "operator", "shapes", "type", "ms", "remedy ms", "gain", "first kernel"]
    rows = [
        [
            name.removeprefix("case/"),
            row["reason"] or "none",
            row["fix"],
            row.get("op"),
            " ".join("x".join(map(str, shape)) for shape in row.get("shapes", [])[:3]),
            row.get("dtype"),
            row["ms"],
            row.get("fixed_ms"),
            row.get("gain"),
            (row.get("kernels") or [[""]])[0][0][:90].replace("|", "/"),
        ]
        for name, row in log.items()
        if "ms" in row
    ]
    return ["## Cases", "", *table(head, rows), *failures(log)]


def markdown(found: dict[str, Any]) -> str:
    """Tables of all parts."""
    lines = [
        f"# {found['device'].get('name', 'CPU')}, torch {found['device'].get('torch')}",
        "",
        plain(found["device"]),
        "",
    ]
    lines += [
        "## Reachable",
        "",
        *table(["what", "TFLOP/s or GB/s"], [[key, value] for key, value in found["reachable"].items()]),
    ]
    rates = found["rates"]
    sides = sorted({row["m"] for name, row in rates.items() if name.startswith("matmul/") and "m" in row})
    kinds = list(dict.fromkeys(name.split("/")[1] for name in rates if name.startswith("matmul/")))
    cell = lambda kind, side: rates.get(f"matmul/{kind}/{side}", {}).get("tflops")  # noqa: E731
    lines += [
        "## Square matmul, TFLOP/s",
        "",
        *table(["type", *map(str, sides)], [[k, *(cell(k, s) for s in sides)] for k in kinds]),
    ]
    skinny = [
        [name[7:], row.get("tflops"), row.get("gbs"), row.get("ms")]
        for name, row in rates.items()
        if name.startswith("skinny/")
    ]
    lines += ["## Skinny matmul", "", *table(["type/m x side", "TFLOP/s", "GB/s", "ms"], skinny)]
    for title, begin in (("Memory", "memory/"), ("Host and device", "transfer/")):
        rows = [
            [name.partition("/")[2], row.get("gbs"), row.get("ms", row.get("wall_ms"))]
            for name, row in rates.items()
            if name.startswith(begin)
        ]
        lines += [f"## {title}", "", *table(["what", "GB/s", "ms"], rows)]
    lines += ["## Launches, waits, profiler", ""]
    for name, row in rates.items():
        if name.startswith(("launch/", "profiler")):
            lines += [f"{name}", "", *table(["what", "value"], [[key, value] for key, value in row.items()])]
    lines += failures(rates)
    lines += ["## Operators", ""]
    head = ["operator", "shape", "GFLOP", "MB", "ms", "kernel ms", "TFLOP/s", "GB/s", "bound", "share", "first kernel"]
    rows = [
        [
            name,
            row["shape"],
            row["flops"] / 1e9,
            row["bytes"] / 1e6,
            row["ms"],
            row.get("kernel_ms"),
            row["tflops"],
            row["gbs"],
            row.get("bound"),
            row.get("share"),
            (row.get("kernels") or [[""]])[0][0][:90].replace("|", "/"),
        ]
        for name, row in found["operators"].items()
        if "ms" in row
    ]
    lines += [*table(head, rows), *failures(found["operators"]), "## Settings", ""]
    for name, row in found["settings"].items():
        if "variants" in row:
            first = next((each for each in row["variants"].values() if "ms" in each), None)
            head = ["variant", "ms", "kernel ms", "wall ms", "times faster", "first kernel"]
            rows = []
            for label, each in row["variants"].items():
                faster = first["ms"] / each["ms"] if first and each.get("ms") else None
                kernel = (
                    (each.get("kernels") or [[each.get("error", "")]])[0][0] if "error" not in each else each["error"]
                )
                rows.append(
                    [
                        label,
                        each.get("ms"),
                        each.get("kernel_ms"),
                        each.get("wall_ms"),
                        faster,
                        kernel[:90].replace("|", "/").replace("\n", " "),
                    ]
                )
            lines += [name, "", *table(head, rows)]
    lines += [*failures(found["settings"]), "## Traces", ""]
    lines += table(
        ["trace", "what"], [[name, plain(row)] for name, row in found["traces"].items() if "error" not in row]
    )
    return "\n".join([*lines, *failures(found["traces"]), *cases(found["cases"])])
