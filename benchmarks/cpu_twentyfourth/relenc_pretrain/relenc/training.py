from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader


@dataclass
class TrainingArguments:
    max_steps: int = 40
    per_device_train_batch_size: int = 2
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup_steps: int = 5
    max_grad_norm: float = 1.0
    seed: int = 0


class Trainer:
    def __init__(self, model, args, train_dataset, data_collator):
        self.model, self.args = model, args
        self.train_dataset, self.data_collator = train_dataset, data_collator
        self.state = {"global_step": 0, "loss": None}

    def get_train_dataloader(self):
        gen = torch.Generator().manual_seed(self.args.seed)
        return DataLoader(self.train_dataset, self.args.per_device_train_batch_size, shuffle=True,
                          drop_last=True, collate_fn=self.data_collator, generator=gen)

    def create_optimizer_and_scheduler(self):
        decay = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim <= 1]
        optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": self.args.weight_decay},
             {"params": plain, "weight_decay": 0.0}], lr=self.args.learning_rate)
        warm = max(1, self.args.warmup_steps)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warm))
        return optimizer, scheduler

    def training_step(self, batch):
        loss = self.model(**batch)["loss"]
        loss.backward()
        return loss.detach()

    def train(self):
        loader = self.get_train_dataloader()
        optimizer, scheduler = self.create_optimizer_and_scheduler()
        self.model.train()
        while True:
            for batch in loader:
                loss = self.training_step(batch)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
                last = self.state["loss"]
                self.state["loss"] = loss if last is None else 0.9 * last + 0.1 * loss
                self.state["global_step"] += 1
                if self.state["global_step"] >= self.args.max_steps:
                    return self.state
