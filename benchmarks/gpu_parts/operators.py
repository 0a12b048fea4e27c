"""Operators with shapes of usual models, each with the FLOPs and bytes that it needs, its time, and the kernels that ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_parts import formulas
from gpu_parts.bench import Bench, Call, precision
from gpu_parts.formulas import Conv, Work

TYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int64": torch.int64,
}


@dataclass
class Case:
    """An operator: its name, type, what it must do, and how a call with inputs of its own is built."""

    name: str
    kind: str
    work: Work
    build: Callable[[], Call]
    shape: str
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


class Maker:
    """Random inputs of one type on one device."""

    def __init__(self, bench: Bench, kind: str) -> None:
        self.device, self.dtype = bench.device, TYPES[kind]
        self.size = torch.empty((), dtype=self.dtype).element_size()

    def __call__(self, *shape: int, gradient: bool = False) -> torch.Tensor:
        made = torch.randn(*shape, device=self.device, dtype=torch.float32).to(self.dtype)
        return made.requires_grad_(gradient)

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        """Random indexes below *high*."""
        return torch.randint(high, shape, device=self.device)


def backward(build: Callable[[], tuple[torch.Tensor, list[torch.Tensor]]]) -> Call:
    """A call of the backward pass alone: the graph is made once and kept."""
    out, inputs = build()
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def products(bench: Bench) -> Iterator[Case]:
    """Matrix products: square, of language models, skinny, odd; with bias; batched; and of a linear layer's backward pass."""
    shapes = bench.pick(
        (
            ("square", 4096, 4096, 4096),
            ("llama_up", 4096, 4096, 14336),
            ("llama_down", 4096, 14336, 4096),
            ("bert", 16384, 768, 3072),
            ("vocabulary", 4096, 4096, 32000),
            ("odd", 4095, 4095, 4095),
            ("small_k", 8192, 64, 8192),
            ("few_tiles", 512, 8192, 512),
            ("one_wave_and_a_bit", 2304, 4096, 2304),
            ("decode_1", 1, 4096, 14336),
            ("decode_16", 16, 4096, 14336),
        ),
        (("square", 64, 64, 64), ("decode_1", 1, 64, 128)),
    )
    for kind in bench.pick(("bf16", "tf32", "fp32", "fp16"), ("fp32",)):
        make = Maker(bench, kind)
        for name, m, k, n in shapes:
            if kind in ("fp32", "fp16") and name not in ("square", "bert", "odd", "decode_1"):
                continue

            def build(m: int = m, k: int = k, n: int = n, make: Maker = make) -> Call:
                a, b = make(m, k), make(n, k).t()
                return lambda: torch.mm(a, b)

            yield Case(f"mm/{name}", kind, formulas.mm(m, k, n, make.size), build, f"{m}x{k}x{n}")
    for kind in bench.pick(("bf16", "tf32"), ("fp32",)):
        make = Maker(bench, kind)
        m, k, n = bench.pick((16384, 768, 3072), (64, 32, 48))

        def biased(make: Maker = make, m: int = m, k: int = k, n: int = n) -> Call:
            bias, a, b = make(n), make(m, k), make(n, k).t()
            return lambda: torch.addmm(bias, a, b)

        yield Case("addmm/bert", kind, formulas.addmm(m, k, n, make.size), biased, f"{m}x{k}x{n}")
        batch, m, k, n = bench.pick((384, 512, 64, 512), (4, 16, 8, 16))

        def batched(make: Maker = make, batch: int = batch, m: int = m, k: int = k, n: int = n) -> Call:
            a, b = make(batch, m, k), make(batch, k, n)
            return lambda: torch.bmm(a, b)

        yield Case("bmm/scores", kind, formulas.mm(m, k, n, make.size, batch=batch), batched, f"{batch}x{m}x{k}x{n}")
        yield Case(
            "bmm/values",
            kind,
            formulas.mm(m, n, k, make.size, batch=batch),
            lambda make=make, s=(batch, m, n, k): batched(make, *s),
            f"{batch}x{m}x{n}x{k}",
        )

        def added(make: Maker = make, batch: int = batch, m: int = m, k: int = k, n: int = n) -> Call:
            c, a, b = make(batch, m, n), make(batch, m, k), make(batch, k, n)
            return lambda: torch.baddbmm(c, a, b)

        yield Case("baddbmm/alibi", kind, formulas.baddbmm(batch, m, k, n, make.size), added, f"{batch}x{m}x{k}x{n}")
        m, k, n = bench.pick((8192, 4096, 4096), (64, 32, 48))

        def linear(make: Maker = make, m: int = m, k: int = k, n: int = n) -> Call:
            def graph() -> tuple[torch.Tensor, list[torch.Tensor]]:
                x, w = make(m, k, gradient=True), make(n, k, gradient=True)
                return functional.linear(x, w), [x, w]

            return backward(graph)

        yield Case("linear_backward", kind, formulas.linear_backward(m, k, n, make.size), linear, f"{m}x{k}x{n}")
    kind = bench.pick("tf32", "fp32")
    make = Maker(bench, kind)
    steps, batch, width, layers = bench.pick((128, 64, 1024, 2), (4, 2, 16, 2))

    def recurrent() -> Call:
        net, x = nn.LSTM(width, width, layers).to(bench.device), make(steps, batch, width)

        def call() -> Any:
            with torch.no_grad():
                return net(x)

        return call

    yield Case(
        "lstm",
        kind,
        formulas.lstm(steps, batch, width, width, layers, 4),
        recurrent,
        f"{steps}x{batch}x{width}x{layers}",
    )


def convolutions(bench: Bench) -> Iterator[Case]:
    """Convolutions of usual networks by type and layout, and their backward passes."""
    every = [(kind, layout) for kind in ("fp32", "tf32", "bf16", "fp16") for layout in ("nchw", "nhwc")]
    some = [("tf32", "nchw"), ("bf16", "nhwc"), ("bf16", "nchw")]
    shapes: tuple[tuple[str, Conv, list[tuple[str, str]]], ...] = bench.pick(
        (
            ("3x3_256", Conv(64, 256, 256, 14, 3, 1, 1), every),
            ("3x3_64", Conv(64, 64, 64, 56, 3, 1, 1), every),
            ("1x1", Conv(64, 256, 64, 56, 1), some),
            ("1x1_wide", Conv(64, 512, 2048, 7, 1), some),
            ("stem_7x7", Conv(64, 3, 64, 224, 7, 2, 3), some),
            ("stride_2", Conv(64, 128, 128, 56, 3, 2, 1), some),
            ("dilation_2", Conv(16, 256, 256, 56, 3, 1, 2, 2), some),
            ("depthwise", Conv(64, 144, 144, 56, 3, 1, 1, 1, 144), every),
            ("depthwise_7x7", Conv(64, 192, 192, 28, 7, 1, 3, 1, 192), some),
            ("grouped", Conv(64, 256, 256, 28, 3, 1, 1, 1, 32), some),
            ("diffusion", Conv(4, 320, 320, 64, 3, 1, 1), some),
            ("patches", Conv(64, 3, 768, 224, 16, 16), some),
            ("conv1d", Conv(16, 512, 512, 3000, 3, 1, 1, dims=1), some),
            ("conv3d", Conv(4, 64, 64, 28, 3, 1, 1, dims=3), some),
        ),
        (
            ("3x3_64", Conv(2, 8, 8, 14, 3, 1, 1), [("fp32", "nchw"), ("fp32", "nhwc")]),
            ("depthwise", Conv(2, 8, 8, 14, 3, 1, 1, 1, 8), [("fp32", "nchw")]),
            ("conv1d", Conv(2, 8, 8, 40, 3, 1, 1, dims=1), [("fp32", "nchw")]),
        ),
    )
    passes = ("3x3_256", "3x3_64", "1x1", "stride_2", "depthwise", "grouped", "diffusion")
    for name, conv, variants in shapes:
        for kind, layout in variants:
            if conv.dims != 2 and layout == "nhwc" and kind == "bf16" and conv.dims == 1:
                continue  # one spatial dimension has no channels-last layout
            make = Maker(bench, kind)
            yield Case(
                f"conv/{name}/{layout}",
                kind,
                conv.work(make.size),
                lambda a=(conv, make, layout): convolution(*a),
                str(tuple(conv)),
            )
            wanted = (kind, layout) in some or not bench.gpu
            for mask in ("input", "weight") if name in passes and wanted else ():
                yield Case(
                    f"conv_backward_{mask}/{name}/{layout}",
                    kind,
                    conv.work(make.size),
                    lambda a=(conv, make, layout, mask): convolution_backward(*a),
                    str(tuple(conv)),
                )
    for kind in bench.pick(("tf32", "bf16"), ("fp32",)):
        make = Maker(bench, kind)
        n, c, k, side, kernel, stride = bench.pick((16, 128, 64, 128, 2, 2), (2, 8, 4, 8, 2, 2))

        def transposed(
            make: Maker = make,
            n: int = n,
            c: int = c,
            k: int = k,
            side: int = side,
            s: tuple[int, int] = (kernel, stride),
        ) -> Call:
            x, w = make(n, c, side, side), make(c, k, s[0], s[0])
            return lambda: functional.conv_transpose2d(x, w, stride=s[1])

        yield Case(
            "conv_transpose/unet",
            kind,
            formulas.conv_transpose(n, c, k, side, kernel, stride, make.size),
            transposed,
            f"{n}x{c}x{side} to {k}, {kernel}x{kernel}/{stride}",
        )


def tensors(conv: Conv, make: Maker, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Input and weight of *conv* in *layout*."""
    x = make(conv.n, conv.c, *[conv.side] * conv.dims)
    w = make(conv.k, conv.c // conv.groups, *[conv.kernel] * conv.dims)
    if layout == "nhwc":
        form = torch.channels_last if conv.dims == 2 else torch.channels_last_3d
        x, w = x.contiguous(memory_format=form), w.contiguous(memory_format=form)
    return x, w


def convolution(conv: Conv, make: Maker, layout: str) -> Call:
    """A forward pass without bias."""
    x, w = tensors(conv, make, layout)
    apply = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[conv.dims]
    return lambda: apply(x, w, None, conv.stride, conv.padding, conv.dilation, conv.groups)


def convolution_backward(conv: Conv, make: Maker, layout: str, mask: str) -> Call:
    """The gradient of the input or of the weight alone."""
    x, w = tensors(conv, make, layout)
    out = convolution_of(conv, x, w)
    gradient = torch.randn_like(out)
    each = [conv.stride] * conv.dims, [conv.padding] * conv.dims, [conv.dilation] * conv.dims
    wanted = [mask == "input", mask == "weight", False]
    return lambda: torch.ops.aten.convolution_backward(
        gradient, x, w, None, *each, False, [0] * conv.dims, conv.groups, wanted
    )


def convolution_of(conv: Conv, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Its output."""
    apply = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[conv.dims]
    made: torch.Tensor = apply(x, w, None, conv.stride, conv.padding, conv.dilation, conv.groups)
    return made


def attentions(bench: Bench) -> Iterator[Case]:
    """Attention in each backend, forward and backward, causal or not; grouped queries; one query against a long cache."""
    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    kind = bench.pick("bf16", "fp32")
    make = Maker(bench, kind)
    # name: batch, query heads, key heads, queries, keys, head size
    shapes = bench.pick(
        {
            "llm": (4, 32, 32, 2048, 2048, 128),
            "bert": (32, 12, 12, 512, 512, 64),
            "vit": (64, 12, 12, 197, 197, 64),
            "gqa": (4, 32, 8, 2048, 2048, 128),
            "decode": (16, 32, 32, 1, 4096, 128),
            "decode_gqa": (16, 32, 8, 1, 4096, 128),
        },
        {"llm": (1, 2, 2, 16, 16, 8), "gqa": (1, 4, 2, 16, 16, 8), "decode": (1, 2, 2, 1, 16, 8)},
    )
    for name, (b, h, kv, q, s, d) in shapes.items():
        for label, backend in backends.items() if bench.gpu else [("math", SDPBackend.MATH)]:
            for causal in (False, True) if name in ("llm", "gqa") else (False,):
                if label == "math" and name == "gqa" and causal:
                    continue

                def build(
                    shape: tuple[int, ...] = (b, h, kv, q, s, d), causal: bool = causal, gradient: bool = False
                ) -> Any:
                    b, h, kv, q, s, d = shape
                    x = make(b, h, q, d, gradient=gradient)
                    y, z = (make(b, kv, s, d, gradient=gradient) for _ in range(2))

                    def call() -> torch.Tensor:
                        return functional.scaled_dot_product_attention(x, y, z, is_causal=causal, enable_gqa=h != kv)

                    return (call(), [x, y, z]) if gradient else call

                text = f"b{b} h{h} kv{kv} q{q} s{s} d{d}"
                suffix = f"{name}/{label}" + ("/causal" if causal else "")
                context = lambda backend=backend: sdpa_kernel(backend)  # noqa: E731
                yield Case(
                    f"sdpa/{suffix}",
                    kind,
                    formulas.attention(b, h, kv, q, s, d, make.size, causal),
                    build,
                    text,
                    context,
                )
                if q > 1 and name != "vit":
                    work = formulas.attention(b, h, kv, q, s, d, make.size, causal, backward=True)
                    graph = lambda build=build: backward(lambda: build(gradient=True))  # noqa: E731
                    yield Case(f"sdpa_backward/{suffix}", kind, work, graph, text, context)


def memory_bound(bench: Bench) -> Iterator[Case]:
    """Operators that move bytes: embeddings, normalizations, softmax, pointwise, copies, reductions, pooling, losses."""
    kind = bench.pick("bf16", "fp32")
    make = Maker(bench, kind)
    size = make.size
    rows, width = bench.pick((16384, 4096), (32, 64))
    cells = rows * width
    text = f"{rows}x{width}"

    def one(call: Callable[[torch.Tensor], Any], *shape: int) -> Callable[[], Call]:
        def build() -> Call:
            x = make(*(shape or (rows, width)))
            return lambda: call(x)

        return build

    def two(call: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[], Call]:
        def build() -> Call:
            x, y = make(rows, width), make(rows, width)
            return lambda: call(x, y)

        return build

    def back(call: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> Callable[[], Call]:
        def graph() -> tuple[torch.Tensor, list[torch.Tensor]]:
            inputs = [make(*shape, gradient=True) for shape in shapes]
            return call(*inputs), inputs

        return lambda: backward(graph)

    words, tokens = bench.pick((128256, 16384), (100, 32))

    def embedding() -> Call:
        table, index = make(words, width), make.integers(words, tokens)
        return lambda: functional.embedding(index, table)

    def embedding_backward() -> Call:
        table, index = make(words, width, gradient=True), make.integers(words, tokens)
        return backward(lambda: (functional.embedding(index, table), [table]))

    looked = Work(0, tokens * 8 + 2 * tokens * width * size)
    # The gradient of the whole table is written, whatever was looked up.
    scattered = Work(tokens * width, tokens * 8 + (tokens + words) * width * size)
    yield Case("embedding", kind, looked, embedding, f"{tokens} of {words}x{width}")
    yield Case("embedding_backward", kind, scattered, embedding_backward, f"{tokens} of {words}x{width}")

    def normalized(name: str) -> Callable[[], Call]:
        def build() -> Call:
            x, w, b = make(rows, width), make(width), make(width)
            if name == "layer_norm":
                return lambda: functional.layer_norm(x, (width,), w, b)
            return lambda: functional.rms_norm(x, (width,), w)

        return build

    yield Case("layer_norm", kind, formulas.normalization(rows, width, size, 2), normalized("layer_norm"), text)
    yield Case("rms_norm", kind, formulas.normalization(rows, width, size, 1, 4), normalized("rms_norm"), text)
    yield Case(
        "layer_norm_backward",
        kind,
        Work(16 * cells, size * (3 * cells + 3 * width)),
        back(lambda x, w, b: functional.layer_norm(x, (width,), w, b), (rows, width), (width,), (width,)),
        text,
    )
    images, channels, side = bench.pick((64, 256, 56), (2, 32, 8))
    picture = (images, channels, side, side)
    points = images * channels * side * side
    shape = "x".join(map(str, picture))
    yield Case(
        "group_norm",
        kind,
        Work(8 * points, 2 * points * size),
        one(lambda x: functional.group_norm(x, 32), *picture),
        shape,
    )

    def batch_norm() -> Call:
        x, w, b = make(*picture), torch.ones(channels, device=bench.device), torch.zeros(channels, device=bench.device)
        mean, variance = torch.zeros_like(w), torch.ones_like(w)
        return lambda: functional.batch_norm(x, mean, variance, w, b, training=True)

    yield Case("batch_norm", kind, Work(8 * points, 2 * points * size), batch_norm, shape)
    yield Case(
        "max_pool",
        kind,
        Work(9 * points // 4, points * size * 5 // 4),
        one(lambda x: functional.max_pool2d(x, 3, 2, 1), *picture),
        shape,
    )
    yield Case(
        "avg_pool",
        kind,
        Work(points, points * size),
        one(lambda x: functional.adaptive_avg_pool2d(x, 1), *picture),
        shape,
    )
    scaled = lambda x: functional.interpolate(x, scale_factor=2, mode="nearest")  # noqa: E731
    yield Case("upsample_nearest", kind, Work(0, 5 * points * size), one(scaled, *picture), shape)
    pure = formulas.pointwise
    yield Case("softmax", kind, pure(cells, 1, 1, size, 5), one(lambda x: x.softmax(-1)), text)
    yield Case("softmax_backward", kind, pure(cells, 2, 1, size, 4), back(lambda x: x.softmax(-1), (rows, width)), text)
    yield Case("gelu", kind, pure(cells, 1, 1, size, 8), one(functional.gelu), text)
    yield Case("gelu_backward", kind, pure(cells, 2, 1, size, 12), back(functional.gelu, (rows, width)), text)
    yield Case(
        "silu_mul", kind, pure(cells, 4, 2, size, 5), two(lambda x, y: functional.silu(x) * y), text + "; two kernels"
    )
    yield Case("add", kind, pure(cells, 2, 1, size), two(torch.add), text)
    yield Case("add_", kind, pure(cells, 2, 1, size), two(lambda x, y: x.add_(y)), text)
    row, mask = make(width), torch.rand(rows, width, device=bench.device) > 0.5
    yield Case("mul_broadcast", kind, pure(cells, 1, 1, size), one(lambda x: x * row), text)
    yield Case("copy", kind, pure(cells, 1, 1, size, 0), one(torch.clone), text)
    yield Case("copy_transposed", kind, pure(cells, 1, 1, size, 0), one(lambda x: x.t().contiguous()), text)
    yield Case("cast_to_fp32", kind, pure(cells, 1, 1, size, 0, 4), one(lambda x: x.to(torch.float32, copy=True)), text)
    yield Case("cat", kind, pure(cells, 2, 2, size, 0), two(lambda x, y: torch.cat([x, y], 1)), text)
    yield Case("sum", kind, Work(cells, cells * size), one(torch.sum), text)
    yield Case("sum_rows", kind, Work(cells, (cells + rows) * size), one(lambda x: x.sum(1)), text)
    yield Case("sum_columns", kind, Work(cells, (cells + width) * size), one(lambda x: x.sum(0)), text)
    yield Case("cumsum", kind, pure(cells, 1, 1, size), one(lambda x: x.cumsum(1)), text)
    # The mask of one byte an element, written for the backward pass.
    yield Case(
        "dropout",
        kind,
        Work(cells, 2 * cells * size + cells),
        one(lambda x: functional.dropout(x.requires_grad_(), 0.1)),
        text,
    )
    yield Case(
        "masked_fill",
        kind,
        pure(cells, 1, 1, size, 0),
        one(lambda x: x.masked_fill(mask, 0.0)),
        text + "; and a mask of bytes",
    )
    classes = bench.pick(32000, 100)
    target = make.integers(classes, rows // 2)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, target)

    logits = rows // 2 * classes
    yield Case(
        "cross_entropy", kind, Work(5 * logits, logits * size), one(loss, rows // 2, classes), f"{rows // 2}x{classes}"
    )
    yield Case(
        "cross_entropy_backward",
        kind,
        Work(4 * logits, 2 * logits * size),
        back(loss, (rows // 2, classes)),
        f"{rows // 2}x{classes}",
    )
    yield from indexed(bench, make, rows, width)
    yield from optimizers(bench)


def indexed(bench: Bench, make: Maker, rows: int, width: int) -> Iterator[Case]:
    """Gather and scatter, sorting, and what waits for the device."""
    kind, size, cells = bench.pick("bf16", "fp32"), make.size, rows * width
    text = f"{rows}x{width}"

    def gather() -> Call:
        x, index = make(rows, width), make.integers(width, rows, width)
        return lambda: x.gather(1, index)

    def select() -> Call:
        x, index = make(rows, width), make.integers(rows, rows)
        return lambda: x.index_select(0, index)

    def scatter() -> Call:
        x, y, index = (
            torch.zeros(rows, width, device=bench.device),
            torch.ones(rows, width, device=bench.device),
            make.integers(rows, rows),
        )
        return lambda: x.index_add_(0, index, y)

    yield Case("gather", kind, Work(0, cells * (2 * size + 8)), gather, text)
    yield Case("index_select", kind, Work(0, 2 * cells * size + rows * 8), select, text)
    yield Case("index_add", "fp32", Work(cells, 3 * cells * 4 + rows * 8), scatter, text)
    count, wide, top = bench.pick((16 << 20, 128256, 50), (1000, 100, 5))

    def flat(call: Callable[[torch.Tensor], Any], *shape: int) -> Callable[[], Call]:
        def build() -> Call:
            x = torch.randn(*shape, device=bench.device)
            return lambda: call(x)

        return build

    yield Case("sort", "fp32", Work(0, count * (4 + 4 + 8)), flat(torch.sort, count), str(count))
    yield Case("topk", "fp32", Work(0, 32 * wide * 4), flat(lambda x: x.topk(top), 32, wide), f"{top} of 32x{wide}")
    yield Case("argmax", "fp32", Work(0, 32 * wide * 4), flat(lambda x: x.argmax(-1), 32, wide), f"32x{wide}")
    # Half of the elements are above zero: an index of eight bytes each. It waits for the count.
    yield Case(
        "nonzero",
        "fp32",
        Work(0, count * 4 + count // 2 * 8),
        flat(lambda x: (x > 0).nonzero(), count),
        f"{count}; and the comparison",
    )


def parameters(bench: Bench, width: int) -> list[torch.Tensor]:
    """200 parameters with gradients: 100 matrices and 100 vectors."""
    made = [
        torch.randn(*shape, device=bench.device, requires_grad=True)
        for _ in range(100)
        for shape in ((width, width), (width,))
    ]
    for each in made:
        each.grad = torch.randn_like(each)
    return made


def optimizers(bench: Bench) -> Iterator[Case]:
    """AdamW over 200 tensors: fused, foreach, one by one."""
    width = bench.pick(1024, 16)
    elements = 100 * (width * width + width)
    for name, options in (("fused", {"fused": True}), ("foreach", {"foreach": True}), ("for_loop", {"foreach": False})):

        def build(options: dict[str, bool] = options) -> Call:
            optimizer = torch.optim.AdamW(parameters(bench, width), lr=1e-4, **options)
            return optimizer.step

        yield Case(f"adamw/{name}", "fp32", formulas.adamw(elements), build, f"200 tensors, {elements} elements")


def cases(bench: Bench) -> Iterator[Case]:
    """All of them, interleaved by family so that a cut-off takes from each."""
    families = [products(bench), attentions(bench), memory_bound(bench), convolutions(bench)]
    while families:
        for family in list(families):
            for _ in range(4):
                case = next(family, None)
                if case is None:
                    families.remove(family)
                    break
                yield case


def measured(bench: Bench, case: Case) -> dict[str, Any]:
    """Time by events over rotated inputs, kernel time and names by the profiler, rates."""
    precision(case.kind)
    with case.context():
        call = bench.rotated(case.build, case.work.bytes)
        found = bench.timed(call, 30.0)
        try:
            found |= bench.profiled(call)
        except Exception as error:  # noqa: BLE001
            found["profiler_error"] = str(error)[:300]
    seconds = found.get("kernel_ms") or found["ms"]
    return {
        "kind": case.kind,
        "shape": case.shape,
        "flops": case.work.flops,
        "bytes": case.work.bytes,
        "tflops": case.work.flops / seconds / 1e9,
        "gbs": case.work.bytes / seconds / 1e6,
        **found,
    }


def run(bench: Bench) -> None:
    """Each case under a name of its own."""
    for case in cases(bench):
        bench.measure(f"{case.name}/{case.kind}", lambda case=case: measured(bench, case))
