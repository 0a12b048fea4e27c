"""A scripted agent: for each kind of question the calls that it makes, and how it reads their answers.

It knows the kind, never the trace or the key: one recipe answers all questions of a kind, and says "cannot answer" (None) where
the tools say that the trace does not tell. It sees nothing but the text of answers, as a model does.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

Call = Callable[[str, dict[str, Any]], Awaitable[str]]
Cell = float | str | None
OPEN, CLOSE = "<<<TRACE\n", "\nTRACE>>>"
WORK = (
    "(" + " UNION ALL ".join(f"SELECT start_ns, dur_ns FROM {name}" for name in ("kernels", "copies", "memsets")) + ")"
)
# Each piece of work with the latest end before it: where that lies before its start, the GPU idles.
SPANS = f"""(SELECT start_ns, start_ns + dur_ns AS end_ns, max(start_ns + dur_ns) OVER (ORDER BY start_ns, dur_ns
 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns FROM {WORK})"""
IDLE = "greatest(start_ns - before_ns, 0)"
COMMUNICATION = "kind = 'communication'"
# Each kernel with the latest end before it: what begins behind that is not counted yet.
KERNELS = """(SELECT start_ns, start_ns + dur_ns AS end_ns, max(start_ns + dur_ns) OVER (ORDER BY start_ns, dur_ns
 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns FROM kernels)"""
NODE = "autograd::engine::evaluate_function: "

# SQL by kind, {} the argument; the answer is its one cell, None where that is empty.
SQL = {
    "kernel_count": "SELECT nullif(count(*), 0) FROM kernels",
    "kernel_ms": "SELECT sum(dur_ns) / 1e6 FROM kernels",
    "top_kernel": "SELECT name FROM kernels GROUP BY name ORDER BY sum(dur_ns) DESC LIMIT 1",
    "top_kernel_share": "SELECT 100 * max(ns) / sum(ns) FROM (SELECT sum(dur_ns) AS ns FROM kernels GROUP BY name)",
    "longest_kernel_us": "SELECT max(dur_ns) / 1e3 FROM kernels",
    "short_kernels": "SELECT nullif(count(*), 0) FROM kernels WHERE dur_ns < 1000 * {}",
    "name_share": "SELECT 100 * sum(dur_ns) FILTER (name ILIKE '%{}%') / sum(dur_ns) FROM kernels",
    "stream_count": "SELECT nullif(count(DISTINCT (device, stream)), 0) FROM kernels",
    "unlinked_kernels": "SELECT sum((NOT linked)::INT) FROM kernels",
    "launch_delay_us": "SELECT median(start_ns - launch_ns) / 1e3 FROM kernels",
    "busy_share": f"SELECT 100 - 100 * sum({IDLE}) / (max(end_ns) - min(start_ns)) FROM {SPANS}",
    "longest_idle_ms": f"SELECT max({IDLE}) / 1e6 FROM {SPANS}",
    "collective_count": f"SELECT nullif(count(*), 0) FROM kernels WHERE {COMMUNICATION}",
    "collective_share": f"SELECT 100 * sum(dur_ns) FILTER ({COMMUNICATION}) / sum(dur_ns) FROM kernels",
    "overlap_share": "SELECT 100 - 100 * sum(exposed_ns) / sum(dur_ns) FROM collectives",
    "collective_bytes": "SELECT sum(bytes) / 1e6 FROM collectives",
    "op_calls": "SELECT count(*) FROM ops WHERE name = '{}'",
    "op_total_ms": "SELECT sum(dur_ns) / 1e6 FROM ops WHERE name = '{}'",
    "most_called_op": "SELECT name FROM ops GROUP BY name ORDER BY count(*) DESC LIMIT 1",
    "op_shapes": "SELECT nullif(count(DISTINCT shapes), 0) FROM ops WHERE name = '{}'",
    "op_place": "SELECT regexp_extract(file, '[^/]+$') || ':' || line FROM (SELECT name, file, line FROM ops UNION ALL "
    "SELECT name, file, line FROM loader) WHERE name = '{}' AND line >= 0 GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
    "runtime_calls": "SELECT count(*) FROM launches WHERE name = '{}'",
    "longest_runtime_ms": "SELECT max(dur_ns) / 1e6 FROM launches WHERE name = '{}'",
    "copies_count": "SELECT count(*) FROM copies WHERE direction = '{}'",
    "copies_bytes": "SELECT sum(bytes) / 1e6 FROM copies WHERE direction = '{}'",
    "copies_gbps": "SELECT sum(bytes) / sum(dur_ns) FROM copies WHERE direction = '{}'",
    "copies_memory": "SELECT host_memory FROM copies WHERE direction = '{}' GROUP BY 1 ORDER BY sum(bytes) DESC LIMIT 1",
    "step_count": "SELECT count(*) FROM steps WHERE name LIKE 'ProfilerStep#%'",
    "step_host_ms": "SELECT median(host_dur_ns) / 1e6 FROM (SELECT host_dur_ns FROM steps WHERE name LIKE 'ProfilerStep#%' "
    "ORDER BY host_start_ns OFFSET 1)",
    "loader_ms": "SELECT sum(dur_ns) / 1e6 FROM loader",
    "single_process_loader": "SELECT CASE max(iterator) WHEN 'single-process' THEN 'yes' WHEN 'multi-process' THEN 'no' END "
    "FROM loader",
    "loader_workers": "SELECT loader_workers FROM trace",
    "device_name": "SELECT device_name FROM trace",
    "peak_memory": "SELECT max(peak_allocated_bytes) / 1048576 FROM devices",
    "rank": "SELECT rank FROM trace",
    "world_size": "SELECT world_size FROM trace",
    "slowest_step_excess_ms": "SELECT (max(host_dur_ns) - median(host_dur_ns)) / 1e6 FROM steps WHERE name LIKE '{}%'",
    "longest_launch_delay_ms": "SELECT max(start_ns - launch_ns) / 1e6 FROM kernels",
    "exposed_time_ms": "SELECT sum(exposed_ns) / 1e6 FROM collectives WHERE name LIKE '{}%'",
    "top_module_class": "SELECT regexp_replace(regexp_extract(module, '[^/]+$'), '_[0-9]+$', '') FROM kernels "
    "WHERE module <> '' GROUP BY 1 ORDER BY sum(dur_ns) DESC LIMIT 1",
    "copied_bytes": "SELECT sum(bytes) FROM copies WHERE direction = '{}'",
    "collective_bytes_per_step": "SELECT sum(bytes) / (SELECT count(*) FROM steps WHERE name LIKE 'ProfilerStep#%') "
    "FROM collective_calls WHERE replace(kind, '_', '') = '{}'",
    "busy_percent_in_annotation": "SELECT 100 * sum(greatest(least(end_ns, high) - greatest(start_ns, "
    "coalesce(before_ns, low), low), 0)) / any_value(high - low) "
    f"FROM {KERNELS}, (SELECT start_ns AS low, start_ns + dur_ns AS high FROM annotations WHERE name = '{{}}')",
    "top_self_time": "SELECT name FROM ops GROUP BY name ORDER BY sum(self_ns) DESC LIMIT 1",
    "time_to_first_gpu_work_ms": "SELECT (min(start_ns) - (SELECT host_start_ns FROM steps WHERE name = '{}')) / 1e6 "
    f"FROM {WORK}",
    "graph_launch_delay_us": "SELECT (min(kernels.start_ns) - min(launches.start_ns)) / 1e3 FROM launches "
    "JOIN kernels USING (correlation) WHERE launches.name = '{}'",
    "top_backward_node": f"SELECT replace(name, '{NODE}', '') FROM ops WHERE name LIKE '{NODE}%Backward0' GROUP BY name "
    "ORDER BY sum(gpu_ns) DESC LIMIT 1",
    "concurrent_kernel_us": "SELECT sum(CASE WHEN running >= 2 THEN span ELSE 0 END) / 1e3 FROM (SELECT lead(ns) OVER "
    "(ORDER BY ns) - ns AS span, sum(change) OVER (ORDER BY ns) AS running FROM (SELECT ns, sum(change) AS change FROM "
    "(SELECT start_ns AS ns, 1 AS change FROM kernels UNION ALL SELECT start_ns + dur_ns, -1 FROM kernels) GROUP BY ns))",
    "peak_allocated_mib": "SELECT max(peak_allocated_bytes) / 1048576 FROM devices",
    "top_operator": "SELECT op FROM kernels WHERE op LIKE 'aten::%' GROUP BY op ORDER BY sum(dur_ns) DESC LIMIT 1",
    "gpu_busy_ms": f"SELECT sum(greatest(end_ns - greatest(start_ns, coalesce(before_ns, 0)), 0)) / 1e6 FROM {KERNELS}",
    "mean_occupancy_percent": "SELECT sum(occupancy * dur_ns) / sum(dur_ns) FROM kernels WHERE name ILIKE '%{}%' "
    "AND occupancy IS NOT NULL",
    "top_launching_op": "SELECT op FROM kernels WHERE op <> '' GROUP BY op ORDER BY sum(dur_ns) DESC LIMIT 1",
}
CAUSES = ("loader", "copy", "communication", "compute")


class Refused(Exception):
    """A call that the server answered with an error."""


def data_of(answer: str) -> str:
    """Return what an answer holds of the trace."""
    return answer.partition(OPEN)[2].rpartition(CLOSE)[0]


def cell_of(answer: str) -> Cell:
    """Return the one cell of a query's answer: a number, a text, or None for NULL and no row."""
    rows = list(csv.reader(io.StringIO(data_of(answer))))
    if len(rows) < 2 or not rows[1] or rows[1][0] in ("", "None"):
        return None
    text = rows[1][0]
    try:
        return float(text)
    except ValueError:
        return text.removeprefix("'")


async def answer(call: Call, trace: str, kind: str, argument: str) -> Cell:
    """Answer a question by its kind; None: cannot answer."""
    if kind in SQL:
        return cell_of(await call("query", {"trace": trace, "sql": SQL[kind].format(argument)}))
    return await globals()[f"_{kind}"](call, trace, argument)  # type: ignore[no-any-return]


async def _main_cause(call: Call, trace: str, _: str) -> Cell:
    """Ask the shares of the causes: start-up where that is two fifths of the window, else the largest, else the host."""
    shares = ", ".join(f"{name}_share" for name in CAUSES)
    got = await call("query", {"trace": trace, "sql": f"SELECT startup_share, {shares} FROM trace"})
    cells = list(csv.reader(io.StringIO(data_of(got))))[1]
    startup, *rest = (float(text or 0) for text in cells)
    if startup >= 0.4:
        return "startup"
    most = max(rest)
    return CAUSES[rest.index(most)] if most >= 0.4 else "host"


async def _costliest_addmm_shapes(call: Call, trace: str, operator: str) -> Cell:
    """Ask which shapes cost the most, and write the two operands of the product."""
    sql = f"SELECT shapes FROM ops WHERE name = '{operator}' GROUP BY shapes ORDER BY sum(gpu_ns) DESC LIMIT 1"
    shapes = cell_of(await call("query", {"trace": trace, "sql": sql}))
    if not isinstance(shapes, str):
        return None
    return " @ ".join("x".join(map(str, shape)) for shape in json.loads(shapes)[1:3])


async def _matmul_tflops(call: Call, trace: str, argument: str) -> Cell:
    """Ask how many such products there are, and what time the work took that they launched."""
    operator, shapes = argument.split("|")
    (rows, inner), (_, columns) = json.loads(shapes)
    operands = shapes.replace(" ", "")[:-1]  # as frames write them; what follows is the result's
    sql = (
        f"SELECT 2e-3 * {rows} * {inner} * {columns} * count(*) / sum(gpu_ns) FROM ops "
        f"WHERE name = '{operator}' AND shapes LIKE '{operands}%'"
    )
    return cell_of(await call("query", {"trace": trace, "sql": sql}))


async def _least_communication_rank(call: Call, trace: str, _: str) -> Cell:
    """Ask how many ranks there are, then the communication of each."""
    brief = await call("analyze", {"trace": trace})
    count = int(data_of(brief).split()[0])
    times = [
        cell_of(
            await call(
                "query", {"trace": f"{trace}/rank{number}.json.gz", "sql": SQL["kernel_ms"] + f" WHERE {COMMUNICATION}"}
            )
        )
        for number in range(count)
    ]
    known = [float(ms) for ms in times if ms is not None]
    return float(known.index(min(known))) if len(known) == count else None


_rank_with_least_kernel_time = _least_communication_rank


async def _figure(call: Call, trace: str, word: str) -> Cell:
    """Look for a column that tells it, in the frames of the trace, its steps and its devices."""
    for frame in ("devices", "steps", "trace"):
        page, pages = 1, 1
        while page <= pages:
            text = await call("query", {"trace": trace, "sql": f"DESCRIBE {frame}", "page": page})
            names = [line.split()[0] for line in data_of(text).splitlines() if line.strip()]
            if hit := next((name for name in names if word in name.split("_")), None):
                return cell_of(await call("query", {"trace": trace, "sql": f"SELECT {hit} FROM {frame} LIMIT 1"}))
            _, _, of = text.rpartition(f"page {page} of ")
            pages = int(of.split(".")[0].split(";")[0]) if of[:1].isdigit() else 1
            page += 1
    return None
