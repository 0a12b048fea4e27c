"""A program whose analysis has something of everything: attention by hand, whose GPU waits for the host."""

from __future__ import annotations

from pathlib import Path

from advisor.testing import TraceBuilder


def attention_by_hand(path: Path) -> Path:
    """Write three steps of it: rows of `patterns` and of `gaps`, and prices."""
    builder = TraceBuilder()
    for _ in range(3):
        with builder.step(), builder.python("train.py(3): train"):
            for name, shapes in (
                ("aten::bmm", [[8, 64, 32], [8, 32, 64]]),
                ("aten::_softmax", [[8, 64, 64]]),
                ("aten::bmm", [[8, 64, 64], [8, 64, 32]]),
            ):
                with builder.op(name, shapes=shapes):
                    builder.kernel(f"kernel_of_{name[6:]}", us=90)
                builder.idle(us=300)
            builder.sync()
    return builder.write(path)
