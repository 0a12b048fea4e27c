"""Knowledge distillation of a small ResNet on 32x32 images."""
import argparse
import os
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from networks import build_student, build_teacher

NUM_CLASSES = 10


def make_dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, NUM_CLASSES, (n,), generator=g)
    prototypes = torch.randn(NUM_CLASSES, 3, 8, 8, generator=g)
    images = F.interpolate(prototypes, size=32, mode="bilinear", align_corners=False)[labels]
    images = images + 0.5 * torch.randn(n, 3, 32, 32, generator=g)
    return images, labels


class DistillationLoss(nn.Module):
    """alpha * KL(student || teacher) + (1 - alpha) * CE, as in Hinton et al."""

    def __init__(self, temperature=4.0, alpha=0.7):
        super().__init__()
        self.temperature = temperature
        self.alpha = alpha

    def forward(self, student_logits, teacher_logits, labels):
        t = self.temperature
        soft = F.kl_div(
            F.log_softmax(student_logits / t, dim=1),
            F.softmax(teacher_logits / t, dim=1),
            reduction="batchmean",
        ) * (t * t)
        hard = F.cross_entropy(student_logits, labels)
        return self.alpha * soft + (1.0 - self.alpha) * hard


class DistillationTrainer:
    def __init__(self, teacher, student, images, labels, batch_size=48, lr=0.05):
        self.teacher = teacher
        self.student = student
        self.images = images
        self.labels = labels
        self.batch_size = batch_size
        self.criterion = DistillationLoss()
        self.optimizer = torch.optim.SGD(
            student.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4
        )
        self.step_times = []

    def augment(self, images):
        if torch.rand(1).item() < 0.5:
            images = images.flip(3)
        dy, dx = torch.randint(0, 9, (2,)).tolist()
        padded = F.pad(images, (4, 4, 4, 4))
        return padded[:, :, dy:dy + 32, dx:dx + 32].contiguous()

    def batches(self):
        while True:
            order = torch.randperm(len(self.images))
            for i in range(0, len(order) - self.batch_size + 1, self.batch_size):
                idx = order[i:i + self.batch_size]
                yield self.augment(self.images[idx]), self.labels[idx]

    def train_step(self, images, labels):
        self.optimizer.zero_grad()
        with torch.no_grad():
            teacher_logits = self.teacher(images)
        student_logits = self.student(images)
        loss = self.criterion(student_logits, teacher_logits, labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, steps):
        self.teacher.eval()
        self.student.train()
        batches = self.batches()
        for step in range(1, steps + 1):
            start = time.perf_counter()
            images, labels = next(batches)
            loss = self.train_step(images, labels)
            self.step_times.append(time.perf_counter() - start)
            if step == 1 or step % 10 == 0:
                print(f"step {step:4d}  loss {loss:.4f}")


def load_teacher(path):
    teacher = build_teacher(NUM_CLASSES)
    if path and os.path.exists(path):
        teacher.load_state_dict(torch.load(path, map_location="cpu"))
    return teacher


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--teacher", default="", help="teacher checkpoint")
    args = parser.parse_args()

    torch.manual_seed(0)
    images, labels = make_dataset(2048, seed=1)
    teacher = load_teacher(args.teacher)
    student = build_student(NUM_CLASSES)
    trainer = DistillationTrainer(teacher, student, images, labels, args.batch_size)
    trainer.fit(args.steps)
    print(f"step_ms: {statistics.median(trainer.step_times) * 1000:.2f}")


if __name__ == "__main__":
    main()
