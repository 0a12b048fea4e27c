"""Builds three short traces of one training loop, for the page on the gate. No recordings: see README.md beside it.

    python sample_traces/gate/build.py

Eight steps each, with a little noise in every kernel and every wait, so that the gate has something to see through.
"""

from __future__ import annotations

import random
from pathlib import Path

from advisor.testing import TraceBuilder

HERE = Path(__file__).resolve().parent
STEPS = 8
LAYERS = 24
BATCH = 19_267_584  # 32 images, 3 x 224 x 224, float32
TRACES = {"workers": (4, False), "no_workers": (0, False), "pinned": (4, True)}


def loop(workers: int, pinned: bool) -> TraceBuilder:
    """One loop: load a batch, copy it over, forward, backward, one fused optimizer step."""
    noise = random.Random(20_261_121)
    made = TraceBuilder("Tesla V100-SXM2-16GB", profile_memory=False, host_us=5, latency_us=2)

    def about(us: float) -> int:
        return round(us * noise.uniform(0.985, 1.015))

    def layer(name: str, kernel: str, us: float) -> None:
        with made.op(name):
            made.kernel(kernel, us=about(us))

    for _ in range(STEPS):
        with made.step():
            with made.python("train.py(31): train"), made.loader(us=about(300 if workers else 21_000), workers=workers):
                pass
            with made.python("train.py(32): train"), made.op("aten::copy_"):
                made.copy("HtoD", BATCH, us=about(1650), pinned=pinned)
            with made.python("train.py(33): train"):
                for _ in range(LAYERS):
                    layer("aten::cudnn_convolution", "volta_scudnn_128x64_relu_xregs_large_nn_v1", 420)
            with made.python("train.py(35): train"):
                for _ in range(LAYERS):
                    layer("aten::convolution_backward", "volta_scudnn_128x64_stridedB_interior_nn_v1", 790)
            with made.python("train.py(36): train"), made.op("aten::_fused_sgd_"):
                made.kernel(
                    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<fused_sgd>", us=about(640)
                )
            made.sync()
    return made


if __name__ == "__main__":
    for name, (workers, pinned) in TRACES.items():
        loop(workers, pinned).write(HERE / f"{name}.json.gz")
