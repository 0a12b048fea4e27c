"""Fine-tune a BERT encoder to assign billing codes to discharge notes (multi-label)."""
import argparse
import json
import tempfile
import time

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()

PAD_ID = 0
CLS_ID = 2
SEP_ID = 3


class NoteDataset(Dataset):
    """Tokenised notes; the number of word pieces differs from note to note."""

    def __init__(self, n_notes, vocab_size, n_codes, median_len, max_len, seed):
        rng = np.random.default_rng(seed)
        lengths = np.exp(rng.normal(np.log(median_len), 0.7, n_notes))
        lengths = np.clip(lengths, 12, max_len).astype(int)
        self.notes = []
        for n in lengths:
            body = rng.integers(100, vocab_size, n - 2)
            self.notes.append(np.concatenate([[CLS_ID], body, [SEP_ID]]))
        self.codes = (rng.random((n_notes, n_codes)) < 0.04).astype(np.float32)

    def __len__(self):
        return len(self.notes)

    def __getitem__(self, i):
        return {"input_ids": self.notes[i], "labels": self.codes[i]}


class NoteCollator:
    def __init__(self, pad_to_multiple_of=8):
        self.multiple = pad_to_multiple_of

    def __call__(self, rows):
        longest = max(len(r["input_ids"]) for r in rows)
        width = -(-longest // self.multiple) * self.multiple
        ids = np.full((len(rows), width), PAD_ID, dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for k, r in enumerate(rows):
            n = len(r["input_ids"])
            ids[k, :n] = r["input_ids"]
            mask[k, :n] = 1
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "labels": torch.from_numpy(np.stack([r["labels"] for r in rows])),
        }


class StepClock(TrainerCallback):
    def __init__(self):
        self.seconds = 0.0
        self._start = None

    @staticmethod
    def _now():
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()

    def on_step_begin(self, args, state, control, **kwargs):
        if self._start is None:
            self._start = self._now()

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == state.max_steps:
            self.seconds = self._now() - self._start


def fit(model, dataset, batch_size, steps, out_dir):
    args = TrainingArguments(
        output_dir=out_dir,
        max_steps=steps,
        per_device_train_batch_size=batch_size,
        learning_rate=3e-5,
        weight_decay=0.01,
        warmup_steps=5,
        lr_scheduler_type="linear",
        bf16=torch.cuda.is_available(),
        dataloader_num_workers=4,
        dataloader_drop_last=True,
        train_sampling_strategy="group_by_length",
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        seed=17,
    )
    clock = StepClock()
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=dataset,
        data_collator=NoteCollator(),
        callbacks=[clock],
    )
    trainer.train()
    return clock.seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    set_seed(17)

    vocab, codes = (500, 12) if opt.small else (30522, 50)
    batch, median, longest = (4, 16, 48) if opt.small else (48, 130, 512)
    config = BertConfig(
        vocab_size=vocab,
        hidden_size=64 if opt.small else 768,
        num_hidden_layers=2 if opt.small else 12,
        num_attention_heads=2 if opt.small else 12,
        intermediate_size=128 if opt.small else 3072,
        num_labels=codes,
        problem_type="multi_label_classification",
    )
    model = BertForSequenceClassification(config)

    warm = NoteDataset(10 * batch, vocab, codes, median, longest, seed=1)
    notes = NoteDataset(opt.steps * batch, vocab, codes, median, longest, seed=2)
    with tempfile.TemporaryDirectory() as out_dir:
        fit(model, warm, batch, 10, out_dir)
        seconds = fit(model, notes, batch, opt.steps, out_dir)

    peak = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else 0
    print(json.dumps({"ms": 1000 * seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
