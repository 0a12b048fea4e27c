"""Proof of cpu/integer-product: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    name: str = "aten::mm",
    *operands: list[int],
    kinds: tuple[str, ...] = ("long int", "long int"),
    us: float = 3000,
    held_us: float = 0,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: a product takes *us*, of 64 x 1,024 by 1,024 x 512 where nothing else is said."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for number in range(3):
        late = held_us * (number == 1)
        with b.step():
            with b.op(name, shapes=list(operands) or [[64, 1024], [1024, 512]], dtypes=list(kinds), us=us + late):
                if device:
                    b.kernel("gemm_kernel", us=100)
            with b.op("aten::mm", shapes=[[64, 64], [64, 64]], dtypes=["float", "float"], us=10_000 - us - late):
                pass
    return b


# Of 3 ms are left 0.01 ms, 0.6 ns for each of 65,536 + 524,288 + 32,768 numbers and 0.016 ns for each of 33.6 M
# multiplications: 0.92 ms, 31 %.
@fires(cost_ms=3.0, cost_share=0.3, occurrences=3, severity="high", op="aten::mm")
def common_bits() -> TraceBuilder:
    return steps()


@fires(cost_ms=3.0)
def of_32_bits() -> TraceBuilder:
    return steps(kinds=("int", "int"))


@fires(cost_ms=3.0)
def of_bytes() -> TraceBuilder:
    return steps("aten::mm", [64, 255], [255, 512], kinds=("unsigned char", "unsigned char"))


# Of more terms than the type counts the sums wrap: those of floats do not.
@quiet
def bytes_of_which_the_sums_wrap() -> TraceBuilder:
    return steps("aten::mm", [64, 256], [256, 512], kinds=("unsigned char", "unsigned char"))


@fires(cost_ms=3.0)
def added_to_a_matrix() -> TraceBuilder:
    return steps("aten::addmm", [64, 512], [64, 1024], [1024, 512], kinds=("long int",) * 3)


@fires(cost_ms=3.0)
def of_many_matrices() -> TraceBuilder:
    return steps("aten::bmm", [64, 64, 64], [64, 64, 64])


@quiet
def of_floats() -> TraceBuilder:
    return steps(kinds=("float", "float"))


@quiet
def of_doubles() -> TraceBuilder:
    return steps(kinds=("double", "double"))


# A product of int8 with sums of 32 bits has kernels of its own.
@quiet
def a_quantized_product() -> TraceBuilder:
    return steps("aten::_int_mm", kinds=("signed char", "signed char"))


# Rows of a table by whole numbers are looked up, not multiplied.
@quiet
def a_lookup() -> TraceBuilder:
    return steps("aten::embedding", [1000, 64], [64, 16], kinds=("float", "long int"))


@quiet
def by_a_vector() -> TraceBuilder:
    return steps("aten::mv", [1024, 1024], [1024])


# It takes 3 ms by 0.6 ns for each of 6.3 million numbers.
@quiet
def what_casts_would_take_as_long() -> TraceBuilder:
    return steps("aten::mm", [1024, 2], [2, 6144])


# One call that was held up is no slower kind.
@quiet
def held_up_once() -> TraceBuilder:
    return steps(us=900, held_us=5000)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@edge
def a_quarter_of_its_time(over: bool) -> TraceBuilder:
    """Of 0.92 ms that are left, 1.24 ms are three quarters."""
    return steps(us=1240 if over else 1210)
