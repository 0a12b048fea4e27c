"""What ``advisor rules new`` writes: a rule and its proof that hold as they stand, to be changed."""

from __future__ import annotations

# frame -> (a condition, the evidence, the call that plants the symptom, its harmless twin)
FRAMES = {
    "kernels": (
        "contains(name, 'my_kernel') AND dur_ns >= $min_ns",
        ["name", "count(*) AS n", "sum(cost_ns) / 1e6 AS cost_ms"],
        'b.kernel("my_kernel", us=us)',
        'b.kernel("another_kernel", us=us)',
    ),
    "copies": (
        "direction = 'DtoD' AND dur_ns >= $min_ns",
        ["op", "count(*) AS n", "sum(bytes) / 1e6 AS mb", "sum(cost_ns) / 1e6 AS cost_ms"],
        'b.copy("DtoD", 1 << 20, us=us)',
        'b.copy("HtoD", 1 << 20, us=us, pinned=True)',
    ),
    "memsets": (
        "dur_ns >= $min_ns",
        ["op", "count(*) AS n", "sum(cost_ns) / 1e6 AS cost_ms"],
        "b.memset(1 << 20, us=us)",
        'b.kernel("another_kernel", us=us)',
    ),
}

_RULE = '''\
id         = "{id}"
since      = "0.1"
title      = "One line a reader understands: what is wrong"
why        = """
What happens, and why it costs.

When it is harmless.
"""
needs      = ["gpu"]        # gpu host steps shapes stacks memory distributed loader ranks idle gc
given      = ""             # SQL over `trace`: of which programs the rule speaks at all
confidence = "possible"     # certain | likely | possible
yields_to  = []             # rules that own these rows where they fire too

[match]
frame    = "{frame}"        # advisor query --schema {frame}
where    = "{where}"
evidence = [
{evidence}
]

[limits]
min_ns = {{ value = 100000, unit = "ns", basis = "why this number and no other" }}

[levels]                    # shares of the time that the matched rows own; for a risk that costs no time: severity = "note"
low    = 0.01
medium = 0.05
high   = 0.10

[fix]
title  = "What to do, in a few words"
effort = "one line"
before = \'\'\'
y = model(x)
\'\'\'
after  = \'\'\'
y = better(model, x)
\'\'\'
caveat = "What may change: accuracy, convergence, memory."
verify = "how the next trace shows that it worked"

[replay]                    # which part of the owned time the fix returns, cautiously and at most
action = "remove"           # remove | hide | scale | unblock | merge | batch
low    = 0.5
high   = 1.0
basis  = "prior: where the two figures come from"

[[references]]
title = "Where to read more"
url   = "https://docs.pytorch.org/docs/stable/profiler.html"
'''

_PROOF = '''\
"""What {id} says, and where it is silent."""

from advisor.testing import TraceBuilder
from advisor.testing.lacking import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(us: int, *, symptom: bool = True) -> TraceBuilder:
    """Four steps, each with the symptom (or without it) beside 8 ms of work."""
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            if symptom:
                {symptom}
            else:
                {twin}
            b.kernel("volta_sgemm_128x64_nn", us=8000)
    return b


@fires(cost_ms=2.0, occurrences=4, severity="high")
def two_ms_in_every_step() -> TraceBuilder:
    return steps(2000)


@quiet
def other_work_of_the_same_length() -> TraceBuilder:
    return steps(2000, symptom=False)


@edge
def rows_of_a_tenth_of_a_millisecond(over: bool) -> TraceBuilder:
    return steps(100 if over else 99)


@lacks("gpu")
def launches_without_gpu_work() -> TraceBuilder:
    return launches_alone("aten::mm")
'''


def rule(rule_id: str, frame: str) -> str:
    """The text of a rule over *frame*."""
    where, evidence, _, _ = FRAMES[frame]
    items = "\n".join(f'    "{item}",' for item in evidence)
    return _RULE.format(id=rule_id, frame=frame, where=where, evidence=items)


def proof(rule_id: str, frame: str) -> str:
    """The text of its proof."""
    _, _, symptom, twin = FRAMES[frame]
    return _PROOF.format(id=rule_id, symptom=symptom, twin=twin)
