"""Day-ahead load forecasting from one week of hourly readings."""

import argparse

import torch

from forecast.data import LoadWindows
from forecast.model import BackcastNet
from forecast.trainer import Trainer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(21)
    windows = LoadWindows(meters=400, hours=24 * 120, seed=9)
    model = BackcastNet(windows.history, windows.horizon)
    trainer = Trainer(model, windows, lr=1e-3, batch=args.batch)
    loss = trainer.fit(args.steps)
    print(f"final loss {loss:.6f} skipped {trainer.skipped}")


if __name__ == "__main__":
    main()
