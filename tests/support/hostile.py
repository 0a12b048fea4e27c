"""A trace in which every name is an attack: on HTML, on Markdown, on a terminal, on the reader's eyes, and on patience."""

from __future__ import annotations

import json
from pathlib import Path

from advisor.testing import TraceBuilder

BREAKOUT = "</script></style></title><script>window.owned=1;alert(1)</script>"
HANDLER = '"\'><img src=x onerror="window.owned=2;alert(2)"><svg onload=alert(3)>'
STEERING = "\u202egnp.exe\u2066\x1b[2J\x1b]0;owned\x07\x00\u2028\x9b31m"
TEMPLATE = "{{7*7}}{% raw %}${alert(4)}`javascript:alert(5)"
MARKDOWN = "|`\\|@everyone #1 [x](javascript:alert(6)) ![x](https://evil.example/p.png) <b>b</b>"
EVIL = BREAKOUT + HANDLER + STEERING + TEMPLATE + MARKDOWN
LONG = "x" * 100_000 + EVIL


def name(kind: str) -> str:
    """A name that is an attack and tells which it is."""
    return f"{kind}{EVIL}"


def hostile() -> TraceBuilder:
    """Three steps with findings whose evidence, places, modules and operators are attacks."""
    b = TraceBuilder(name("gpu"), memory_gb=16)
    b.pool(allocated=1_000_000, reserved=2 << 20)
    for _ in range(3):
        with b.step():
            with b.loader(ms=20):
                pass
            with b.python(f"/tmp/{name('folder')}/train.py(54): {name('function')}"):
                b.copy("HtoD", nbytes=19_267_584, us=9_650)
                with b.module(name("Net") + "_0"), b.op(name("aten::op"), shapes=[[8, 512]], seq=7):
                    allocation = b.memory(4_000_000)
                    b.kernel(name("volta_sgemm_128x64_nn"), us=9_000)
                    b.kernel(LONG, us=500)
                with b.annotation(name("note")), b.op(LONG):
                    b.kernel(name("kernel"), us=500)
                b.item()
                b.release(allocation)
    return b


def write_hostile(path: Path) -> Path:
    """The trace on disk, with a PyTorch version that is an attack, too."""
    raw = json.loads(hostile().to_json())
    raw["trace_id"] = EVIL
    raw["pytorch_version"] = raw["torch_version"] = EVIL
    path.write_text(json.dumps(raw))
    return path
