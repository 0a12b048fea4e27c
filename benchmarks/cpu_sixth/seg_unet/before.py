"""Train a U-Net on aerial land-cover tiles.

    python before.py --batch-size 8 --workers 2
"""
import argparse
import logging
import os
import tempfile
import time

import torch
from torch.utils.data import DataLoader

from landcover.data import TileDataset, write_tiles
from landcover.losses import seg_loss
from landcover.model import UNet

log = logging.getLogger("landcover")


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--image-size", type=int, default=96)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--steps", type=int, default=int(os.environ.get("STEPS", 80)))
    return p.parse_args()


def mean_iou(pred, target, num_classes):
    hist = torch.bincount((target * num_classes + pred).flatten(), minlength=num_classes ** 2)
    hist = hist.view(num_classes, num_classes).float()
    inter = hist.diag()
    return (inter / (hist.sum(0) + hist.sum(1) - inter).clamp(min=1)).mean().item()


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)

    with tempfile.TemporaryDirectory() as root:
        write_tiles(root)
        # many passes over the tiles make one "epoch", so workers stay alive
        dataset = TileDataset(root, args.image_size, repeats=200)
        loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True,
                            num_workers=args.workers, drop_last=True)
        model = UNet()
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        model.train()

        times = []
        start = time.perf_counter()
        for step, (images, masks) in enumerate(loader, 1):
            optimizer.zero_grad(set_to_none=True)
            logits = model(images)
            loss = seg_loss(logits, masks)
            loss.backward()
            optimizer.step()
            end = time.perf_counter()
            times.append(end - start)
            start = end
            if step % 30 == 0:
                iou = mean_iou(logits.detach().argmax(1), masks, logits.shape[1])
                log.info("step %d loss %.5f miou %.3f", step, loss.item(), iou)
            if step >= args.steps:
                break
        print(f"final loss {loss.item():.6f}")
        steady = times[10:]
        print(f"step {sum(steady) / len(steady) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
