"""Loops whose turns need each other, and loops whose turns do not, as operators of a step tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recording import REASON, needs_torch

from advisor.reading.program_settings import Chain
from advisor.record import constants, places

pytestmark = needs_torch
torch = pytest.importorskip("torch", reason=REASON)

TURNS = 40
OWNER = torch.arange(200) % TURNS
HEAD = torch.nn.Linear(4, 4)
CELL = torch.nn.GRUCell(4, 4)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    places.begin()
    torch.manual_seed(0)


def chains(step: Callable[[Any], Any], gradient: bool = True) -> tuple[Chain, ...]:
    """Return what is told of a step that is given features of 200 rows."""
    watch = constants.Constants(torch)
    features = torch.randn(200, 4)
    watch.start()
    try:
        with torch.set_grad_enabled(gradient):
            result = step(HEAD(features))
        if gradient:
            result.sum().backward()
    finally:
        watch.stop()
    assert watch.chains is not None
    return watch.chains


def by_user(x: Any) -> Any:
    return torch.stack([x[turn == OWNER].mean(0) for turn in range(TURNS)])


def into_a_sum(x: Any) -> Any:
    out = HEAD(x)
    for turn in range(TURNS):
        rows = (turn == OWNER).nonzero().squeeze(1)
        out = out.index_add(0, torch.tensor([turn]), torch.tanh(x[rows]).mean(0, keepdim=True))
    return out


def into_its_place(x: Any) -> Any:
    out = torch.zeros_like(x)
    for turn in range(TURNS):
        part = x[5 * turn : 5 * turn + 5]
        out[5 * turn : 5 * turn + 5] = (part - part.mean(0)) / (part.std(0) + 1)
    return out


def nearest(x: Any) -> Any:
    found = []
    for query in x[:TURNS]:
        distance = ((x - query) ** 2).sum(1)
        found.append(distance.topk(3, largest=False).values.mean())
    return torch.stack(found)


def read_one_by_one(x: Any) -> Any:
    sizes = torch.arange(1, TURNS + 1)
    return torch.stack([torch.softmax(x[: int(sizes[turn].item())], 0).sum(0) for turn in range(TURNS)])


def sequences_one_by_one(x: Any) -> Any:
    ends = []
    for sequence in x[: 25 * 8].reshape(25, 8, 4):
        h = torch.zeros(1, 4)
        for part in sequence.unbind(0):
            h = CELL(part[None], h)
        ends.append(h)
    return torch.cat(ends)


def twice_by_user(x: Any) -> Any:
    return by_user(torch.tanh(HEAD(by_user(x).repeat(5, 1))))


def best_of_sums(x: Any) -> Any:
    best, total = torch.full((4,), -1e3), torch.zeros(4)
    for turn in range(TURNS):
        best = torch.maximum(best, x[turn] + x[turn + 1])
        total = total + torch.tanh(x[turn])
    return best + total


def logged(x: Any) -> Any:
    losses, found = [], []
    for turn in range(TURNS):
        found.append((torch.tanh(x[turn]) * 0.5 + 0.25).sum())
        losses.append(found[-1].item())
    return torch.stack(found)


def cut_by_lengths(x: Any) -> Any:
    """Rows behind one another, as many as was read of a list of lengths."""
    lengths, at, found = torch.arange(200) % 5 + 1, 0, []
    for turn in range(TURNS):
        rows = int(lengths[turn].item())
        found.append(torch.tanh(x[at : at + rows]).sum(0) * 0.5)
        at += rows
    return torch.stack(found)


def walked_twice(x: Any) -> Any:
    found = []
    for _ in range(4):
        for row in range(25):
            found.append(torch.tanh(x[row]).sum())
            found[-1].item()
    return torch.stack(found)


def running_sum(x: Any) -> Any:
    total, sums = torch.zeros(4), []
    for turn in range(TURNS):
        total = total + x[turn]
        sums.append(total)
    return torch.stack(sums)


INDEPENDENT = [
    by_user, into_a_sum, into_its_place, nearest, read_one_by_one, sequences_one_by_one, twice_by_user, running_sum,
    best_of_sums, logged, cut_by_lengths, walked_twice,
]  # fmt: skip


@pytest.mark.parametrize("step", INDEPENDENT, ids=lambda step: step.__name__)
@pytest.mark.parametrize("gradient", [True, False], ids=["trained", "forward"])
def test_turns_that_do_not_need_each_other_lie_as_deep_as_each_other(
    step: Callable[[Any], Any], gradient: bool
) -> None:
    found = chains(step, gradient)
    assert found
    assert all(chain.turns >= TURNS for chain in found if chain.calls >= TURNS)
    assert max(chain.deeper for chain in found) <= 0.05


def cell(x: Any) -> Any:
    h = torch.zeros(1, 4)
    for turn in range(TURNS):
        h = CELL(x[turn, None], h)
    return h


def moving_average(x: Any) -> Any:
    mean, means = x[0], []
    for turn in range(TURNS):
        mean = 0.9 * mean + 0.1 * x[turn]
        means.append(mean)
    return torch.stack(means)


def own_input(x: Any) -> Any:
    state, states = x[:2], []
    for _ in range(TURNS):
        state = state + 0.1 * torch.tanh(HEAD(state))
        states.append(state)
    return torch.stack(states)


def chosen_token(x: Any) -> Any:
    token, scores = 0, []
    for _ in range(TURNS):
        row = torch.index_select(x, 0, torch.tensor([token]))
        score = HEAD(row).softmax(1)
        scores.append(score)
        token = int(score.argmax().item())
    return torch.cat(scores)


def tree(x: Any) -> Any:
    states = torch.zeros(TURNS, 4)
    for node in range(TURNS):
        below = torch.arange(max(node - 1 - node % 3, 0), node)
        state = torch.tanh(HEAD(states[below].sum(0)) + x[node])
        states = states.index_copy(0, torch.tensor([node]), state[None])
    return states[-1]


def fewer_rows_each_turn(x: Any) -> Any:
    h, done = torch.zeros(TURNS, 4), []
    for turn in range(TURNS):
        h = torch.tanh(HEAD(h) + x[turn])
        done.append(h[-1:])
        h = h[:-1]
    return torch.cat(done)


def a_step_of_descent(x: Any) -> Any:
    point = x[0].detach()
    for _ in range(TURNS):
        with torch.enable_grad():
            point = point.detach().requires_grad_()
            torch.tanh(HEAD(point)).sum().backward(inputs=[point])
        point = point + 0.1 * point.grad.sign()
    return point + x[0]


def shortest_paths(x: Any) -> Any:
    paths = x[:TURNS] @ x[:TURNS].t()
    for node in range(TURNS):
        paths = torch.minimum(paths, paths[:, node, None] + paths[node])
    return paths


def warped_distance(x: Any) -> Any:
    costs, row = torch.cdist(x[:TURNS], x[:TURNS]), torch.full((TURNS,), 1e3)
    for at in range(TURNS):
        row = torch.maximum(row, row.roll(1)) + costs[at] if at % 2 else torch.minimum(row, row.flip(0)) + costs[at]
    return row


def bisection(x: Any) -> Any:
    low, high = -9.0, 9.0
    for _ in range(TURNS):
        middle = (low + high) / 2
        above = (x[:, 0] - middle).tanh().sum().item() > 0
        low, high = (middle, high) if above else (low, middle)
    return x + middle


def backtrace(x: Any) -> Any:
    """The path of a Viterbi search, from its end."""
    back, at, path = (x.detach()[:TURNS] * 100).long().remainder(4), 0, []
    for turn in range(TURNS - 1, -1, -1):
        at = back[turn][at].item()
        path.append(at)
    return x.sum() + sum(path)


def a_linked_list(x: Any) -> Any:
    following, at = torch.randperm(200), 0
    for _ in range(TURNS):
        at = int(following[at])
    return x.sum() + at


def a_walk_over_rows(x: Any) -> Any:
    at, total = 0, torch.zeros(())
    for _ in range(TURNS):
        row = torch.tanh(x[at])
        total = total + row.sum()
        at = (7 * at + 5 + int(row.argmax())) % 200
    return total


def rows_of_itself(x: Any) -> Any:
    x = x.clone()
    for turn in range(TURNS):
        rows = (turn % 7 == OWNER % 7).nonzero().squeeze(1)
        x[rows] = torch.tanh(HEAD(x[rows].clone()))
    return x


def in_place(x: Any) -> Any:
    average = x[0].detach().clone()
    for turn in range(TURNS):
        average.mul_(0.9).add_(torch.sin(x[turn].detach()), alpha=0.1)
    return average + x[0]


RECURRENT = [cell, moving_average, own_input, chosen_token, tree, fewer_rows_each_turn, a_step_of_descent,
             shortest_paths, warped_distance, bisection, rows_of_itself, in_place, backtrace, a_linked_list,
             a_walk_over_rows]  # fmt: skip


@pytest.mark.parametrize("step", RECURRENT, ids=lambda step: step.__name__)
@pytest.mark.parametrize("gradient", [True, False], ids=["trained", "forward"])
def test_turns_that_need_the_one_before_lie_deeper_each(step: Callable[[Any], Any], gradient: bool) -> None:
    found = chains(step, gradient)
    assert found
    # Lines of the loop beside the chain (a mask, a list of results) need nothing.
    assert max(chain.deeper for chain in found) >= 0.45


def test_a_few_turns_are_no_loop() -> None:
    assert chains(lambda x: torch.stack([x[turn == OWNER].mean(0) for turn in range(10)])) == ()


def test_nothing_is_held_of_a_step_that_has_ended() -> None:
    watch = constants.Constants(torch)
    watch.start()
    by_user(torch.randn(200, 4))
    watch.stop()
    assert watch._chains._depth == {}
