"""The model run eagerly: a module, an operator and its kernels at a time, and each operator's backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from resnet18 import IMAGE, PIXELS, Layer, binary, copy_to, network, parameters
from step import Step


class Eager(Step):
    """Steps of the eager model: each layer's forward is followed by its backward."""

    def _forward(self) -> None:
        b = self.b
        forward = "torchvision/models/resnet.py"
        with ExitStack() as model:
            model.enter_context(b.module("ResNet_0"))
            model.enter_context(b.python(f"{forward}(266): _forward_impl"))
            if self.rung.half:
                self._half_input()
            block = ExitStack()
            for layer in network():
                if layer.kind == "block":
                    block.enter_context(b.module(f"BasicBlock_{layer.index}"))
                    block.enter_context(b.python(f"{forward}(89): forward"))
                    self.tape.append(("add", 0, lambda at=layer: self._add_branches(at)))
                elif layer.kind == "end":
                    block.close()
                else:
                    getattr(self, f"_{layer.kind}")(layer)

    def _cast(self, nbytes: int, to: str) -> None:
        """A parameter or its gradient turned from one precision into the other."""
        with self.b.op("aten::copy_"):
            self._small(copy_to(to), nbytes, 2)

    def _half_input(self) -> None:
        elements = self.rung.batch * PIXELS
        with self.b.op("aten::to", shapes=[[self.rung.batch, *IMAGE]]), self.b.op("aten::copy_"):
            self._host(30)
            self._pointwise("cast", elements * 6, copy_to("c10::Half"), elements, 2)

    @contextmanager
    def _module(
        self, name: str, op: str, layer: Layer, node: str, undo: Callable[[Layer], None], us: float
    ) -> Iterator[None]:
        """A module that calls one operator; *undo* is its backward."""
        number = self._next()
        self.tape.append((node, number, lambda: undo(layer)))
        shapes: list[list[int]] = [[self.rung.batch, layer.inputs, layer.size, layer.size]]
        if layer.kind == "conv":
            side = layer.size * (2 if layer.window == 7 or layer.inputs != layer.channels else 1)
            shapes = [
                [self.rung.batch, layer.inputs, side, side],
                [layer.channels, layer.inputs, layer.window, layer.window],
                [],
            ]
        dtypes = [self.type if shape else "" for shape in shapes]
        with self.b.module(name), self.b.op(op, shapes=shapes, dtypes=dtypes, seq=number):
            self._host(us)
            yield

    def _conv(self, layer: Layer) -> None:
        with self._module(f"Conv2d_{layer.index}", "aten::conv2d", layer, "ConvolutionBackward0", self._conv_back, 62):
            if self.rung.half:
                self._cast(parameters(layer)[0] * 4, "c10::Half")
            self._keep(self._elements(layer) * self.item)
            with self.b.op("aten::cudnn_convolution"), self._workspace():
                self._conv_kernel(layer, "forward")

    def _norm(self, layer: Layer) -> None:
        b, real = self.b, "__half" if self.rung.half else "float"
        with self._module(
            f"BatchNorm2d_{layer.index}", "aten::batch_norm", layer, "CudnnBatchNormBackward0", self._norm_back, 42
        ):
            self._small("at::native::CUDAFunctorOnSelf_add<long>", 8, 2)
            self._keep(self._elements(layer) * self.item)
            with b.op("aten::cudnn_batch_norm"):
                name = (
                    f"void cudnn::bn_fw_tr_1C11_kernel_NCHW<{real}, float, int, 512, true, 1, true>(cudnnTensorStruct)"
                )
                weight = self._elements(layer) * self.item * 3
                self._kernel(
                    "norm", weight, name, grid=(layer.channels, 1, 1), block=(512, 1, 1), registers=64, shared=144
                )

    def _relu(self, layer: Layer) -> None:
        with self._module(f"ReLU_{layer.index}", "aten::relu_", layer, "ReluBackward0", self._relu_back, 30):
            name = "at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&)::{lambda()#1}"
            self._pointwise("pointwise", self._elements(layer) * self.item * 2, name, self._elements(layer), 2)

    def _add(self, layer: Layer) -> None:
        shape = self._shape(layer)
        with self.b.op(
            "aten::add_", shapes=[shape, shape, []], dtypes=[self.type, self.type, "Scalar"], seq=self._next()
        ):
            self._host(20)
            self._sum(layer)

    def _sum(self, layer: Layer) -> None:
        name = f"at::native::CUDAFunctor_add<{self.type}>"
        self._pointwise("pointwise", self._elements(layer) * self.item * 3, name, self._elements(layer), 3)

    def _pool(self, layer: Layer) -> None:
        with self._module(
            "MaxPool2d_0", "aten::max_pool2d", layer, "MaxPool2DWithIndicesBackward0", self._pool_back, 45
        ):
            self._keep(self._elements(layer) * (self.item + 8))  # and the indices
            self._pool_kernel(layer, "forward")

    def _mean(self, layer: Layer) -> None:
        with self._module(
            "AdaptiveAvgPool2d_0", "aten::adaptive_avg_pool2d", layer, "MeanBackward1", self._mean_back, 35
        ):
            functor = f"at::native::MeanOps<{self.type}, float, float, float>"
            name = f"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<{self.type}, {functor}, unsigned int, float, 4> >"
            self._kernel("pool", self._elements(layer) * 49 * self.item, name, block=(32, 16, 1))

    def _linear(self, layer: Layer) -> None:
        with self._module("Linear_0", "aten::linear", layer, "AddmmBackward0", self._linear_back, 60):
            self._gemm("tn")

    def _pool_kernel(self, layer: Layer, pass_: str) -> None:
        name = f"void at::native::(anonymous namespace)::max_pool_{pass_}_nchw<{self.type}, float>(int)"
        self._kernel("pool", self._elements(layer) * (5 * self.item + 8), name, registers=30)

    def _conv_back(self, layer: Layer) -> None:
        with self.b.op("aten::convolution_backward"):
            self._host(170)
            for pass_ in ("dgrad", "wgrad") if layer.index else ("wgrad",):
                with self.b.op("aten::cudnn_convolution_backward"), self._workspace():
                    self._conv_kernel(layer, pass_)
        if self.rung.half:
            with self.b.op("ToCopyBackward0"):
                self._cast(parameters(layer)[0] * 2, "float")
        self._free()
        self._accumulate(layer)

    def _norm_back(self, layer: Layer) -> None:
        real = "__half" if self.rung.half else "float"
        with self.b.op("aten::cudnn_batch_norm_backward"):
            self._host(85)
            name = f"void cudnn::bn_bw_1C11_kernel_new<{real}, float, float2, 512, true, 1>(float, float, float, float)"
            weight = self._elements(layer) * self.item * 5
            self._kernel("norm", weight, name, grid=(layer.channels, 1, 1), block=(512, 1, 1), registers=40, shared=400)
        self._free()
        self._accumulate(layer)

    def _relu_back(self, layer: Layer) -> None:
        with self.b.op("aten::threshold_backward", shapes=[self._shape(layer)] * 2, dtypes=[self.type] * 2):
            self._host(45)
            functor = "at::native::(anonymous namespace)::threshold_kernel_impl(at::TensorIteratorBase&)::{lambda()#1}"
            name = f"at::native::BinaryFunctor<{self.type}, {self.type}, {self.type}, {functor}>"
            self._pointwise("pointwise", self._elements(layer) * self.item * 3, name, self._elements(layer), 3)

    def _add_branches(self, layer: Layer) -> None:
        """The gradients of a block's two branches are added where the branches parted."""
        with self.b.op("aten::add", shapes=[self._shape(layer)] * 2, dtypes=[self.type] * 2):
            self._host(20)
            self._sum(layer)

    def _pool_back(self, layer: Layer) -> None:
        with self.b.op("aten::max_pool2d_with_indices_backward"):
            self._host(50)
            self._pool_kernel(layer, "backward")
        self._free()

    def _mean_back(self, layer: Layer) -> None:
        with self.b.op("aten::div"):
            self._host(30)
            elements = self._elements(layer) * 49
            self._pointwise("pointwise", elements * self.item * 2, binary(self.type, "MulFunctor"), elements, 2)

    def _linear_back(self, layer: Layer) -> None:
        for layout in ("nn", "nt"):
            with self.b.op("aten::mm"):
                self._host(40)
                self._gemm(layout)
        self._accumulate(layer)
