"""Proof of kernels/low-occupancy: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
STEP = "fused_step(float const*, float const*, float*, int)"
# 65,536 registers an SM hold 4 blocks of 64 threads with 255 each: 256 of 2,048 threads, 12 %.
GREEDY: dict[str, Any] = {"registers": 255, "block": (64, 1, 1), "grid": (8192, 1, 1)}


def program(
    name: str = STEP, *, op: str = "mylib::fused_step", us: float = 6000, device: str = H100, **launch: Any
) -> TraceBuilder:
    """Four steps of a kernel of the program's own, and of 4 ms of other work."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.python("train.py(31): forward"), b.op(op, shapes=[[4096, 4096]], dtypes=["float"]):
                b.kernel(name, us=us, **(GREEDY | launch))
            with b.op("aten::relu", shapes=[[4096, 4096]], dtypes=["float"]):
                b.kernel("vectorized_elementwise_kernel", us=4000)
            b.sync()
    return b


@fires(cost_ms=6.0, occurrences=4, severity="low", op="mylib::fused_step", line="train.py:31")
def registers_for_an_eighth_of_the_warps() -> TraceBuilder:
    return program()


# 100 KB of 233 KB a block: two blocks of 64 threads.
@fires(cost_ms=6.0)
def shared_memory_for_two_blocks() -> TraceBuilder:
    return program(registers=32, shared=102_400)


@quiet
def warps_enough() -> TraceBuilder:
    return program(registers=32, block=(256, 1, 1))


@quiet
def an_operator_of_torchs() -> TraceBuilder:
    return program(op="aten::sort")


@quiet
def a_matrix_product() -> TraceBuilder:
    return program("my_gemm_kernel")


# kernels/small-grid's: 66 blocks on 132 SMs.
@quiet
def a_grid_that_is_too_small() -> TraceBuilder:
    return program(grid=(66, 1, 1))


# 8,192 blocks of two warps are 124 an SM; 2,112 are 32, and 2,104 fewer.
@edge
def warps_for_half_of_an_sm(over: bool) -> TraceBuilder:
    return program(grid=(2112 if over else 2104, 1, 1))


@edge
def a_quarter_of_an_sms_warps(over: bool) -> TraceBuilder:
    """Of 65,536 registers, 128 a thread leave 512 threads, 25 %; 144 leave seven blocks, 448."""
    return program(registers=144 if over else 128)


@quiet("not_applicable")
def another_makers_gpu() -> TraceBuilder:
    return program(device="AMD Instinct MI300X")


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("mylib::fused_step", device=H100)
