"""Embed a passage collection for dense retrieval with a LoRA-tuned decoder."""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen2Config, Qwen2Model
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()

EOS = 2


class PassageDataset(Dataset):
    """Passages chunked to the same number of tokens, closed by EOS."""

    def __init__(self, n_passages, length, vocab_size):
        g = torch.Generator().manual_seed(9)
        self.tokens = torch.randint(10, vocab_size, (n_passages, length), dtype=torch.int32, generator=g)
        self.tokens[:, -1] = EOS

    def __len__(self):
        return self.tokens.shape[0]

    def __getitem__(self, i):
        return i, self.tokens[i].long()


def base_model(small, vocab_size):
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=64 if small else 1024,
        intermediate_size=128 if small else 2816,
        num_hidden_layers=2 if small else 12,
        num_attention_heads=4 if small else 16,
        num_key_value_heads=2 if small else 4,
        max_position_embeddings=1024,
        use_cache=False,
    )
    return Qwen2Model(config)


def load_encoder(small, vocab_size, device):
    """The base model in bfloat16 with the retrieval adapter on top."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = base_model(small, vocab_size).to(dtype)
    adapter = LoraConfig(
        r=4 if small else 16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        task_type="FEATURE_EXTRACTION",
        init_lora_weights=False,
    )
    model = get_peft_model(model, adapter).merge_and_unload()
    return model.to(device).eval()


class PassageEncoder:
    def __init__(self, model, dim, device):
        self.model = model
        self.dim = dim
        self.device = device

    @torch.inference_mode()
    def encode(self, tokens):
        tokens = tokens.to(self.device, non_blocking=True)
        hidden = self.model(input_ids=tokens).last_hidden_state
        pooled = hidden[:, -1].float()
        return F.normalize(pooled[:, : self.dim], dim=-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    vocab = 300 if opt.small else 32000
    batch = 4 if opt.small else 64
    length = 16 if opt.small else 256
    dim = 32 if opt.small else 512

    encoder = PassageEncoder(load_encoder(opt.small, vocab, device), dim, device)
    passages = PassageDataset((opt.steps + 10) * batch, length, vocab)
    loader = DataLoader(
        passages,
        batch_size=batch,
        num_workers=0 if opt.small else 2,
        pin_memory=device.type == "cuda",
    )

    index = torch.empty(len(passages), dim, device=device)
    start = time.perf_counter()
    for step, (rows, tokens) in enumerate(loader):
        if step == 10:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        first = step * batch
        index[first:first + len(rows)] = encoder.encode(tokens)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    print("mean similarity:", (index[:64] @ index[:64].T).mean().item())
    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0
    print(json.dumps({"ms": 1000 * seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
