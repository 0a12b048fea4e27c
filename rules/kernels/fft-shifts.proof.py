"""Proof of kernels/fft-shifts: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SPECTRUM = [1, 20, 320, 320]
ROLL = "void at::native::roll_cuda_kernel<c10::complex<float>>(c10::complex<float> const*, c10::complex<float>*, long, long, long)"
FFT = "void regular_fft<320u, 16u, 16u, (padding_t)1, (twiddle_t)0, (loadstore_modifier_t)2>"


class Program(TraceBuilder):
    """Steps on the CPU, or on a GPU."""

    gpu = False
    seq = 0

    def run(
        self, name: str, us: float, shapes: list[list[int]], *values: str, kernel: str = "elementwise_kernel"
    ) -> int:
        """Add an operator of so many us: on a GPU they are its kernel's. Return autograd's number of it."""
        self.seq += 1
        with self.op(name, shapes=shapes, us=0 if self.gpu else us, seq=self.seq, values=list(values) or None):
            if self.gpu:
                self.kernel(kernel, us=us)
        return self.seq

    def shift(self, us: float, by: str = "[160, 160]", name: str = "aten::fft_fftshift") -> int:
        """Add a shift of both dimensions."""
        self.seq += 1
        with self.op(name, shapes=[SPECTRUM, []], values=["", "[-2, -1]"], seq=self.seq):
            self.run("aten::roll", us, [SPECTRUM, [], []], "", by, "[2, 3]", kernel=ROLL)
        return self.seq

    def halves(self, us: float, dim: int) -> None:
        """Add a shift of one dimension by two cuts and a concatenation, of the real view, as fastMRI does."""
        whole, half = [*SPECTRUM, 2], [*SPECTRUM, 2]
        half[dim] = 160
        for start in ("0", "160"):
            with self.op("aten::narrow", shapes=[whole, [], [], []], values=["", str(dim), start, "160"], us=5):
                pass
        self.run("aten::cat", us - 10, [half, half, []], "", str(dim))

    def transform(self, name: str = "aten::fft_fft2", us: float = 500) -> None:
        """Add a transform of both dimensions."""
        with self.op(name, shapes=[SPECTRUM, [], [], []]):
            self.run("aten::_fft_c2c", us, [SPECTRUM, [], [], []], "", "[2, 3]", "1", "True", kernel=FFT)


def program(device: str | None = None, *, shapes: bool = True) -> Program:
    b = Program(device, host_us=2 if device else 0, record_shapes=shapes)
    b.gpu = device is not None
    return b


def centred(
    us: float = 100,
    device: str | None = None,
    *,
    by: str = "[160, 160]",
    train: bool = False,
    rest: float = 0,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of two centred transforms with a mask between, and a convolution before and behind."""
    b = program(device, shapes=shapes)
    for _ in range(4):
        with b.step():
            b.run("aten::conv2d", 1000 + rest, [SPECTRUM, [20, 20, 3, 3], [20]])
            numbers = []
            for name in ("aten::fft_fft2", "aten::fft_ifft2"):
                numbers.append(b.shift(us, by, "aten::fft_ifftshift"))
                b.transform(name)
                numbers.append(b.shift(us, by))
                b.run("aten::mul", 100, [SPECTRUM, [320, 320]])
            b.run("aten::conv2d", 1000, [SPECTRUM, [20, 20, 3, 3], [20]])
            for number in reversed(numbers) if train else ():
                with b.backward("RollBackward0", number):
                    b.run("aten::roll", us, [SPECTRUM, [], []], "", "[-160, -160]", "[3, 2]", kernel=ROLL)
            if device:
                b.sync()
    return b


def between(*operators: str, lead: bool = False) -> TraceBuilder:
    """Steps of a transform, a shift, operators, a shift back and a transform; *lead*: shifts on the outer sides instead."""
    b = program()
    for _ in range(4):
        with b.step():
            if lead:
                b.shift(100, name="aten::fft_ifftshift")
            b.transform()
            if not lead:
                b.shift(100)
            for name in operators:
                b.run(name, 100, [SPECTRUM, [320, 320]])
            if not lead:
                b.shift(100, name="aten::fft_ifftshift")
            b.transform("aten::fft_ifft2")
            if lead:
                b.shift(100)
            b.run("aten::conv2d", 1000, [SPECTRUM, [20, 20, 3, 3], [20]])
    return b


# Four shifts of 100 us in a step of 3.6 ms.
@fires(cost_ms=0.4, occurrences=16, severity="medium", op="aten::fft_ifftshift")
def centred_transforms() -> TraceBuilder:
    return centred()


# On a GPU no line is idle but the first few us of a step: four kernels of 500 us each, and four of their backward pass.
@fires(cost_ms=4.0, occurrences=16, severity="high")
def forward_and_backward_on_a_gpu() -> TraceBuilder:
    return centred(500, H100, train=True)


@fires(cost_ms=0.2, occurrences=8)
def shifts_that_cancel_around_a_mask() -> TraceBuilder:
    return between("aten::mul")


@fires(cost_ms=0.2, occurrences=8)
def shifts_around_the_middle_of_a_spectrum() -> TraceBuilder:
    return between("aten::abs", "aten::slice", "aten::einsum", "aten::copy_")


@fires(cost_ms=0.2, occurrences=8)
def shifts_before_and_behind_a_filter() -> TraceBuilder:
    return between("aten::mul", lead=True)


@fires(cost_ms=0.4, occurrences=16)
def halves_that_are_cut_and_joined() -> TraceBuilder:
    b = program()
    for _ in range(4):
        with b.step():
            b.halves(100, 2)
            b.halves(100, 3)
            b.transform()
            b.halves(100, 2)
            b.halves(100, 3)
            b.run("aten::conv2d", 1000, [SPECTRUM, [20, 20, 3, 3], [20]])
    return b


@quiet
def rolls_by_another_number() -> TraceBuilder:
    return centred(by="[4, 4]")


@quiet
def a_convolution_on_the_spectrum() -> TraceBuilder:
    return between("aten::conv2d")


# The lag of a correlation: of a product with a conjugate, as of a magnitude, the shift before is gone, and the one behind not.
@quiet
def a_correlation_before_the_shift_behind() -> TraceBuilder:
    return between("aten::_conj", "aten::mul", lead=True)


@quiet
def a_spectrum_that_is_shown() -> TraceBuilder:
    b = program()
    for _ in range(4):
        with b.step():
            b.transform()
            b.shift(100)
            b.run("aten::abs", 100, [SPECTRUM])
    return b


@quiet
def shifted_windows() -> TraceBuilder:
    b = program()
    for _ in range(4):
        with b.step():
            b.shift(100)
            b.run("aten::conv2d", 1000, [SPECTRUM, [20, 20, 3, 3], [20]])
            b.shift(100)
            b.run("aten::add", 100, [SPECTRUM, SPECTRUM])
            b.transform()
            b.run("aten::mul", 100, [SPECTRUM, [320, 320]])
            b.transform("aten::fft_ifft2")
            b.run("aten::add", 100, [SPECTRUM, SPECTRUM])
    return b


# One dimension, and neighbours that are read on both sides: the factor in its place takes as long.
@quiet
def a_shift_of_one_dimension_between_convolutions() -> TraceBuilder:
    b = program()
    for _ in range(4):
        with b.step():
            b.run("aten::conv2d", 100, [SPECTRUM, [20, 20, 3, 3], [20]])
            b.halves(100, 3)
            b.transform()
            b.halves(100, 3)
            b.run("aten::conv2d", 100, [SPECTRUM, [20, 20, 3, 3], [20]])
    return b


# Four shifts of 30 us, of which eight tenths are the middle, in a step of 3.32 ms and the rest: 0.096 of 4.8 ms are 2 percent.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return centred(30, rest=1380 if over else 1580)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone(ROLL)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return centred(shapes=False)
