"""Proof of kernels/own-product: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
SIZES = [[4096, 4096], [4096, 4096]]
HALF = ["c10::Half", "c10::Half"]


def training(us: float = 7000, op: str = "mylib::matmul", *, device: str = H100, shapes: bool = True) -> TraceBuilder:
    """Steps of a product of 4,096 cubed, 183 us at what an H100 reaches, and of 3 ms of other work."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op(op, shapes=SIZES, dtypes=HALF):
                b.kernel("naive_matmul_kernel", us=us)
            with b.op("aten::relu"):
                b.kernel("vectorized_elementwise_kernel", us=3000)
            b.sync()
    return b


@fires(cost_ms=7.0, occurrences=4, severity="high", op="mylib::matmul")
def a_first_kernel_in_triton() -> TraceBuilder:
    return training()


@fires(cost_ms=30)
def on_a_t4() -> TraceBuilder:
    return training(30_000, device="Tesla T4")


@quiet
def a_tuned_one() -> TraceBuilder:
    return training(220)


@quiet
def an_operator_that_is_no_product() -> TraceBuilder:
    return training(op="mylib::compare")


@quiet
def a_library_s_product() -> TraceBuilder:
    return training(op="aten::mm")


# 137.4 GFLOP at 749 TFLOP/s are 183 us, and a third of that rate 556 us.
@edge
def a_third_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    return training(580 if over else 540)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("mylib::matmul", shapes=[[256, 256], [256, 256]], dtypes=HALF):
                    b.kernel("naive_matmul_kernel", us=20 if over else 19.9)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return training(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("mylib::matmul", shapes=SIZES, device=H100)
