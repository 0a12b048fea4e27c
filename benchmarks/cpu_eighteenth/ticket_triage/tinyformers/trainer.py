import os
import time
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader


@dataclass
class TrainingArguments:
    output_dir: str
    max_steps: int = 45
    per_device_train_batch_size: int = 16
    per_device_eval_batch_size: int = 32
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    warmup_ratio: float = 0.1
    max_grad_norm: float = 1.0
    logging_steps: int = 10
    eval_steps: int = 45
    seed: int = 42


def default_collate(features):
    return {k: torch.tensor([f[k] for f in features]) for k in features[0]}


class DataCollatorWithPadding:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, features):
        return default_collate(self.tokenizer.pad(features))


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset=None, data_collator=default_collate, compute_metrics=None):
        self.model, self.args = model, args
        self.train_dataset, self.eval_dataset = train_dataset, eval_dataset
        self.data_collator, self.compute_metrics = data_collator, compute_metrics
        self.log_history = []

    def create_optimizer_and_scheduler(self):
        a = self.args
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=a.learning_rate, weight_decay=a.weight_decay)
        warm = max(1, int(a.warmup_ratio * a.max_steps))
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda s: min((s + 1) / warm, max(0.0, (a.max_steps - s) / max(1, a.max_steps - warm))))

    def log(self, values):
        self.log_history.append(values)
        print({k: round(v, 5) if isinstance(v, float) else v for k, v in values.items()})

    def train(self):
        a = self.args
        self.create_optimizer_and_scheduler()
        gen = torch.Generator().manual_seed(a.seed)
        loader = DataLoader(self.train_dataset, a.per_device_train_batch_size, shuffle=True, drop_last=True,
                            collate_fn=self.data_collator, generator=gen)
        self.model.train()
        step, tr_loss, start = 0, 0.0, time.time()
        while step < a.max_steps:
            for inputs in loader:
                loss = self.model(**inputs)["loss"]
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), a.max_grad_norm)
                self.optimizer.step()
                self.lr_scheduler.step()
                self.optimizer.zero_grad()
                tr_loss += loss.item()
                step += 1
                if step % a.logging_steps == 0:
                    self.log({"loss": tr_loss / a.logging_steps, "learning_rate": self.lr_scheduler.get_last_lr()[0], "step": step})
                    tr_loss = 0.0
                if self.eval_dataset is not None and step % a.eval_steps == 0:
                    self.log(self.evaluate())
                if step >= a.max_steps:
                    break
        runtime = time.time() - start
        self.log({"train_runtime": runtime, "train_steps_per_second": step / runtime})
        self.save_model()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        loader = DataLoader(self.eval_dataset, self.args.per_device_eval_batch_size, collate_fn=self.data_collator)
        logits, labels, losses = [], [], []
        for inputs in loader:
            out = self.model(**inputs)
            logits.append(out["logits"])
            labels.append(inputs["labels"])
            losses.append(out["loss"].item())
        self.model.train()
        metrics = {"eval_loss": sum(losses) / len(losses)}
        if self.compute_metrics:
            metrics.update(self.compute_metrics(torch.cat(logits), torch.cat(labels)))
        return metrics

    def save_model(self):
        os.makedirs(self.args.output_dir, exist_ok=True)
        torch.save(self.model.state_dict(), os.path.join(self.args.output_dir, "model.bin"))
