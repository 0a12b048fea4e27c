"""Proof of inference/label-parts: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

FOLDER = "/usr/lib/python3/site-packages/transformers/pipelines"
FILE = f"{FOLDER}/zero_shot_object_detection.py"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"


def detect(
    b: TraceBuilder, labels: int, *, file: str = FILE, prepare_ms: float = 20, image_ms: float = 10, ended: bool = True
) -> None:
    """One call of the pipeline on one image: each label's part is prepared, and goes through the model."""
    with b.python(f"{file}(65): __call__"):
        for label in range(labels):
            with (
                b.python(f"{file}({176 if label else 164}): preprocess"),
                b.python(f"{FOLDER}/../models/owlv2/image_processing_owlv2.py(368): preprocess"),
            ):
                b.idle(ms=prepare_ms)
            with b.python(f"{file}(184): _forward"), b.op("aten::linear"):
                b.kernel(GEMM, us=1000 * image_ms)
            b.sync()
        if ended:
            with b.python(f"{file}(176): preprocess"):
                b.idle(us=50)


def served(labels: int = 5, calls: int = 3, **options: object) -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", with_stack=True)
    for _ in range(calls):
        with b.step(), b.python("serve.py(12): serve"):
            detect(b, labels, **options)  # type: ignore[arg-type]
    return b


def with_copies(labels: int = 5) -> TraceBuilder:
    """One call: the pipeline's forward copies the inputs to the device (0.5 ms), and all outputs back (2 ms)."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3", with_stack=True)
    with b.step(), b.python("serve.py(12): serve"), b.python(f"{FILE}(65): __call__"):
        for label in range(labels):
            with b.python(f"{FILE}({176 if label else 164}): preprocess"):
                b.idle(ms=20)
            with b.python(f"{FOLDER}/base.py(1266): forward"):
                with (
                    b.python(f"{FOLDER}/base.py(1173): _ensure_tensor_on_device"),
                    b.op("aten::to"),
                    b.op("aten::copy_"),
                ):
                    b.copy("HtoD", 4 << 20, us=500)
                with b.python(f"{FILE}(184): _forward"), b.op("aten::linear"):
                    b.kernel(GEMM, us=10_000)
                with (
                    b.python(f"{FOLDER}/base.py(1173): _ensure_tensor_on_device"),
                    b.op("aten::to"),
                    b.op("aten::copy_"),
                ):
                    b.copy("DtoH", 16 << 20, us=2000)
    return b


# Four more times 20 ms of preparing and 10 of the model, of five.
@fires(cost_ms=120.0, occurrences=12, severity="high")
def five_labels_on_one_image() -> TraceBuilder:
    return served()


@fires(cost_ms=30.0, occurrences=3, severity="high")
def two_labels() -> TraceBuilder:
    return served(2, ended=False)


@fires(cost_ms=60.0, occurrences=4)
def two_images_in_each_call() -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", with_stack=True)
    for _ in range(2):
        with b.step(), b.python("serve.py(12): serve"):
            detect(b, 2)
            detect(b, 2)
    return b


# Four more times 20 ms of preparing, 10 of the model, and 2.5 of the copies of its inputs and outputs before and behind it.
@fires(cost_ms=130.0, occurrences=4)
def the_copies_of_a_part_s_inputs_and_outputs() -> TraceBuilder:
    return with_copies()


@quiet
def one_label() -> TraceBuilder:
    return served(1)


# A pipeline that cuts speech into parts, which differ.
@quiet
def parts_of_a_recording() -> TraceBuilder:
    return served(file=f"{FOLDER}/automatic_speech_recognition.py")


@quiet
def generators_of_ones_own() -> TraceBuilder:
    return served(file="detection.py")


# Of each of two parts 3 ms run again, of which nine tenths are the middle of what goes.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", with_stack=True)
    for _ in range(3):
        with b.step(), b.python("serve.py(12): serve"):
            detect(b, 2, prepare_ms=2, image_ms=1)
            with b.op("aten::mm"):
                b.kernel(GEMM, us=50_000 if over else 60_000)
            b.sync()
    return b


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    b = TraceBuilder("NVIDIA H100 80GB HBM3", with_stack=False)
    with b.step():
        detect(b, 5)
    return b
