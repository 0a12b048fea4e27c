"""Train a small residual network on a folder of product photos (one sub-folder per class)."""
import argparse
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch.utils.data import DataLoader, Dataset

CLASSES = ["bag", "hat", "lamp", "mug", "shoe", "watch"]
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def make_photos(root, per_class, seed=0):
    """Draw photos with a noisy background and one class dependent object."""
    rng = np.random.default_rng(seed)
    for label, name in enumerate(CLASSES):
        folder = Path(root) / name
        folder.mkdir(parents=True)
        for i in range(per_class):
            noise = rng.integers(90, 200, size=(30, 40, 3), dtype=np.uint8)
            image = Image.fromarray(noise).resize((320, 240), Image.BILINEAR)
            draw = ImageDraw.Draw(image)
            x, y = rng.integers(40, 200), rng.integers(30, 120)
            size = int(rng.integers(50, 110))
            color = tuple(int(c) for c in rng.integers(0, 255, size=3))
            if label % 2 == 0:
                draw.ellipse((x, y, x + size, y + size // (1 + label // 2)), fill=color)
            else:
                draw.rectangle((x, y, x + size, y + size // (1 + label // 2)), fill=color)
            image.save(folder / f"{i:04d}.jpg", quality=92)


class PhotoFolder(Dataset):
    def __init__(self, root, size=72, crop=64):
        self.size = size
        self.crop = crop
        self.samples = []
        for label, name in enumerate(CLASSES):
            for path in sorted((Path(root) / name).glob("*.jpg")):
                self.samples.append((path, label))

    def __len__(self):
        return len(self.samples)

    def load(self, path):
        with Image.open(path) as image:
            return image.convert("RGB").resize((self.size, self.size), Image.BICUBIC)

    def augment(self, image):
        left = random.randint(0, self.size - self.crop)
        top = random.randint(0, self.size - self.crop)
        image = image.crop((left, top, left + self.crop, top + self.crop))
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return image

    def __getitem__(self, index):
        path, label = self.samples[index]
        image = self.augment(self.load(path))
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255
        return (tensor - MEAN) / STD, label


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.skip(x))


class SmallResNet(nn.Module):
    def __init__(self, num_classes, width=24):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.layers = nn.Sequential(
            Block(width, width, 1), Block(width, width * 2, 2), Block(width * 2, width * 4, 2)
        )
        self.fc = nn.Linear(width * 4, num_classes)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(x.mean(dim=(2, 3)))


def train(args, root):
    dataset = PhotoFolder(root)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = SmallResNet(len(CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    step, epoch = 0, 0
    running = []
    while step < args.steps:
        model.train()
        start = time.time()
        correct, seen = 0, 0
        for images, labels in loader:
            logits = model(images)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
            running.append(loss.item())
            step += 1
            if step >= args.steps:
                break
        epoch += 1
        print(f"epoch {epoch:2d} loss {running[-1]:.3f} acc {correct / seen:.3f} "
              f"({time.time() - start:.1f} s)")
    return running


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    with tempfile.TemporaryDirectory() as root:
        make_photos(root, per_class=48)
        losses = train(args, root)
    tail = losses[-20:]
    print(f"final loss {sum(tail) / len(tail):.4f}")


if __name__ == "__main__":
    main()
