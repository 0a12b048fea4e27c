"""Read scanned invoice pages with a CRNN: crop the text lines, recognise them."""
import argparse
import os
import statistics
import time

import numpy as np
import torch
from PIL import Image
from torch import nn

CHARSET = " 0123456789abcdefghijklmnopqrstuvwxyz.,:-/"
LINE_H, LINE_W = 32, 160


class CRNN(nn.Module):
    """Conv features -> BiLSTM -> character scores (CTC, blank = 0)."""

    def __init__(self, num_classes, hidden=96):
        super().__init__()

        def block(cin, cout, pool):
            return [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout),
                    nn.ReLU(inplace=True), nn.MaxPool2d(pool)]

        self.cnn = nn.Sequential(*block(1, 8, (2, 2)), *block(8, 16, (2, 2)), *block(16, 32, (4, 1)),
                                 *block(32, 48, (2, 1)))
        self.rnn = nn.LSTM(48, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, num_classes)

    def forward(self, x):
        f = self.cnn(x).squeeze(2).transpose(1, 2)
        out, _ = self.rnn(f)
        return self.fc(out)


class PageReader:
    def __init__(self, model, charset=CHARSET):
        self.model = model.eval()
        self.charset = charset

    def crop_lines(self, page, boxes):
        """Grey-scale crops at the recogniser's input size."""
        crops = []
        for left, top, right, bottom in boxes:
            crop = page.crop((left, top, right, bottom)).resize((LINE_W, LINE_H), Image.BILINEAR)
            crops.append(np.asarray(crop, dtype=np.float32) / 127.5 - 1.0)
        return crops

    def decode(self, ids):
        """Collapse repeats, drop blanks."""
        text, previous = [], -1
        for i in ids:
            if i != previous and i != 0:
                text.append(self.charset[i - 1])
            previous = i
        return "".join(text)

    @torch.inference_mode()
    def read(self, page, boxes):
        texts, confidences = [], []
        for crop in self.crop_lines(page, boxes):
            x = torch.from_numpy(crop)[None, None]
            scores, ids = self.model(x).softmax(-1).max(-1)
            texts.append(self.decode(ids[0].tolist()))
            confidences.append(scores.mean().item())
        return texts, confidences


def fake_page(rng, lines):
    """Page image with `lines` rows of dark strokes and their boxes."""
    h, w = 40 * lines + 40, 640
    page = rng.normal(230, 8, (h, w))
    boxes = []
    for k in range(lines):
        top, right = 20 + 40 * k, int(rng.integers(280, 620))
        strokes = np.repeat(rng.random((8, (right - 20) // 4)) < 0.35, 4, axis=1)
        strokes = np.repeat(strokes, 4, axis=0)
        page[top:top + 32, 20:20 + strokes.shape[1]][strokes] = 40
        boxes.append((20, top, right, top + 32))
    return Image.fromarray(np.clip(page, 0, 255).astype(np.uint8)), boxes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", help="CRNN state dict; random weights if not given")
    parser.add_argument("--lines", type=int, default=32, help="text lines on a page")
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 200)))
    parser.add_argument("--seed", type=int, default=8)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    pages = [fake_page(rng, args.lines) for _ in range(10)]
    model = CRNN(len(CHARSET) + 1)
    if args.weights:
        model.load_state_dict(torch.load(args.weights, map_location="cpu"))
    reader = PageReader(model)

    times, chars, conf_sum = [], 0, 0.0
    for n in range(args.steps):
        page, boxes = pages[n % len(pages)]
        start = time.perf_counter()
        texts, confidences = reader.read(page, boxes)
        times.append(time.perf_counter() - start)
        chars += sum(map(len, texts))
        conf_sum += sum(confidences) / len(confidences)
        if (n + 1) % 40 == 0:
            print(f"{n + 1} pages, {chars} characters")
    print(f"characters {chars} mean confidence {conf_sum / args.steps:.7f}")
    print(f"step {statistics.median(times[5:]) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
