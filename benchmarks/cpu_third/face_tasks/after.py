"""Multi-task face analysis: attributes, age, pose and landmarks from one backbone."""
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        blocks, inputs = [], 3
        for outputs, stride in ((width, 2), (width * 2, 1), (width * 2, 2), (width * 4, 2)):
            blocks += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                       nn.BatchNorm2d(outputs), nn.ReLU()]
            inputs = outputs
        self.features = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.width = inputs * 4

    def forward(self, x):
        return self.features(x)


class FaceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        sizes = {"attributes": 20, "age": 1, "pose": 3, "landmarks": 10}
        self.heads = nn.ModuleDict(
            {name: nn.Sequential(nn.Linear(self.backbone.width, 64), nn.ReLU(), nn.Linear(64, n))
             for name, n in sizes.items()}
        )

    def forward(self, image):
        shared = self.backbone(image)
        return {name: head(shared) for name, head in self.heads.items()}


CRITERIA = {
    "attributes": F.binary_cross_entropy_with_logits,
    "age": F.smooth_l1_loss,
    "pose": F.mse_loss,
    "landmarks": F.smooth_l1_loss,
}
WEIGHTS = {"attributes": 1.0, "age": 0.5, "pose": 0.5, "landmarks": 2.0}


class Callback:
    def on_step(self, trainer, step, losses):
        pass


class Timer(Callback):
    def __init__(self, skip=5):
        self.skip, self.marks = skip, [time.perf_counter()]

    def on_step(self, trainer, step, losses):
        self.marks.append(time.perf_counter())

    def report(self):
        marks = self.marks[self.skip:] if len(self.marks) > self.skip + 1 else self.marks
        print(f"mean step {1000 * (marks[-1] - marks[0]) / max(1, len(marks) - 1):.2f} ms")


class Printer(Callback):
    def __init__(self, every):
        self.every = every

    def on_step(self, trainer, step, losses):
        if step % self.every == 0:
            print(step, " ".join(f"{name} {loss.item():.4f}" for name, loss in losses.items()))


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks

    def training_step(self, image, target):
        outputs = self.model(image)
        losses = {name: CRITERIA[name](outputs[name], target[name]) for name in outputs}
        self.optimizer.zero_grad()
        sum(WEIGHTS[name] * loss for name, loss in losses.items()).backward()
        self.optimizer.step()
        return losses

    def fit(self, batches, steps):
        self.model.train()
        for step, (image, target) in zip(range(steps), batches):
            losses = self.training_step(image, target)
            for callback in self.callbacks:
                callback.on_step(self, step, losses)


def faces(batch, size=48, seed=13):
    g = torch.Generator().manual_seed(seed)
    basis = torch.randn(34, 3, size // 4, size // 4, generator=g)
    while True:
        code = torch.rand(batch, 34, generator=g)
        image = F.interpolate(torch.einsum("bk,kchw->bchw", code, basis), scale_factor=4) * 0.3
        yield image, {"attributes": (code[:, :20] > 0.5).float(), "age": code[:, 20:21],
                      "pose": code[:, 21:24], "landmarks": code[:, 24:]}


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=60)
    cli.add_argument("--batch", type=int, default=16)
    options = cli.parse_args()
    torch.manual_seed(12)
    net = FaceNet()
    timer = Timer()
    trainer = Trainer(net, torch.optim.Adam(net.parameters(), lr=1e-3), [Printer(10), timer])
    trainer.fit(faces(options.batch), options.steps)
    timer.report()
