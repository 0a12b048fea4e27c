"""Programs with the faults of edits that rewrite more than an argument: edited, they print the same losses and outputs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.fixing import finding, line_of, outcome, request
from support.recording import needs_torch

pytestmark = needs_torch

HEAD = """
import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
"""
LOOP = """
for step in range(3):
    loss = net(torch.randn(4, 16, 8)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
ATTENTION = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

    def forward(self, x):
        T = x.size(1)
        q, k, v = (part.unsqueeze(1) for part in self.qkv(x).chunk(3, -1))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = att @ v
        return y

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
HEADS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        out, _ = self.attn(x, x, x)
        return out

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
CHECKPOINTS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.5)) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
ROWS = """
data = TensorDataset(torch.randn(50, 4), torch.randn(50, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = (net(x) - y).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(len(x), loss.item())
"""
DRAWN = ROWS.replace(
    "loader = DataLoader(data, batch_size=8, shuffle=True)",
    "g = torch.Generator().manual_seed(3)\nloader = DataLoader(data, batch_size=8, shuffle=True, generator=g)",
)
LISTS = """
rows = [np.random.default_rng(step).integers(0, 255, (3, 4)).astype(np.uint8) for step in range(5)]
x = torch.tensor(rows, dtype=torch.float32) / 255
rows[0][:] = 0
print(x.dtype, x.sum().item())
"""
SORTS = """
scores = torch.randn(4, 50)
order = scores.argsort(dim=1, descending=True)[:, :7]
print(order.tolist(), scores.sort(1)[0][:, :7].sum().item())
"""
LOSSES = """
trunk = nn.Linear(8, 8)
heads = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))
opt = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)
for step in range(3):
    h = trunk(torch.randn(4, 8)).tanh()
    losses = [head(h).square().mean() for head in heads]
    opt.zero_grad()
    for weight, loss in zip((1, 2, 3), losses):
        (weight * loss).backward(retain_graph=True)
    opt.step()
    print([round(each.item(), 5) for each in losses])
"""
GAN = """
netG, netD = nn.Linear(4, 8), nn.Linear(8, 1)
optG = torch.optim.SGD(netG.parameters(), lr=0.1)
optD = torch.optim.SGD(netD.parameters(), lr=0.1)

def main():
    for step in range(3):
        fake = netG(torch.randn(4, 4))
        optD.zero_grad()
        loss = netD(torch.randn(4, 8)).mean() - netD(fake).mean()
        loss.backward(retain_graph=True)
        optD.step()
        optG.zero_grad()
        other = netD(fake).mean()
        other.backward()
        optG.step()
        print(loss.item(), other.item(), netG.weight.sum().item())

main()
"""
TEACHER = """
teacher, net = nn.Linear(8, 8), nn.Linear(8, 8)
teacher.eval()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in [torch.randn(4, 8) for _ in range(3)]:
    wanted = teacher(x)
    loss = (net(x) - wanted).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
TABLE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 8)

    def forward(self, x):
        return self.emb(x).tanh().sum(1)

net = Net()
opt = torch.optim.Adagrad(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randint(0, 100, (4, 6))).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(round(loss.item(), 5))
"""
AVERAGE = """
net, shadow = nn.Linear(4, 4), nn.Linear(4, 4)
for step in range(3):
    with torch.no_grad():
        net.weight.add_(1)
        for name, averaged in shadow.state_dict().items():
            averaged.lerp_(net.state_dict()[name], 0.1)
    print(shadow.weight.sum().item())
"""
INFERENCE = """
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
for step in range(3):
    print(net(torch.randn(4, 8)).sum().item())
"""
MADE = """
device = torch.device("cpu")
mask = torch.zeros(3, 4).to(device) + torch.arange(4).to(device)
print(mask.tolist())
"""
TASKS = """
trunk, one, two = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)
opt = torch.optim.SGD([*trunk.parameters(), *one.parameters(), *two.parameters()], lr=0.1)
for step in range(3):
    h = trunk(torch.randn(4, 8)).tanh()
    first, second = one(h).square().mean(), two(h).mean()
    opt.zero_grad()
    first.backward(retain_graph=True)
    (0.5 * second).backward()
    opt.step()
    print(first.item(), second.item())
"""
PLACES = """
scores = torch.randn(4, 50)
values, order = torch.sort(scores, dim=1, descending=True)
print(order[:, :7].tolist(), values[:, :7].sum().item())
"""
HEAD_ONLY = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x).tanh())

net = Net()
opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
"""
REDUCED = """
import torch.distributed as dist

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Flatten(), nn.Linear(48, 1)).to(memory_format=torch.channels_last)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(4, 2, 4, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= 2
    opt.step()
    print(loss.item())
dist.destroy_process_group()
"""
COUNTS = """
matrix = torch.zeros(5, 5, dtype=torch.long)
target, pred = torch.randint(0, 5, (3, 40)), torch.randint(-1, 5, (3, 40))
for t, p in zip(target.view(-1), pred.view(-1)):
    matrix[t, p] += 1
print(matrix.tolist())
"""
ENLARGED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=3, mode="bicubic", align_corners=True)
        return self.out(x)

net = Net()
for step in range(3):
    y = net(torch.randn(2, 8, 5, 6))
    y.square().mean().backward()
    print(y.shape, y.sum().item(), net.out.weight.grad.abs().sum().item())
"""
POSITIONS = """
out = nn.Linear(8, 2)
h = torch.randn(3, 5, 8)
print(out(h)[:, -1].tolist())
"""
INVERTED = """
a = torch.randn(6, 6, dtype=torch.float64)
K, r, B = a @ a.T + torch.eye(6), torch.randn(6, dtype=torch.float64), torch.randn(6, 3, dtype=torch.float64)
K.requires_grad_()
fit = r @ torch.inverse(K) @ r + (torch.linalg.inv(K) @ B).sum()
fit.backward()
print(fit.item(), K.grad.sum().item())
"""
HARDEST = """
def hard(x, labels):
    n = x.size(0)
    d = torch.cdist(x, x)
    mask = labels.expand(n, n).eq(labels.expand(n, n).t())
    far, near = [], []
    for i in range(n):
        far.append(d[i][mask[i]].max().unsqueeze(0))
        near.append(d[i][mask[i] == 0].min().unsqueeze(0))
    return torch.cat(far), torch.cat(near)

x = torch.randint(0, 3, (12, 2)).float().add(0.5).requires_grad_()  # ties, whose gradient is shared
far, near = hard(x, torch.arange(12) % 4)
(far.sum() - near.square().sum()).backward()
print(far.tolist(), near.tolist(), x.grad.tolist())
"""
LECTURE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("tril", torch.tril(torch.ones(32, 32)))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        v = self.value(x)
        return wei @ v

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
REVERB = """
def reverb(wave, response, padding):
    return F.conv1d(F.pad(wave, (response.shape[-1] - 1, 0)), response.flip(-1), padding=padding)

wave, one, several = torch.randn(3, 1, 700), torch.randn(1, 1, 150).requires_grad_(), torch.randn(4, 2, 90)
wet = reverb(wave, one, 0)
wet.square().mean().backward()
print(wet.shape, wet.tolist()[0][0][::100], one.grad.sum().item())
print(reverb(torch.randn(2, 500), several, 3).abs().mean().item())
"""
ADJACENCY = """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def adjacency(self, edges, count):
        index = torch.unique(edges, dim=1)
        degree = torch.zeros(count).scatter_add_(0, index[0], torch.ones(index.size(1)))
        values = degree.clamp(min=1).pow(-0.5)[index[0]]
        return torch.sparse_coo_tensor(index, values, (count, count)).coalesce()

    def forward(self, x, edges):
        adj = self.adjacency(edges, x.size(0))
        return torch.sparse.mm(adj, self.lin(x)).relu()

layers = nn.ModuleList([Layer(), Layer()])
opt = torch.optim.SGD(layers.parameters(), lr=0.1)
graphs = [(torch.randn(n, 4), torch.randint(0, n, (2, 4 * n))) for n in (10, 10, 12, 10, 10, 11)]
for step in range(12):
    x, edges = graphs[step % 6]
    for layer in layers:
        x = layer(x, edges)
    loss = x.square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
ARRAYS = """
for rows in (
    [np.ones((2, 3), dtype=np.float32), np.zeros((2, 3), dtype=np.float64)],
    [np.full((2, 3), 7, dtype=np.uint8)] * 2, [1.5, 2.0], [1, 2], [True, False], [[1.0, 2.0], [3.0, 4.0]],
):
    x = torch.tensor(rows)
    print(x.dtype, x.shape, x.tolist())
"""
WIDTHS = """
rows = [torch.randint(1, 9, (3 + n % 4,)) for n in range(24)]

def pad(batch):
    width = 16
    x = torch.zeros(len(batch), width, dtype=torch.long)
    for i, ids in enumerate(batch):
        x[i, : len(ids)] = ids
    return x

table = nn.Embedding(9, 4, padding_idx=0)
opt = torch.optim.SGD(table.parameters(), lr=0.1)
for x in DataLoader(rows, batch_size=4, collate_fn=pad):
    loss = table(x).sum(1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
ELEMENTS = """
def collate(batch):
    x = torch.zeros(len(batch), max(len(row) for row in batch), dtype=torch.long)
    for i, row in enumerate(batch):
        for j, t in enumerate(row):
            x[i, j] = t
    return x

rows = [[], [1, 2, 3], [4.7, True], [0], list(range(9))]
for x in DataLoader(rows, batch_size=2, collate_fn=collate):
    print(x.shape, x.tolist())
"""
SHARES = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 5
    def __getitem__(self, i):
        row = [n * n for n in range(i + 1)]
        x = torch.full((6,), -1.0)
        for j, t in enumerate(row):
            x[j] = t / len(row) if t else 0
        return x

for x in DataLoader(Rows(), batch_size=2):
    print(x.tolist())
"""
MESSAGES = """
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8, width) * 0.1)
        self.own = nn.Linear(8, width)

    def forward(self, x, edges, kinds):
        src, dst = edges
        out = self.own(x)
        for node in range(x.shape[0]):
            incoming = (dst == node).nonzero().squeeze(1)
            if len(incoming) == 0:
                continue
            msgs = torch.bmm(x[src[incoming]].unsqueeze(1), self.weight[kinds[incoming]]).squeeze(1)
            out = out.index_add(0, torch.tensor([node]), msgs.mean(0, keepdim=True))
        return out

net = Layer(4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, edges, kinds = torch.randn(12, 8), torch.randint(0, 12, (2, 30)), torch.randint(0, 3, (30,))
for step in range(3):
    loss = net(x, edges, kinds).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
PROTOTYPES = """
def prototypes(x, w, labels, n):
    out = torch.zeros(n, 5)
    for c in range(n):
        own = labels == c
        out[c] = torch.tanh(F.linear(x[own], w)).mean(0)
    return out

def totals(x, labels, n):
    out = torch.zeros(n)
    for c in range(n):
        own = labels == c
        out[c] = x[own].sum(0)
    return out

w = torch.randn(5, 4, requires_grad=True)
x, labels = torch.randn(30, 4), torch.arange(30) % 7
made = prototypes(x, w, labels, 7)
made.square().sum().backward()
print(made.tolist(), w.grad.tolist())
print(totals(x[:, 0], labels, 7).tolist())
"""
PROGRAMS = [
    ("groups-at-once", "nonzero", MESSAGES),
    ("groups-at-once", "torch.tanh", PROTOTYPES),
    ("groups-at-once", "x[own].sum", PROTOTYPES),
    ("elements-at-once", "def collate", ELEMENTS),
    ("elements-at-once", "__getitem__", SHARES),
    ("fft-convolution", "F.conv1d", REVERB),
    ("kept-result", "torch.unique", ADJACENCY),
    ("shared-arrays", "torch.tensor(rows", ARRAYS),
    ("longest-row", "", WIDTHS),
    ("fused-attention", "", LECTURE + LOOP),
    ("one-backward", "first.backward", TASKS),
    ("topk", "torch.sort", PLACES),
    ("frozen-layers", "", HEAD_ONLY + LOOP.replace("(4, 16, 8)", "(4, 8)")),
    ("flat-reduction", "all_reduce", REDUCED),
    ("counts-at-once", "+= 1", COUNTS),
    ("layer-before-enlarging", "interpolate", ENLARGED),
    ("layer-before-enlarging", "out(h)", POSITIONS),
    ("solve", "torch.inverse", INVERTED),
    ("hardest-at-once", "in range(n)", HARDEST),
    ("fused-attention", "", ATTENTION + LOOP),
    ("unread-weights", "", HEADS + LOOP),
    ("no-checkpointing", "", CHECKPOINTS + LOOP),
    ("batched-rows", "", ROWS),
    ("batched-rows", "", DRAWN),
    ("joined-by-numpy", "torch.tensor(", LISTS),
    ("topk", "argsort", SORTS),
    ("one-backward", "retain_graph", LOSSES),
    ("detached-output", "", GAN),
    ("frozen-forward", "teacher(x)", TEACHER),
    ("sparse-embedding", "self.emb(x)", TABLE),
    ("state-dict-once", "net.state_dict()", AVERAGE),
    ("inference-mode", "", INFERENCE),
    ("made-on-device", "torch.zeros", MADE),
]


@pytest.mark.parametrize(
    ("edit", "at", "body"), PROGRAMS, ids=[f"{edit} {number}" for number, (edit, _, _) in enumerate(PROGRAMS)]
)
def test_an_edited_program_prints_the_same_numbers(edit: str, at: str, body: str, tmp_path: Path) -> None:
    text = HEAD + body
    made = outcome(edit, request(tmp_path, text, finding("x/y", line=line_of(text, at or "import torch"))))
    assert not isinstance(made, str), made
    before, after = printed(tmp_path, text, made[0].after)
    assert len(before) >= 1
    assert len(before) == len(after)
    assert [float(one) for one in before] == pytest.approx([float(one) for one in after], rel=1e-5, abs=1e-6)


def printed(folder: Path, *programs: str) -> list[list[str]]:
    """Return the numbers that each of *programs* prints, run one after the other in a process of their own."""
    path = folder / "run.py"
    path.write_text(f"for text in {programs!r}:\n    exec(text, {{'__name__': '__main__'}})\n    print('=' * 8)\n")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    outputs = done.stdout.split("=" * 8)[:-1]
    return [re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", output) for output in outputs]
