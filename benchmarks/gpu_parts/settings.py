"""Returns of a change of a setting: the same work with the old setting and the new, in ms, by kernel class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gpu_parts.bench import Bench, Call, precision
from gpu_parts.formulas import Conv
from gpu_parts.operators import Maker, convolution, convolution_backward, parameters
from gpu_parts.traces import Block, convnet, training

Variants = dict[str, Callable[[], Call]]


def compared(
    bench: Bench,
    name: str,
    kernel: str,
    variants: Variants,
    spend_ms: float = 25.0,
    size: int = 1 << 40,
    wall: bool = False,
) -> None:
    """Measure each of *variants*; one that fails keeps its error and the others their figures.

    *size* is what one call reads and writes, as inputs are rotated; not where wall time is taken as well. Settings (TF32,
    cudnn.benchmark) are made by the variant's own builder and reset behind it.
    """

    def job() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for label, build in variants.items():
            precision("fp32")
            torch.backends.cudnn.benchmark = False
            try:
                call = bench.rotated(build, 0 if wall else size)
                found[label] = bench.timed(call, spend_ms)
                found[label]["wall_ms"] = bench.walled(call) if wall else None
                found[label] |= bench.profiled(call, 2)
                found[label]["kernels"] = found[label]["kernels"][:6]
            except Exception as error:
                found[label] = {"error": f"{type(error).__name__}: {error}"[:400]}
                if "CUDA error" in str(error):
                    raise
            finally:
                torch.backends.cudnn.benchmark = False
        return {"class": kernel, "variants": found}

    bench.measure(name, job)


def with_precision(kind: str, build: Callable[[Maker], Call], bench: Bench) -> Callable[[], Call]:
    """A builder that sets TF32 for *kind* and makes inputs of its type."""

    def made() -> Call:
        precision(kind)
        return build(Maker(bench, kind))

    return made


def products(bench: Bench) -> None:
    """fp32, TF32, bf16, fp16 by shape; odd sizes and their padded ones."""
    shapes = bench.pick(
        {
            "4096x4096x4096": (4096, 4096, 4096),
            "bert_16384x768x3072": (16384, 768, 3072),
            "llama_4096x4096x14336": (4096, 4096, 14336),
            "small_512": (512, 512, 512),
            "decode_1x4096x14336": (1, 4096, 14336),
            "decode_32x4096x14336": (32, 4096, 14336),
            "skinny_k_8192x64x8192": (8192, 64, 8192),
        },
        {"64": (64, 64, 64)},
    )
    for name, (m, k, n) in shapes.items():

        def build(make: Maker, m: int = m, k: int = k, n: int = n) -> Call:
            a, b = make(m, k), make(n, k).t()
            return lambda: torch.mm(a, b)

        variants = {
            kind: with_precision(kind, build, bench)
            for kind in bench.pick(("fp32", "tf32", "bf16", "fp16"), ("fp32", "bf16"))
        }
        compared(bench, f"precision/mm/{name}", "gemm", variants, size=2 * (m * k + k * n + m * n))
    sizes = bench.pick((4095, 4096, 4088, 4100, 4097, 4104), (63, 64))
    for kind in bench.pick(("bf16", "tf32"), ("fp32",)):
        odd: Variants = {}
        for side in sizes:

            def square(make: Maker, side: int = side) -> Call:
                a, b = make(side, side), make(side, side).t()
                return lambda: torch.mm(a, b)

            odd[str(side)] = with_precision(kind, square, bench)
        compared(bench, f"alignment/mm/{kind}", "gemm", odd)
    waves = bench.pick((1024, 1536, 2048, 2304, 2560, 2816, 3072, 3328), (48, 64))
    tiles: Variants = {}
    for side in waves:

        def waved(make: Maker, side: int = side) -> Call:
            a, b = make(side, 4096), make(side, 4096).t()
            return lambda: torch.mm(a, b)

        tiles[str(side)] = with_precision(bench.pick("bf16", "fp32"), waved, bench)
    compared(bench, "waves/mm/bf16 (side x 4096 x side)", "gemm", tiles, size=20 << 20)


def convolutions(bench: Bench) -> None:
    """Type, layout and cudnn.benchmark, forward and both backward passes."""
    shapes = bench.pick(
        {
            "3x3_64": Conv(64, 64, 64, 56, 3, 1, 1),
            "3x3_256": Conv(64, 256, 256, 14, 3, 1, 1),
            "1x1": Conv(64, 256, 64, 56, 1),
            "stem": Conv(64, 3, 64, 224, 7, 2, 3),
            "depthwise": Conv(64, 144, 144, 56, 3, 1, 1, 1, 144),
            "grouped": Conv(64, 256, 256, 28, 3, 1, 1, 1, 32),
            "dilated": Conv(16, 256, 256, 56, 3, 1, 2, 2),
            "small_batch": Conv(1, 256, 256, 56, 3, 1, 1),
        },
        {"3x3_64": Conv(2, 8, 8, 14, 3, 1, 1)},
    )
    kinds = bench.pick(("fp32", "tf32", "bf16", "fp16"), ("fp32",))
    for name, conv in shapes.items():
        for mask in ("", "input", "weight"):
            if mask and name not in ("3x3_64", "3x3_256", "depthwise"):
                continue
            variants: Variants = {}
            for kind in kinds:
                for layout in ("nchw", "nhwc"):
                    for tuned in (False, True):
                        if kind == "fp16" and (tuned or mask):
                            continue

                        def build(
                            make: Maker, layout: str = layout, tuned: bool = tuned, conv: Conv = conv, mask: str = mask
                        ) -> Call:
                            torch.backends.cudnn.benchmark = tuned
                            return (
                                convolution_backward(conv, make, layout, mask)
                                if mask
                                else convolution(conv, make, layout)
                            )

                        label = f"{kind} {layout}" + (" benchmark" if tuned else "")
                        variants[label] = with_precision(kind, build, bench)
            compared(
                bench,
                f"conv{'_' + mask if mask else ''}/{name}",
                "convolution",
                variants,
                12.0,
                size=conv.work(2).bytes,
            )


def chain(k: int, x: torch.Tensor) -> torch.Tensor:
    """*k* pointwise operators."""
    for number in range(k):
        x = x * 1.01 if number % 2 else x + 0.5
    return x


def by_hand(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Attention as textbooks write it."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ value


def attention(bench: Bench) -> None:
    """By hand and as one operator, forward, and forward with backward."""
    shapes = bench.pick(
        {
            "llm_2048": (4, 32, 2048, 128),
            "bert_512": (32, 12, 512, 64),
            "vit_197": (64, 12, 197, 64),
            "short_64": (64, 12, 64, 64),
        },
        {"short": (1, 2, 16, 8)},
    )
    for name, (b, h, s, d) in shapes.items():
        for causal in (False, True):
            for gradient in (False, True):
                make = Maker(bench, bench.pick("bf16", "fp32"))

                def build(
                    one: bool,
                    shape: tuple[int, ...] = (b, h, s, d),
                    causal: bool = causal,
                    gradient: bool = gradient,
                    make: Maker = make,
                ) -> Call:
                    query, key, value = (make(*shape, gradient=gradient) for _ in range(3))
                    length = shape[2]
                    mask = (
                        torch.ones(length, length, dtype=torch.bool, device=bench.device).triu(1)
                        if causal and not one
                        else None
                    )

                    def call() -> Any:
                        if one:
                            out = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
                        else:
                            out = by_hand(query, key, value, mask)
                        return torch.autograd.grad(out, [query, key, value], out.detach()) if gradient else out

                    return call

                label = f"attention/{name}{'/causal' if causal else ''}{'/forward+backward' if gradient else ''}"
                compared(
                    bench, label, "attention", {"by hand": lambda b=build: b(False), "sdpa": lambda b=build: b(True)}
                )


def host_bound(bench: Bench) -> None:
    """Optimizers, copies, graphs, gradients cleared and clipped: wall time counts."""
    for label, width in bench.pick((("small", 32), ("medium", 256), ("large", 1024)), (("small", 8),)):
        variants: Variants = {}
        for name, options in (
            ("for loop", {"foreach": False}),
            ("foreach", {"foreach": True}),
            ("fused", {"fused": True}),
        ):

            def build(options: dict[str, bool] = options, width: int = width) -> Call:
                return torch.optim.AdamW(parameters(bench, width), lr=1e-4, **options).step

            variants[name] = build
        compared(bench, f"optimizer/200 tensors/{label}", "optimizer", variants, wall=True)

        def clip(foreach: bool, width: int = width) -> Call:
            given = parameters(bench, width)
            return lambda: torch.nn.utils.clip_grad_norm_(given, 1.0, foreach=foreach)

        compared(
            bench,
            f"clip_grad_norm/{label}",
            "optimizer",
            {"for loop": lambda c=clip: c(False), "foreach": lambda c=clip: c(True)},
            wall=True,
        )
    if not bench.gpu:
        return
    for size in (1 << 20, 16 << 20, 64 << 20, 256 << 20):

        def copy(pinned: bool, blocking: bool, size: int = size) -> Call:
            host = torch.ones(size, dtype=torch.uint8, pin_memory=pinned)
            there = torch.empty(size, dtype=torch.uint8, device=bench.device)
            return lambda: there.copy_(host, non_blocking=not blocking)

        both = {
            "pageable": lambda c=copy: c(False, True),
            "pageable non_blocking": lambda c=copy: c(False, False),
            "pinned": lambda c=copy: c(True, True),
            "pinned non_blocking": lambda c=copy: c(True, False),
        }
        compared(bench, f"copy/{size >> 20} MiB", "copy", both, wall=True)
    for count in (10, 50, 200, 800):
        for elements in (64, 1 << 20):

            def loop(graph: bool, count: int = count, elements: int = elements) -> Call:
                x = torch.ones(elements, device=bench.device)

                def many() -> None:
                    for _ in range(count):
                        x.mul_(1.0001)

                many()
                if not graph:
                    return many
                bench.sync()
                captured = torch.cuda.CUDAGraph()
                with torch.cuda.graph(captured):
                    many()

                def replay() -> torch.Tensor:
                    captured.replay()
                    return x  # which must live as long as the graph writes to it

                return replay

            pair = {"launches": lambda made=loop: made(False), "graph": lambda made=loop: made(True)}
            compared(bench, f"graph/{count} kernels of {elements}", "pointwise", pair, wall=True)


def fused(bench: Bench) -> None:
    """Library operators for hand-written ones, then what torch.compile returns; each compilation takes seconds."""
    rows, width = bench.pick((16384, 4096), (32, 64))
    make = Maker(bench, bench.pick("bf16", "fp32"))

    def on(call: Callable[[torch.Tensor], Any], *shape: int) -> Callable[[], Call]:
        def build() -> Call:
            x = make(*(shape or (rows, width)))
            return lambda: call(x)

        return build

    weight, bias = make(width), make(width)

    def layer_norm(x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).square().mean(-1, keepdim=True)
        return (x - mean) * (variance + 1e-5).rsqrt() * weight + bias

    def rms_norm(x: torch.Tensor) -> torch.Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight

    compile: Callable[[Any], Any] = (lambda f: torch.compile(f, dynamic=False)) if bench.gpu else (lambda f: f)
    library = lambda x: functional.layer_norm(x, (width,), weight, bias)  # noqa: E731
    compared(
        bench,
        "norm/layer_norm",
        "normalization",
        {"by hand": on(layer_norm), "library": on(library), "compiled": on(compile(layer_norm))},
    )
    library = lambda x: functional.rms_norm(x, (width,), weight)  # noqa: E731
    compared(
        bench,
        "norm/rms_norm",
        "normalization",
        {"by hand": on(rms_norm), "library": on(library), "compiled": on(compile(rms_norm))},
    )
    tanh = lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))  # noqa: E731
    library = lambda x: functional.gelu(x, approximate="tanh")  # noqa: E731
    compared(
        bench,
        "pointwise/gelu_by_hand",
        "pointwise",
        {"by hand": on(tanh), "library": on(library), "compiled": on(compile(tanh))},
    )
    for k in (2, 4, 8, 16):
        for elements in bench.pick((1 << 14, 1 << 25), (1 << 10,)):
            if bench.gpu:
                torch.compiler.reset()  # all chains share one code object, which is compiled a few times at most
            eager = lambda x, k=k: chain(k, x)  # noqa: E731
            pair = {"eager": on(eager, elements), "compiled": on(compile(eager), elements)}
            compared(bench, f"pointwise/chain of {k} on {elements}", "pointwise", pair, wall=True)


def models(bench: Bench) -> None:
    """Whole training steps, one setting after another."""
    images, channels, side = bench.pick((64, 64, 128), (2, 4, 16))

    def pictures(
        kind: str, last: bool = False, amp: bool = False, tuned: bool = False, compile: bool = False, fuse: bool = False
    ) -> Callable[[], Call]:
        def build() -> Call:
            precision(kind)
            torch.backends.cudnn.benchmark = tuned
            model: Any = convnet(channels).to(bench.device)
            x = torch.randn(images, 3, side, side, device=bench.device)
            if last:
                model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
            return training(
                bench,
                torch.compile(model) if compile else model,
                x,
                amp=torch.bfloat16 if amp else None,
                **({"fused": True} if fuse else {}),
            )

        return build

    ladder: Variants = {"fp32": pictures("fp32"), "bf16 autocast": pictures("fp32", amp=True)}
    if bench.gpu:
        ladder |= {
            "tf32": pictures("tf32"),
            "tf32 channels_last": pictures("tf32", True),
            "bf16 channels_last": pictures("tf32", True, True),
            "bf16 channels_last benchmark": pictures("tf32", True, True, True),
            "bf16 channels_last benchmark fused optimizer": pictures("tf32", True, True, True, False, True),
            "bf16 channels_last benchmark fused optimizer compiled": pictures("tf32", True, True, True, True, True),
        }
    compared(bench, "model/convnet training", "model", ladder, 60.0, wall=True)
    width, heads, batch, length = bench.pick((1024, 16, 8, 1024), (32, 4, 1, 8))

    def texts(kind: str, hand: bool, amp: bool = False, compile: bool = False) -> Callable[[], Call]:
        def build() -> Call:
            precision(kind)
            model: Any = nn.Sequential(*[Block(width, heads, 0, hand) for _ in range(2)]).to(bench.device)
            x = torch.randn(batch, length, width, device=bench.device)
            return training(bench, torch.compile(model) if compile else model, x, amp=torch.bfloat16 if amp else None)

        return build

    ladder = {
        "fp32 by hand": texts("fp32", True),
        "fp32 sdpa": texts("fp32", False),
        "bf16 sdpa": texts("fp32", False, True),
    }
    if bench.gpu:
        ladder |= {
            "tf32 by hand": texts("tf32", True),
            "bf16 by hand": texts("tf32", True, True),
            "tf32 sdpa": texts("tf32", False),
            "bf16 sdpa compiled": texts("tf32", False, True, True),
        }
    compared(bench, "model/transformer training", "model", ladder, 60.0, wall=True)


def run(bench: Bench) -> None:
    """All of them; what compiles last."""
    products(bench)
    host_bound(bench)
    attention(bench)
    convolutions(bench)
    models(bench)
    fused(bench)
