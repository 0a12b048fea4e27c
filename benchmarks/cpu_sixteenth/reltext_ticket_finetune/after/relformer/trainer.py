import time
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader


@dataclass
class TrainingArguments:
    max_steps: int = 30
    per_device_train_batch_size: int = 2
    per_device_eval_batch_size: int = 4
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    warmup_ratio: float = 0.1
    max_grad_norm: float = 1.0
    logging_steps: int = 10
    seed: int = 42


class Trainer:
    def __init__(self, model, args, data_collator, train_dataset, eval_dataset=None, compute_metrics=None):
        self.model, self.args, self.data_collator = model, args, data_collator
        self.train_dataset, self.eval_dataset, self.compute_metrics = train_dataset, eval_dataset, compute_metrics

    def get_train_dataloader(self):
        g = torch.Generator().manual_seed(self.args.seed)
        return DataLoader(self.train_dataset, self.args.per_device_train_batch_size, shuffle=True, generator=g,
                          collate_fn=self.data_collator, drop_last=True)

    def create_optimizer_and_scheduler(self):
        a = self.args
        decay = [p for p in self.model.parameters() if p.dim() > 1]
        other = [p for p in self.model.parameters() if p.dim() <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decay, "weight_decay": a.weight_decay}, {"params": other, "weight_decay": 0.0}],
            lr=a.learning_rate, fused=True)
        warm = max(1, int(a.warmup_ratio * a.max_steps))
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: (s + 1) / warm if s < warm else max(0.0, (a.max_steps - s) / (a.max_steps - warm)))

    def training_step(self, inputs):
        loss = self.model(**inputs).loss
        loss.backward()
        return loss.detach()

    def train(self):
        self.create_optimizer_and_scheduler()
        self.model.train()
        step, running, tick = 0, torch.zeros(()), time.time()
        while step < self.args.max_steps:
            for inputs in self.get_train_dataloader():
                running += self.training_step(inputs)
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
                self.optimizer.step()
                self.lr_scheduler.step()
                self.optimizer.zero_grad()
                step += 1
                if step % self.args.logging_steps == 0:
                    self.log({"loss": running.item() / self.args.logging_steps, "step": step,
                              "ms_per_step": round((time.time() - tick) / self.args.logging_steps * 1e3)})
                    running.zero_()
                    tick = time.time()
                if step >= self.args.max_steps:
                    break

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        logits, labels = [], []
        for inputs in DataLoader(self.eval_dataset, self.args.per_device_eval_batch_size, collate_fn=self.data_collator):
            logits.append(self.model(**inputs).logits)
            labels.append(inputs["labels"])
        self.model.train()
        return self.compute_metrics(torch.cat(logits), torch.cat(labels))

    def log(self, logs):
        print({k: round(v, 4) for k, v in logs.items()}, flush=True)
