"""FLOPs and least bytes of operators, written out by hand: the independent check of what the advisor models.

A multiply-add is two. Least bytes: each input read once, each output written once. Nothing here comes from advisor/.
Pointwise arithmetic is counted as operations on elements, a division, root or exponential as one: no such kernel is near a
compute limit, and its bytes decide.
"""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """Work that an operator must do: floating-point operations, and bytes that must move."""

    flops: int
    bytes: int


def mm(m: int, k: int, n: int, size: int, out: int = 0, batch: int = 1) -> Work:
    """(m × k) times (k × n), *batch* times; *size* bytes an element, *out* those of the result where they differ."""
    return Work(2 * batch * m * k * n, batch * (size * (m * k + k * n) + (out or size) * m * n))


def addmm(m: int, k: int, n: int, size: int) -> Work:
    """A product and a bias of n: the flops are the product's, as torch counts them."""
    product = mm(m, k, n, size)
    return Work(product.flops, product.bytes + n * size)


def baddbmm(batch: int, m: int, k: int, n: int, size: int) -> Work:
    """A batched product added to a whole matrix, which is read."""
    product = mm(m, k, n, size, batch=batch)
    return Work(product.flops, product.bytes + batch * m * n * size)


def linear_backward(m: int, k: int, n: int, size: int) -> Work:
    """Gradients of x (m × k) and of the weight (n × k): two products; the gradient is read once, x, weight read, both written."""
    return Work(4 * m * k * n, size * (m * n + 2 * m * k + 2 * n * k))


class Conv(NamedTuple):
    """A convolution with *dims* equal spatial sides: batch, channels, side, kernel, stride, padding, dilation, groups."""

    n: int
    c: int
    k: int
    side: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    dims: int = 2

    @property
    def out(self) -> int:
        """Side of the output."""
        return (self.side + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def multiply_adds(self) -> int:
        """Each output element: one for each tap of the kernel and each channel of its group."""
        return self.n * self.k * self.out**self.dims * (self.c // self.groups) * self.kernel**self.dims

    def sizes(self) -> tuple[int, int, int]:
        """Elements of input, weight and output."""
        taps = self.kernel**self.dims
        return (
            self.n * self.c * self.side**self.dims,
            self.k * (self.c // self.groups) * taps,
            self.n * self.k * self.out**self.dims,
        )

    def work(self, size: int) -> Work:
        """Forward, and each of the two backward passes: the same multiply-adds, the same three tensors, two read, one written."""
        return Work(2 * self.multiply_adds, size * sum(self.sizes()))


def conv_transpose(n: int, c: int, k: int, side: int, kernel: int, stride: int, size: int) -> Work:
    """Each input element times each tap for each output channel; no padding."""
    out = (side - 1) * stride + kernel
    return Work(
        2 * n * c * side * side * k * kernel * kernel,
        size * (n * c * side * side + c * k * kernel**2 + n * k * out * out),
    )


def attention(b: int, h: int, kv: int, q: int, s: int, d: int, size: int, causal: bool, backward: bool = False) -> Work:
    """Attention of *h* query heads and *kv* key and value heads, q queries by s keys.

    Forward: two products. Backward without kept scores: five (the scores again, and gradients of values, of probabilities, of
    queries, of keys). Causal: only pairs on and below the diagonal, of q equal s.
    """
    pairs = q * (q + 1) // 2 if causal else q * s
    one = 2 * b * h * pairs * d
    tensors = b * h * q * d, b * kv * s * d
    if not backward:
        return Work(2 * one, size * (2 * tensors[0] + 2 * tensors[1]) + 4 * b * h * q)
    # Read: queries, output and its gradient, keys, values, log-sum-exp. Written: gradients of queries, keys, values.
    return Work(5 * one, size * (4 * tensors[0] + 4 * tensors[1]) + 4 * b * h * q)


def pointwise(elements: int, reads: int, writes: int, size: int, operations: int = 1, out: int = 0) -> Work:
    """*reads* tensors of *elements* in and *writes* out, *operations* an element."""
    return Work(operations * elements, elements * (reads * size + writes * (out or size)))


def normalization(rows: int, width: int, size: int, parameters: int, operations: int = 8) -> Work:
    """Read once, written once (statistics fit in registers), and *parameters* vectors of the width."""
    return Work(operations * rows * width, size * (2 * rows * width + parameters * width))


def lstm(steps: int, batch: int, inputs: int, hidden: int, layers: int, size: int) -> Work:
    """Four gates, each a product with the input and one with the state; pointwise left out."""
    flops = elements = 0
    for layer in range(layers):
        width = inputs if layer == 0 else hidden
        flops += 2 * steps * batch * 4 * hidden * (width + hidden)
        elements += 4 * hidden * (width + hidden + 2)
    return Work(flops, size * (elements + steps * batch * (inputs + hidden)))


def adamw(elements: int) -> Work:
    """fp32: read parameter, gradient, both moments; write parameter and both moments. Twelve operations an element."""
    return Work(12 * elements, 7 * 4 * elements)
