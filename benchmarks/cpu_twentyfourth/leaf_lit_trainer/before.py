"""Train the leaf classifier."""
import argparse

import torch

from leaflab import Callback, LeafClassifier, LeafDataModule, Trainer


class RunningLoss(Callback):
    def __init__(self, decay=0.9):
        self.decay = decay
        self.value = None

    def on_train_batch_end(self, trainer, module, outputs, batch_idx):
        loss = outputs["loss"].detach()
        self.value = loss if self.value is None else self.decay * self.value + (1 - self.decay) * loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    running = RunningLoss()
    trainer = Trainer(max_steps=args.steps, callbacks=[running], gradient_clip_val=1.0)
    trainer.fit(LeafClassifier(), LeafDataModule(seed=args.seed))
    print(f"{running.value.item():.6f}")


if __name__ == "__main__":
    main()
