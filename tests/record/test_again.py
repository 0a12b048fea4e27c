"""Work that a step does twice, told by what the operators of one step are given."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch, record_script

import advisor
from advisor.record import again, constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)
nn = torch.nn
F = nn.functional


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr(again, "_LEAST_ENTRY", 0.0)
    places.begin()
    torch.manual_seed(0)


def entries(step: Callable[[], Any]) -> Any:
    """Words of the recorder on a step."""
    watch = constants.Constants(torch, lambda: True)
    watch.start()
    try:
        step()
    finally:
        watch.stop()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert watch.again is not None
    return watch.again


def watched(step: Callable[[], Any]) -> list[tuple[int, int, bool]]:
    """Lines of the step's function that compute again, in order; how many operators, and True where gradients go with them.

    Of a line further in that of the step's function that leads to it.
    """
    first = step.__code__.co_firstlineno
    return sorted((found.path[0][1] - first, found.calls, found.backward > 0) for found in entries(step))


def weight(*shape: int) -> Any:
    return (torch.rand(*shape) / 8).requires_grad_()


def spread(graph: Any, table: Any) -> Any:
    for _ in range(2):
        table = torch.tanh(torch.sparse.mm(graph, table))
    return table


def test_a_propagation_over_a_graph_for_each_sign() -> None:
    graph, table = (torch.rand(64, 64) > 0.9).float().to_sparse(), weight(64, 8)

    def step() -> None:
        tables = spread(graph, table)
        good = tables[torch.randint(0, 64, (9,))].sum(1)
        tables = spread(graph, table)
        bad = tables[torch.randint(0, 64, (9,))].sum(1)
        F.softplus(bad - good).mean().backward()

    [(line, calls, gradient)] = watched(step)
    assert (line, gradient) == (3, True)
    assert calls >= 4


def train(graph: Any, table: Any) -> None:
    users = spread(graph, table)
    items = spread(graph, table)
    (users[:9].sin() * items[-9:].sin()).sum().backward()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_a_step_that_is_one_call_and_does_little_else(layout: str) -> None:
    """The line is in the function that calls both, and not the one that calls this."""
    graph, table = getattr((torch.rand(640, 640) > 0.9).float(), layout)(), weight(640, 64)
    [found] = entries(lambda: train(graph, table))
    first = train.__code__.co_firstlineno
    assert (found.line - first, found.earlier - first, found.under) == (2, 1, ())
    assert (found.share, found.backward) == (1.0, 1.0)


def test_levels_of_a_pyramid_of_which_one_is_asked_for_twice() -> None:
    """Other sizes and other pictures go through the same line: it counts where the second caller leads to it."""
    mask = torch.rand(1, 1, 5, 5)

    def levels(picture: Any) -> list[Any]:
        found = [picture]
        for _ in range(3):
            found.append(F.conv2d(found[-1], mask, stride=2, padding=2))
        return found

    def loss(picture: Any, other: Any) -> Any:
        return sum((one - two).square().sum() for one, two in zip(levels(picture), levels(other), strict=True))

    def step() -> None:
        picture, other = torch.rand(1, 1, 256, 256), torch.rand(1, 1, 256, 256)
        distance = loss(picture, other)
        sharpness = torch.stack([level.square().sum() for level in levels(picture)])
        (distance + sharpness.sum()).sin().cos()

    [found] = entries(step)
    first = step.__code__.co_firstlineno
    assert ([line.line - first for line in found.under], found.earlier - first, found.share) == ([3], 2, 1.0)
    assert found.line - levels.__code__.co_firstlineno == 3


def test_layers_that_a_librarys_container_calls() -> None:
    """Nobody edits torch's container: the line is in the layer."""

    class Layer(nn.Module):
        def forward(self, pair: Any) -> Any:
            points, state = pair
            near = torch.cdist(points, points).softmax(-1)
            return points, near @ state

    layers = nn.Sequential(Layer(), Layer(), Layer())

    def step() -> None:
        layers((torch.rand(256, 3), torch.rand(256, 8)))[1].sin().sum()

    [found] = entries(step)
    assert found.line - Layer.forward.__code__.co_firstlineno == 2
    assert (found.earlier, found.under, found.share) == (0, (), pytest.approx(0.6667))


def test_masks_that_torchs_own_layers_merge() -> None:
    """Each layer of torch's adds the padding to the mask: there is no line of the program's to change."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

    def step() -> None:
        mask, padding = torch.rand(32, 32), torch.rand(4, 32).round().mul(-9)
        encoder(torch.rand(4, 32, 8), mask, padding).sum().backward()

    assert watched(step) == []


def test_a_graph_that_a_backward_pass_has_freed() -> None:
    """The second loss has to run what the first one's backward pass went through; a third, without a gradient, need not."""
    matrix = weight(8, 8)

    def trunk(x: Any) -> Any:
        return torch.tanh(x @ matrix)

    def step() -> None:
        x = torch.rand(16, 8)
        trunk(x).sum().backward()
        trunk(x).square().sum().backward()
        with torch.no_grad():
            trunk(x).cos().sum().sin()

    assert watched(step) == [(5, 2, False)]


@pytest.mark.parametrize("change", ["graph", "table"])
def test_what_is_written_between_is_another(change: str) -> None:
    graph, table = (torch.rand(64, 64) > 0.9).float().to_sparse(), weight(64, 8)

    def step() -> None:
        good = spread(graph, table).sum()
        with torch.no_grad():
            (graph if change == "graph" else table).mul_(0.5)
        bad = spread(graph, table).sum()
        F.softplus(bad - good).sin()

    assert watched(step) == []


def test_a_batch_that_was_drawn_in_the_step() -> None:
    """Nothing tells what is random, but within the step it is this batch and no other."""
    first, second = weight(8, 8), weight(8, 8)

    def step() -> None:
        x, y = torch.rand(16, 8), torch.rand(16, 8)
        one = torch.tanh(x @ first) @ second
        other = torch.tanh(y @ first) @ second
        more = torch.tanh(x @ first) @ second
        (one.sum() - other.sin().sum() + more.cos().sum()).backward()

    assert watched(step) == [(4, 3, True)]


def test_variables_of_the_forward_pass_are_not_held_through_the_backward_pass() -> None:
    """The variables of the user's function are gone once it has returned, as they are without the recorder."""
    weights, held, one = weight(64, 64), [], torch.ones(())

    class Look(torch.autograd.Function):  # type: ignore[misc, name-defined, unused-ignore]
        @staticmethod
        def forward(ctx: Any, value: Any) -> Any:
            return value.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            scaled = gradient * 2
            held.append(kept[0]())
            return scaled

    kept: list[Any] = []

    def forward() -> Any:
        mask = torch.ones(64)
        kept.append(weakref.ref(mask))
        return Look.apply((weights @ weights + mask.sum()).tanh()).sum()

    def step() -> None:
        forward().backward(one)

    entries(step)
    assert held == [None]


def test_gradients_of_one_call_alone() -> None:
    """Beside a call without gradients, the backward pass of the other has to run."""
    matrix = weight(8, 8)

    def step() -> None:
        x = torch.rand(16, 8)
        seen = torch.tanh(x @ matrix).detach()
        kept = torch.tanh(x @ matrix)
        (kept * seen.sin()).sum().backward()

    assert watched(step) == [(3, 2, False)]


def test_parameters_that_are_equal_yet() -> None:
    """Scales begin as ones: what they are applied to is the same only until they are updated."""
    left, right = nn.LayerNorm(8), nn.LayerNorm(8)

    def step() -> None:
        x = torch.rand(16, 8)
        (left(x) * right(x).sin()).sum().backward()

    assert watched(step) == []


def test_memory_that_numpy_writes() -> None:
    """torch counts no such write."""
    frame = torch.zeros(16, 8)
    held, matrix = frame.numpy(), weight(8, 8)

    def step() -> None:
        total = torch.zeros(())
        for turn in range(3):
            held[turn] = turn + 1
            total = total + torch.tanh(frame @ matrix).sum()
        total.sin().cos().backward()

    assert watched(step) == []


def test_gradients_that_a_backward_pass_adds_to() -> None:
    """Its norm is asked after each of two passes: the memory is the same, and no operator of a forward pass wrote into it."""
    matrix = weight(8, 8)
    matrix.grad = torch.ones(8, 8)

    def step() -> None:
        matrix.grad.zero_()
        norms = []
        for _ in range(2):
            (torch.rand(16, 8) @ matrix).sin().sum().backward()
            norms.append(matrix.grad.square().sum())
        torch.stack(norms).sum().sin()

    assert watched(step) == []


def test_dropout_that_differs() -> None:
    def step() -> None:
        x = torch.rand(16, 8)
        (F.dropout(x).sin() + F.dropout(x).sin()).sum().cos()

    assert watched(step) == []


def test_memory_that_is_made_to_be_written_into() -> None:
    x, rows = torch.rand(16, 8), torch.arange(4)

    def step() -> None:
        for turn in range(3):
            masked = x.clone()
            masked[rows + turn] = float(turn)
            zeros = torch.zeros_like(x)
            zeros.add_(masked, alpha=turn)
            zeros.sum().sin()

    assert watched(step) == []


def test_one_batch_that_runs_again_on_purpose() -> None:
    x, matrix = torch.rand(16, 8), weight(8, 8)

    def step() -> None:
        for _ in range(4):
            torch.tanh(x @ matrix).sum().sin()

    assert watched(step) == []


def test_states_of_an_integrator() -> None:
    matrix = weight(8, 8)

    def step() -> None:
        y = torch.rand(16, 8)
        for _ in range(3):
            y = y + 0.1 * torch.tanh((y + 0.05 * torch.tanh(y @ matrix)) @ matrix)
        y.sum().backward()

    assert watched(step) == []


def test_what_checkpointing_computes_again() -> None:
    from torch.utils.checkpoint import checkpoint

    matrix = weight(8, 8)

    def step() -> None:
        checkpoint(lambda x: torch.tanh(x @ matrix).sin(), torch.rand(16, 8), use_reentrant=False).sum().backward()

    assert watched(step) == []


STEP = """import torch
def spread(graph, table):
    for _ in range(2):
        table = torch.tanh(graph @ table)
    return table
def train(graph, table):
    users = spread(graph, table)
    items = spread(graph, table)
    (users[:9].sin() * items[-9:].sin()).sum().backward()
def main():
    graph = (torch.rand(900, 900) > 0.9).float().to_sparse_csr()
    table = torch.rand(900, 64).requires_grad_()
    optimizer = torch.optim.SGD([table], lr=0.1)
    for _ in range(40):
        train(graph, table)
        optimizer.step()
        optimizer.zero_grad()
main()
"""


def test_a_recorded_step_that_is_one_call(tmp_path: Path) -> None:
    record_script(STEP, tmp_path)
    trace = advisor.read(tmp_path / "job.trace.json.gz")
    rows = trace.frame("repeated_operators")
    assert rows[["line", "from_line", "earlier_line", "repeated_share"]].drop_duplicates().to_numpy().tolist() == [
        [8, 8, 7, 1.0]
    ]
    assert set(rows["name"]) >= {"aten::addmm", "aten::tanh_backward"}
    finding = next(each for each in advisor.analyze(trace).findings if each.rule == "cpu/repeated-function")
    assert finding.where[0].line == 8


@pytest.mark.parametrize("keeps", [True, False])
def test_a_derivative_of_which_another_is_taken(keeps: bool) -> None:
    """With create_graph the pass leaves the graph that it goes through, and the value can be shared; without it, it frees that."""
    matrix, point = weight(8, 8), torch.rand(16, 8).requires_grad_()

    def value() -> Any:
        return torch.tanh(point @ matrix).sum()

    def step() -> None:
        (first,) = torch.autograd.grad(value(), point, create_graph=keeps)
        (first.square().sum() + value()).sin().backward()

    found = watched(step)
    assert found == ([(2, 3, True)] if keeps else [])


def test_what_ran_without_gradients_leaves_no_graph() -> None:
    graph, table = (torch.rand(64, 64) > 0.9).float().to_sparse(), weight(64, 8)

    def step() -> None:
        with torch.no_grad():
            best = spread(graph, table).argmax(1)
        spread(graph, table)[torch.arange(64), best].sum().backward()

    assert watched(step) == []
