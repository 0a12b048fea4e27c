"""The model under torch.compile: convolutions as before, all else in Triton kernels that Inductor wrote."""

from __future__ import annotations

from resnet18 import PIXELS, network
from step import Step

_GRAPH = "## Call CompiledFxGraph {} ##"
_POOLS = {"pool": "max_pool2d_with_indices", "mean": "mean"}


class Compiled(Step):
    """Steps of the compiled model."""

    def _forward(self) -> None:
        b = self.b
        number = self._next()
        self.triton = 0
        self.tape.append(("CompiledFunctionBackward", number, self._undo))
        with (
            b.module("OptimizedModule_0"),
            b.python("torch/_dynamo/eval_frame.py(328): _fn"),
            b.op("Torch-Compiled Region: 0/0"),
        ):
            self._host(90)
            with b.op("CompiledFunction", seq=number), b.annotation(_GRAPH.format("fw4qjlsmxq")):
                self._host(40)
                elements = self.rung.batch * PIXELS
                self._fused("poi", "_to_copy", elements * 6)
                for layer in network():
                    if layer.kind == "conv":
                        self._keep(self._elements(layer) * self.item)
                        with b.op("aten::convolution"):
                            self._host(30)
                            self._conv_kernel(layer, "forward")
                    elif layer.kind == "norm":
                        nbytes = self._elements(layer) * self.item
                        self._keep(nbytes)
                        self._fused("red", "_native_batch_norm_legit_functional", nbytes)
                        after = f"_{layer.last}" if layer.last else ""
                        self._fused(
                            "poi", f"_native_batch_norm_legit_functional{after}", nbytes * (3 if "add" in after else 2)
                        )
                    elif layer.kind in ("pool", "mean"):
                        self._keep(self._elements(layer) * (self.item + 1))
                        self._fused(
                            "poi" if layer.kind == "pool" else "per",
                            _POOLS[layer.kind],
                            self._elements(layer) * self.item * 5,
                        )
                    elif layer.kind == "linear":
                        with b.op("aten::addmm"):
                            self._host(20)
                            self._gemm("tn")

    def _undo(self) -> None:
        with self.b.annotation(_GRAPH.format("fbq7c2xk5n")):
            for layer in reversed(list(network())):
                nbytes = self._elements(layer) * self.item
                if layer.kind == "linear":
                    for layout in ("nn", "nt"):
                        with self.b.op("aten::mm"):
                            self._host(20)
                            self._gemm(layout)
                elif layer.kind == "norm":
                    after = "_threshold_backward" if layer.last else ""
                    self._fused("red", f"native_batch_norm_backward{after}", nbytes * 2)
                    self._fused("poi", f"convolution_backward_native_batch_norm_backward{after}", nbytes * 3)
                    self._free()
                elif layer.kind == "conv":
                    with self.b.op("aten::convolution_backward"):
                        self._host(60)
                        for pass_ in ("dgrad", "wgrad") if layer.index else ("wgrad",):
                            self._conv_kernel(layer, pass_)
                    self._free()
                elif layer.kind == "pool":
                    self._fused("poi", "max_pool2d_with_indices_backward", nbytes * 6)
                    self._free()
        for layer in reversed(list(network())):
            self._accumulate(layer)

    def _fused(self, form: str, what: str, weight: int) -> None:
        """A kernel that Inductor wrote: *form* is poi (pointwise), red or per (reductions)."""
        name = f"triton_{form}_fused_{what}_{self.triton}"
        self.triton += 1
        with self.b.op(name, args={"kernel_backend": "triton", "stream": 7}):
            self._host(12)
            self._kernel("triton", weight, name, driver=True, registers=40, block=(256, 1, 1))
