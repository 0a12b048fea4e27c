"""Knowledge distillation: a slim student network learns from a wide teacher on texture images."""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 10


class Textures(Dataset):
    """Sinusoidal gratings with noise; the class is the orientation."""

    def __init__(self, n, size=32, seed=0, train=True):
        rng = np.random.default_rng(seed)
        self.train = train
        self.labels = rng.integers(0, NUM_CLASSES, n)
        yy, xx = np.mgrid[0:size, 0:size] / size
        images = []
        for label in self.labels:
            angle = np.pi * (label + rng.normal(0, 0.15)) / NUM_CLASSES
            freq = rng.uniform(3, 6)
            wave = np.sin(2 * np.pi * freq * (xx * np.cos(angle) + yy * np.sin(angle)))
            images.append(wave[None] * rng.uniform(0.4, 1.0, (3, 1, 1)))
        noise = rng.normal(0, 0.6, (n, 3, size, size))
        self.images = torch.from_numpy((np.stack(images) + noise).astype(np.float32))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.train:
            dy, dx = torch.randint(-4, 5, (2,)).tolist()
            image = torch.roll(image, (dy, dx), dims=(1, 2))
        return image, int(self.labels[index])


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True)
    )


class ConvNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(3, width),
            conv_bn(width, width, 2),
            conv_bn(width, width * 2),
            conv_bn(width * 2, width * 2, 2),
            conv_bn(width * 2, width * 4),
        )
        self.classifier = nn.Linear(width * 4, NUM_CLASSES)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))


def export_teacher(path, width):
    """Stands in for the checkpoint of the teacher's own training."""
    torch.save(ConvNet(width).state_dict(), path)


def load_teacher(path, width):
    teacher = ConvNet(width)
    teacher.load_state_dict(torch.load(path))
    teacher.eval()
    return teacher


class Distiller:
    def __init__(self, teacher, student, args):
        self.teacher = teacher
        self.student = student
        self.temperature = args.temperature
        self.alpha = args.alpha
        self.optimizer = torch.optim.SGD(student.parameters(), lr=args.lr, momentum=0.9)

    def kd_loss(self, student_logits, teacher_logits, labels):
        t = self.temperature
        soft = F.kl_div(F.log_softmax(student_logits / t, dim=1),
                        F.softmax(teacher_logits / t, dim=1), reduction="batchmean") * t * t
        hard = F.cross_entropy(student_logits, labels)
        return self.alpha * soft + (1 - self.alpha) * hard

    def training_step(self, images, labels):
        teacher_logits = self.teacher(images)
        student_logits = self.student(images)
        loss = self.kd_loss(student_logits, teacher_logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        correct = (student_logits.argmax(1) == labels).sum().item()
        return loss.item(), correct


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--temperature", type=float, default=4.0)
    parser.add_argument("--alpha", type=float, default=0.7)
    parser.add_argument("--teacher-width", type=int, default=28)
    parser.add_argument("--student-width", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(21)
    loader = DataLoader(Textures(960, seed=21), args.batch_size, shuffle=True, drop_last=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "teacher.pt"
        export_teacher(path, args.teacher_width)
        teacher = load_teacher(path, args.teacher_width)
    distiller = Distiller(teacher, ConvNet(args.student_width), args)
    distiller.student.train()

    losses = []
    epoch = 0
    while len(losses) < args.steps:
        epoch += 1
        start, correct, seen = time.time(), 0, 0
        for images, labels in loader:
            loss, right = distiller.training_step(images, labels)
            losses.append(loss)
            correct += right
            seen += len(labels)
            if len(losses) >= args.steps:
                break
        print(f"epoch {epoch} loss {losses[-1]:.4f} acc {correct / seen:.3f} "
              f"in {time.time() - start:.1f}s")
    print(f"final loss {np.mean(losses[-15:]):.4f}")


if __name__ == "__main__":
    main()
