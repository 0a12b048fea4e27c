"""One training step, whatever runs the model: the batch, the loss, gradients, optimizer.

Kernels are weighted by what bounds them, multiply-adds or bytes, and scaled by kind to the time that the article
leaves them; names are those that cuDNN, cuBLAS, PyTorch and Inductor give such kernels on a V100.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from resnet18 import (
    IMAGE,
    LOSS,
    PARAMETERS,
    PIXELS,
    SOFTMAX,
    TENSOR,
    TRANSPOSE,
    Layer,
    binary,
    copy_to,
    foreach,
    network,
    parameters,
    plain_convolution,
    pointwise,
)

from advisor.testing import Allocation, TraceBuilder

if TYPE_CHECKING:
    from build import Rung

ENGINE = 4001  # autograd's thread


class Step:
    """Writes steps of one state; how the model runs, ``_forward`` decides and leaves on the tape.

    *scale* is the us of a unit of weight, by kind of kernel.
    """

    resident_bytes = PARAMETERS * 12  # parameters, their momentum and their gradients

    def __init__(self, rung: Rung, scale: dict[str, float]) -> None:
        self.rung, self.scale = rung, scale
        self.weights = dict.fromkeys(scale, 0.0)
        self.item = 2 if rung.half else 4
        self.type = "c10::Half" if rung.half else "float"
        self.sequence = 0

    def run(self, b: TraceBuilder) -> None:
        """One iteration: the wait for the batch, and `train`."""
        self.b = b
        self.tape: list[tuple[str, int, Callable[[], None]]] = []
        self.saved: list[Allocation] = []
        b.idle(20)
        self._load()
        with b.python("train.py(58): train"):
            self._copy_batch()
            if self.rung.uint8:
                self._normalize()
            with ExitStack() as stack:
                if self.rung.half:
                    stack.enter_context(b.python("torch/amp/autocast_mode.py(37): decorate_autocast"))
                self._forward()
                self._loss()
            self._zero_grad()
            self._backward()
            self._optimizer()
        self._host(330)
        for allocation in self.saved:
            b.release(allocation)

    def _forward(self) -> None:
        raise NotImplementedError

    # ---- shorthand

    def _host(self, us: float) -> None:
        self.b.idle(round(us * self.rung.pace, 3))

    def _kernel(self, kind: str, weight: float, name: str, **facts: Any) -> None:
        """A kernel whose time grows with the batch."""
        self.weights[kind] += weight
        self.b.kernel(name, round(weight * self.scale[kind] + 1.2, 3), **facts)

    def _pointwise(self, kind: str, weight: float, functor: str, elements: int, arrays: int) -> None:
        grid = (-(-elements // 512), 1, 1)
        self._kernel(kind, weight, pointwise(functor, arrays), grid=grid, block=(128, 1, 1), registers=20)

    def _small(self, functor: str, nbytes: int, arrays: int) -> None:
        """A pointwise kernel over parameters: its time does not grow with the batch."""
        grid = (max(nbytes // 2048, 1), 1, 1)
        us = round(1.6 + nbytes / 600_000, 3)
        self.b.kernel(pointwise(functor, arrays), us, grid=grid, block=(128, 1, 1), registers=20)

    @contextmanager
    def _workspace(self) -> Iterator[None]:
        """What cuDNN borrows for the length of a convolution."""
        space = self.b.memory(self.rung.batch * 550_000)
        yield
        self.b.release(space)

    def _keep(self, nbytes: int) -> None:
        self.saved.append(self.b.memory(nbytes))

    def _shape(self, layer: Layer) -> list[int]:
        return [self.rung.batch, layer.channels, layer.size, layer.size]

    def _elements(self, layer: Layer) -> int:
        return self.rung.batch * layer.channels * layer.size**2

    def _next(self) -> int:
        self.sequence += 1
        return self.sequence

    # ---- the batch

    def _load(self) -> None:
        b, rung = self.b, self.rung
        data = "torch/utils/data/dataloader.py"
        with b.python(f"{data}(628): __next__"), b.loader(ms=rung.loader_ms, workers=rung.workers):
            if rung.workers:
                with b.python(f"{data}(1316): _next_data"), b.python(f"{data}(1280): _get_data"):
                    b.idle(ms=round(rung.loader_ms * 0.9, 3))
                return
            with b.python(f"{data}(670): _next_data"), b.python("torch/utils/data/_utils/fetch.py(46): fetch"):
                each = round(rung.loader_ms * 1000 * 0.93 / rung.batch, 3)
                for _ in range(rung.batch):
                    with (
                        b.python("train.py(27): __getitem__"),
                        b.python("torchvision/transforms/transforms.py(94): __call__"),
                    ):
                        b.idle(each)
                with (
                    b.python("torch/utils/data/_utils/collate.py(264): default_collate"),
                    b.op("aten::stack", shapes=[[], []]),
                ):
                    b.idle(ms=round(rung.loader_ms * 0.05, 3))

    def _copy_batch(self) -> None:
        b, rung = self.b, self.rung
        kind, width = ("unsigned char", 1) if rung.uint8 else ("float", 4)
        shape = [rung.batch, *IMAGE]
        for dims, dtype, nbytes in (
            (shape, kind, rung.batch * PIXELS * width),
            ([rung.batch], "long int", rung.batch * 8),
        ):
            with b.op("aten::to", shapes=[dims], dtypes=[dtype]), b.op("aten::_to_copy", shapes=[dims], dtypes=[dtype]):
                self._host(15)
                self._keep(nbytes)
                # A large pageable copy starts once its first piece is staged.
                late = 130 if nbytes > 65536 and not rung.pinned else None
                if nbytes > 65536:
                    b.copy("HtoD", nbytes, gbps=rung.gbps, pinned=rung.pinned, latency_us=late)
                else:
                    b.copy("HtoD", nbytes, 1.4, pinned=rung.pinned)

    def _normalize(self) -> None:
        """The images, as copied in uint8, to floats between -1 and 1: four kernels."""
        b, elements = self.b, self.rung.batch * PIXELS
        shape = [self.rung.batch, *IMAGE]
        self._keep(elements * 4)
        with b.op("aten::to", shapes=[shape], dtypes=["unsigned char"]), b.op("aten::copy_"):
            self._host(40)
            self._pointwise("pointwise", elements * 5, copy_to("unsigned char"), elements, 2)
        for op, functor in (("aten::div", "MulFunctor"), ("aten::sub", "AddFunctor"), ("aten::div", "MulFunctor")):
            with b.op(op, shapes=[shape, []], dtypes=["float", "Scalar"]):
                self._host(30)
                self._pointwise("pointwise", elements * 8, binary("float", functor), elements, 2)

    # ---- what both ways of running the model share

    def _gemm(self, layout: str) -> None:
        name = (
            f"volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_{layout}" if self.rung.half else f"volta_sgemm_128x64_{layout}"
        )
        self._kernel("gemm", self.rung.batch * 512_000, name, grid=(16, 8, 1), registers=120, shared=16384)

    def _conv_kernel(self, layer: Layer, pass_: str) -> None:
        work = self.rung.batch * layer.channels * layer.size**2 * layer.inputs * layer.window**2
        # The filters' gradients cost most of the three; neither 1 x 1 nor 7 x 7 has a Winograd form.
        work *= {"forward": 1.0, "dgrad": 1.05, "wgrad": 1.2}[pass_] * {1: 1.7, 3: 1.0, 7: 1.3}[layer.window]
        if self.rung.half and layer.index:
            nbytes = self._elements(layer) * self.item
            self._kernel("layout", nbytes * 2, TRANSPOSE, grid=(-(-nbytes // 4096), 1, 1), shared=4224)
            kind, name, grid, shared = "tensor", TENSOR[pass_], 196, 49152
        else:
            kind, name, grid, shared = "conv", plain_convolution(layer, pass_, half=self.rung.half), 392, 16384
        self._kernel(kind, work, name, grid=(grid, layer.channels // 64, 1), registers=128, shared=shared)

    # ---- loss and gradients

    def _loss(self) -> None:
        b, batch = self.b, self.rung.batch
        number = self._next()
        self.tape.append(("NllLossBackward0", number, self._loss_back))
        with (
            b.module("CrossEntropyLoss_0"),
            b.op("aten::cross_entropy_loss", shapes=[[batch, 1000], [batch]], seq=number),
        ):
            self._host(70)
            b.kernel(SOFTMAX.format("forward"), 4.2)
            b.kernel(LOSS, 5.1)

    def _zero_grad(self) -> None:
        b = self.b
        with b.python("torch/optim/optimizer.py(454): zero_grad"), b.annotation("Optimizer.zero_grad#SGD.zero_grad"):
            for layer in network():
                for size in parameters(layer):
                    if self.rung.keep_grads:
                        with b.op("aten::zero_", shapes=[[size]]):
                            self._host(9)
                            b.memset(size * 4, round(2.6 + size * 4 / 280_000, 3), host_us=4)
                    else:
                        self._host(1.5)
                        if size > 20_000:
                            b.memory(-size * 4)

    def _backward(self) -> None:
        b = self.b
        with b.python("torch/_tensor.py(429): backward"), b.python("torch/autograd/__init__.py(106): backward"):
            self._host(60)
            with b.thread(ENGINE):
                for node, number, undo in reversed(self.tape):
                    if number:
                        with b.backward(node, number):
                            undo()
                    else:
                        undo()

    def _accumulate(self, layer: Layer) -> None:
        """What autograd does with the gradients of a layer's parameters."""
        for size in parameters(layer):
            name = "torch::autograd::AccumulateGrad"
            with self.b.op(f"autograd::engine::evaluate_function: {name}"):
                self._host(6)
                if self.rung.keep_grads:
                    with self.b.op("aten::add_", shapes=[[size], [size], []]):
                        self._small("at::native::CUDAFunctor_add<float>", size * 12, 3)
                elif size > 20_000:
                    self.b.memory(size * 4)

    def _free(self) -> None:
        """The last output that was kept for the backward pass is no longer needed."""
        if len(self.saved) > 2:
            self.b.release(self.saved.pop())

    def _loss_back(self) -> None:
        with self.b.op("aten::_log_softmax_backward_data"):
            self._host(60)
            self.b.kernel(SOFTMAX.format("backward"), 5.3)

    def _optimizer(self) -> None:
        b = self.b
        with (
            b.python("torch/optim/optimizer.py(265): wrapper"),
            b.annotation("Optimizer.step#SGD.step"),
            b.python("torch/optim/sgd.py(320): _multi_tensor_sgd"),
        ):
            self._host(1100)
            plus = ("add_", "BinaryOpListAlphaFunctor", 111)
            for op, functor, us in (("mul_", "BinaryOpScalarFunctor", 70), plus, plus):
                with b.op(f"aten::_foreach_{op}"):
                    self._host(80)
                    for _ in range(2):
                        b.kernel(foreach(functor), us, grid=(320, 1, 1), block=(512, 1, 1))
