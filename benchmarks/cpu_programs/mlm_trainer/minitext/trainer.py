import statistics
import time

import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, args, train_dataset, data_collator):
        self.model = model
        self.args = args
        self.train_dataset = train_dataset
        self.data_collator = data_collator
        self.step_times = []
        self.log_history = []
        self.create_optimizer_and_scheduler()

    def create_optimizer_and_scheduler(self):
        decay = [p for p in self.model.parameters() if p.ndim >= 2]
        no_decay = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [
            {"params": decay, "weight_decay": self.args.weight_decay},
            {"params": no_decay, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=self.args.learning_rate)
        warmup = max(1, self.args.warmup_steps)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: min(1.0, (s + 1) / warmup))

    def get_train_dataloader(self):
        return DataLoader(
            self.train_dataset,
            batch_size=self.args.per_device_train_batch_size,
            shuffle=True,
            drop_last=True,
            collate_fn=self.data_collator,
        )

    def compute_loss(self, inputs):
        return self.model(**inputs)["loss"]

    def training_step(self, inputs):
        self.model.train()
        loss = self.compute_loss(inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def train(self):
        global_step, running = 0, 0.0
        while global_step < self.args.max_steps:
            for inputs in self.get_train_dataloader():
                start = time.perf_counter()
                running += self.training_step(inputs).item()
                self.step_times.append((time.perf_counter() - start) * 1e3)
                global_step += 1
                if global_step % self.args.logging_steps == 0:
                    self.log({"step": global_step, "loss": round(running / self.args.logging_steps, 4)})
                    running = 0.0
                if global_step >= self.args.max_steps:
                    break

    def log(self, entry):
        self.log_history.append(entry)
        print(entry)

    def median_step_ms(self):
        return round(statistics.median(self.step_times[5:] or self.step_times), 3)
