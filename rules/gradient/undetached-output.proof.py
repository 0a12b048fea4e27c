"""Proof of gradient/undetached-output: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

STORE = "torch::autograd::AccumulateGrad"
JUDGE = [[1], [1, 64], [64], [64, 32]]
MAKER = [[32], [32, 64], [64], [64, 16]]


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU."""

    def __init__(self, device: str | None, *, record_shapes: bool) -> None:
        super().__init__(device, record_shapes=record_shapes)
        self.gpu = device is not None


def run(b: Program, name: str, us: float, number: int, *, back: bool) -> None:
    shapes = [[32, 64], [64, 64]]
    if back:
        with b.backward("MmBackward0", number), b.op("aten::mm", shapes=shapes):
            work(b, us)
        return
    with b.python(name), b.op("aten::mm", shapes=shapes, seq=number):
        work(b, us)


def work(b: Program, us: float) -> None:
    if not b.gpu:
        with b.op("aten::bmm", us=us):
            pass
    else:
        b.kernel("ampere_sgemm_128x64_nn", us=us)


def stored(b: Program, shapes: list[list[int]], *, added: bool = False, us: float = 0) -> None:
    for shape in shapes:
        with b.op(f"autograd::engine::evaluate_function: {STORE}"), b.op(STORE, shapes=[shape], us=us):
            if added:
                with b.op("aten::add_", shapes=[shape, shape, []], us=0.5):
                    pass


def update(b: Program, shapes: list[list[int]]) -> None:
    with b.annotation("Optimizer.step#Adam.step"), b.op("aten::_fused_adam_", shapes=[shapes, shapes, shapes, shapes]):
        work(b, 10)


def average(b: Program, shapes: list[list[int]], hidden: bool) -> None:
    """A moving average; of a list of more than 30 tensors torch records no shape."""
    listed = [] if hidden else shapes
    with b.op("aten::_foreach_lerp_", shapes=[listed, listed, []], us=5):
        pass


def zeroed(b: Program, shapes: list[list[int]]) -> None:
    with b.annotation("Optimizer.zero_grad#Adam.zero_grad"), b.op("aten::_foreach_zero_", shapes=[shapes], us=0.5):
        pass


def training(
    us: float = 2000,
    *,
    device: str | None = None,
    detached: bool = False,
    zeros: bool = False,
    both: bool = False,
    shapes: bool = True,
    steps: int = 4,
    ends: list[list[int]] | None = None,
    averages: str = "",
    hidden: bool = False,
    clones: bool = False,
) -> Program:
    """Four steps of a judge's update of 3 ms, that goes back through the maker for *us*, and of the maker's of 4 ms.

    With *zeros* gradients are zeroed, not dropped; with *both* one step behind the two passes updates all. Where the recording
    *ends* behind the first update of its last step, that is an update of these shapes. The program computes with tensors of the
    maker's shapes behind its update, or behind the judge's pass, where it *averages* "weights" or "gradients",
    in lists whose shapes may be *hidden*. The judge's forward pass *clones* a vector of such a shape, as spectral norms do.
    """
    b = Program(device, record_shapes=shapes)
    for step in range(steps):
        with b.step():
            n = 10 * step
            run(b, "gan.py(10): make", 1000, n + 1, back=False)
            run(b, "gan.py(20): judge", 1000, n + 2, back=False)
            if zeros:
                zeroed(b, JUDGE)
            run(b, "", 1000, n + 2, back=True)
            stored(b, JUDGE, added=zeros)
            if not detached:
                run(b, "", us, n + 1, back=True)
                stored(b, MAKER, added=zeros or step > 0)
            if ends is not None and step == steps - 1:
                update(b, ends)
                run(b, "gan.py(30): report", 4010, n + 5, back=False)  # as long as what the other steps do here
                break
            if averages == "gradients":
                average(b, MAKER, hidden)
            if not both:
                update(b, JUDGE)
            run(b, "gan.py(10): make", 1000, n + 3, back=False)
            run(b, "gan.py(20): judge", 1000, n + 4, back=False)
            if clones:
                with b.op("aten::clone", shapes=[[64], []], us=1):
                    pass
            if zeros:
                zeroed(b, MAKER)
            run(b, "", 1000, n + 4, back=True)
            stored(b, JUDGE, added=True)
            run(b, "", 1000, n + 3, back=True)
            stored(b, MAKER, added=zeros or both)
            if both:
                update(b, JUDGE + MAKER)
                zeroed(b, JUDGE + MAKER)
            else:
                update(b, MAKER)
            if averages == "weights":
                average(b, MAKER, hidden)
            if device is not None:
                b.sync()
    return b


def summed(us: float = 2000, *, leads_on: bool = False) -> Program:
    """Four steps of one pass of a judge's loss of real and made: back through the judge, the maker for *us*, and the judge again.

    Where it *leads on*, the step updates what made the judge's input, and no second run follows: the judge's own gradients come
    first, and are dropped.
    """
    b = Program(None, record_shapes=True)
    for step in range(4):
        with b.step():
            n = 10 * step
            for number in (1, 2, 3):
                run(b, "gan.py(20): judge", 300, n + number, back=False)
            run(b, "gan.py(10): make", 1000, n + 4, back=False)
            for number in (5, 6, 7):
                run(b, "gan.py(20): judge", 300, n + number, back=False)
            for number in (7, 6, 5):
                run(b, "", 300, n + number, back=True)
            run(b, "", us, n + 4, back=True)
            stored(b, JUDGE if leads_on else MAKER, us=0.5)
            for number in (3, 2) if leads_on else (3, 2, 1):
                run(b, "", 300, n + number, back=True)
            if leads_on:
                with b.backward("TanhBackward0", n + 1):
                    pass
            stored(b, MAKER if leads_on else JUDGE, us=0.5)
            update(b, MAKER if leads_on else JUDGE)
            run(b, "gan.py(10): make", 1000, n + 8, back=False)
            run(b, "", 1000, n + 8, back=True)
            stored(b, JUDGE if leads_on else MAKER, us=0.5)
            update(b, JUDGE if leads_on else MAKER)
    return b


# The maker's part of the pass, with 2 us in which its gradients are stored.
@fires(occurrences=4, severity="high", cost_ms=2.002)
def between_two_runs_of_the_judge() -> TraceBuilder:
    return summed()


@quiet
def gradients_on_the_way_to_the_network_that_is_updated() -> TraceBuilder:
    return summed(leads_on=True)


def kept(us: float = 2000, *, summed: bool = False) -> Program:
    """Four steps of two networks alike, shape by shape, where the graph of what one made is kept for its own update.

    The maker's part of the first pass lies between the judge's two. With *summed* its gradients are added up over both passes.
    """
    b = Program(None, record_shapes=True)
    for step in range(4):
        with b.step():
            n = 10 * step
            run(b, "gan.py(20): judge", 500, n + 1, back=False)
            run(b, "gan.py(10): make", 500, n + 2, back=False)
            run(b, "gan.py(20): judge", 500, n + 3, back=False)
            run(b, "", 500, n + 3, back=True)
            stored(b, JUDGE)
            run(b, "", us, n + 2, back=True)
            stored(b, JUDGE, added=summed and step > 0)
            run(b, "", 500, n + 1, back=True)
            stored(b, JUDGE, added=True)
            update(b, JUDGE)
            run(b, "gan.py(20): judge", 500, n + 4, back=False)
            run(b, "", 500, n + 4, back=True)
            stored(b, JUDGE, added=True)
            run(b, "", us, n + 2, back=True)
            stored(b, JUDGE, added=summed)
            update(b, JUDGE)
    return b


# 2 ms through the maker in each of four updates of the judge; both have a tensor of 64.
@fires(cost_ms=2.0, occurrences=4, severity="high", line="gan.py:10")
def the_judges_update_runs_back_through_the_maker() -> Program:
    return training()


# When the maker's weights are averaged, what the judge's pass stored is gone.
@fires(cost_ms=2.0, occurrences=4)
def a_moving_average_of_the_makers_weights() -> Program:
    return training(averages="weights")


@fires
def a_moving_average_of_a_long_list() -> Program:
    return training(averages="weights", hidden=True)


# It lies between the judge's pass and the maker's, but in a forward pass.
@fires(cost_ms=2.0)
def a_vector_that_is_copied_in_a_forward_pass() -> Program:
    return training(clones=True)


@quiet
def a_long_list_of_gradients() -> Program:
    return training(averages="gradients", hidden=True)


@quiet
def gradients_that_the_program_averages_itself() -> Program:
    return training(averages="gradients")


@fires(cost_ms=2.0, occurrences=4)
def gradients_are_zeroed() -> Program:
    return training(zeros=True)


@fires(cost_ms=2.0, occurrences=4)
def on_a_gpu() -> Program:
    return training(device="Tesla V100-SXM2-16GB")


# What becomes of the last pass's gradients is not recorded any more: those of the four before it are dropped.
@fires(cost_ms=2.0, occurrences=5)
def a_recording_that_ends_behind_the_judges_update() -> Program:
    return training(steps=5, ends=JUDGE)


# The last pass may be another: its maker is updated. 8 ms of five steps.
@fires(cost_ms=1.6, occurrences=4)
def a_last_pass_whose_gradients_are_used() -> Program:
    return training(steps=5, ends=[*JUDGE, *MAKER])


# One pass before it shows too little: 2 ms of two steps.
@fires(cost_ms=1.0, occurrences=1)
def one_pass_before_the_last() -> Program:
    return training(steps=2, ends=JUDGE)


# The maker's nodes run twice a step, 2 ms each time; what the first run stores is dropped.
@fires(cost_ms=2.0, occurrences=4, severity="high", line="gan.py:10")
def networks_of_the_same_shapes_and_a_graph_that_is_kept() -> Program:
    return kept()


@quiet
def gradients_of_both_passes_are_summed() -> Program:
    return kept(summed=True)


@quiet
def what_was_made_is_detached() -> Program:
    return training(detached=True)


@quiet
def both_are_updated_behind_both_passes() -> Program:
    return training(both=True)


@edge
def a_fiftieth_of_the_step(over: bool) -> Program:
    # 90 % of 165 us of 7.185 ms are 2.07 %, those of 155 us of 7.175 ms 1.94 %.
    return training(165 if over else 155)


@lacks("shapes")
def no_shapes_recorded() -> Program:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
