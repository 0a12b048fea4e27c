"""Proof of kernels/full-transform: traces on which it fires, and traces on which it does not."""

from collections.abc import Callable

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SHAPE = [4, 256, 256]
COMPLEX = "c10::complex<float>"
FFT = "void regular_fft<256u, 16u, 16u, (padding_t)1, (twiddle_t)0, (loadstore_modifier_t)2>"
Write = Callable[["Program"], None]


class Program(TraceBuilder):
    """Steps on the CPU, or on a GPU."""

    gpu = False

    def run(
        self,
        name: str,
        us: float,
        shapes: list[list[int]],
        types: list[str],
        *values: str,
        kernel: str = "elementwise_kernel",
    ) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        with self.op(name, shapes=shapes, dtypes=types, us=0 if self.gpu else us, values=list(values) or None):
            if self.gpu and us:
                self.kernel(kernel, us=us)

    def transform(self, name: str, dtype: str, us: float, kernel: str = "aten::_fft_c2c") -> None:
        """Add a transform of the last two dimensions; real numbers are converted first."""
        with self.op(f"aten::{name}", shapes=[SHAPE, [], [], []], dtypes=[dtype, "", "ScalarList", ""]):
            if dtype == "float" and kernel == "aten::_fft_c2c":
                self.run("aten::_to_copy", us / 5, [SHAPE], [dtype], kernel="unrolled_elementwise_kernel")
            self.run(kernel, us, [SHAPE, [], [], []], [COMPLEX], "", "[1, 2]", "0", "True", kernel=FFT)


def there(b: Program, dtype: str = "float", us: float = 500) -> None:
    b.transform("fft_fft2", dtype, us)


def back(b: Program, us: float = 500) -> None:
    b.transform("fft_ifft2", COMPLEX, us)


def named(name: str, us: float = 100, dtype: str = COMPLEX) -> Write:
    return lambda b: b.run(f"aten::{name}", us, [SHAPE, [256, 256]], [dtype, dtype])


REAL = named("real", 10)


def program(*items: Write, device: str | None = None, rest: float = 2000, shapes: bool = True) -> TraceBuilder:
    b = Program(device, host_us=2 if device else 0, record_shapes=shapes)
    b.gpu = device is not None
    for _ in range(4):
        with b.step():
            b.run("aten::mkldnn_convolution" if not device else "aten::conv2d", rest, [SHAPE], ["float"])
            for item in items:
                item(b)
            if device:
                b.sync()
    return b


# 100 us of conversion, two transforms of 500, a product of 100 and the real part: 1.21 ms of 3.21 in each step.
@fires(cost_ms=1.21, cost_share=1.21 / 3.21, occurrences=4, severity="high")
def a_convolution() -> TraceBuilder:
    return program(there, named("mul"), back, REAL)


@fires(cost_ms=1.21, occurrences=4)
def a_convolution_on_a_gpu() -> TraceBuilder:
    return program(there, named("mul"), back, REAL, device=H100)


# The spectrum of one is multiplied by the conjugate of the other's.
@fires(cost_ms=1.81, occurrences=4)
def a_correlation_of_two() -> TraceBuilder:
    return program(there, there, named("_conj", 0), named("mul"), back, REAL)


@fires(cost_ms=2.42, occurrences=8)
def one_after_the_other() -> TraceBuilder:
    blur = (there, named("mul"), back, REAL)
    return program(*blur, named("div", 0, "float"), *blur)


# Both filters, and what is between them, are of one spectrum.
@fires(cost_ms=1.82, occurrences=4)
def two_filters_of_one_spectrum() -> TraceBuilder:
    return program(there, named("mul"), back, REAL, named("mul"), back, REAL)


@quiet
def complex_numbers() -> TraceBuilder:
    return program(lambda b: there(b, COMPLEX), named("mul"), back, REAL)


@quiet
def a_spectrum_that_is_shown() -> TraceBuilder:
    return program(there, named("abs"), named("mul"), back, REAL)


@quiet
def a_spectrum_that_is_shown_afterwards() -> TraceBuilder:
    return program(there, named("mul"), back, REAL, named("abs"))


@quiet
def a_shifted_spectrum() -> TraceBuilder:
    return program(there, named("fft_fftshift"), named("mul"), named("fft_ifftshift"), back, REAL)


@quiet
def an_envelope_of_both_parts() -> TraceBuilder:
    return program(there, named("mul"), back, named("abs"))


@quiet
def the_imaginary_part_is_used_too() -> TraceBuilder:
    return program(there, named("mul"), back, REAL, named("imag", 10))


@quiet
def no_transform_back() -> TraceBuilder:
    return program(there, REAL)


@quiet
def half_transforms() -> TraceBuilder:
    def half(b: Program) -> None:
        b.transform("fft_rfft2", "float", 500, "aten::_fft_r2c")

    def whole(b: Program) -> None:
        b.transform("fft_irfft2", COMPLEX, 500, "aten::_fft_c2r")

    return program(half, named("mul"), whole)


# 42.5 % of 1.21 ms are 0.514 ms: of a step of 25.21 ms 2.04 %, of one of 26.21 ms 1.96 %.
@edge
def two_hundredths_of_the_step(over: bool) -> TraceBuilder:
    return program(there, named("mul"), back, REAL, rest=24_000 if over else 25_000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return program(there, named("mul"), back, REAL, shapes=False)


@lacks("host")
def kernels_alone_were_recorded() -> TraceBuilder:
    return kernels_alone(FFT)
