"""Label support tickets with an instruction-tuned decoder: a few-shot prompt, the ticket, a short answer."""
import argparse
import json
import time

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging as hf_logging

hf_logging.set_verbosity_error()

BOS, EOS, PAD = 1, 2, 0


class TicketDataset(Dataset):
    """Tickets cut to a fixed number of tokens, as the ingest job stores them."""

    def __init__(self, n_tickets, ticket_len, vocab_size):
        g = torch.Generator().manual_seed(5)
        self.tokens = torch.randint(10, vocab_size, (n_tickets, ticket_len), generator=g)

    def __len__(self):
        return self.tokens.shape[0]

    def __getitem__(self, i):
        return i, self.tokens[i]


class TriageModel:
    def __init__(self, model, instructions, answer_len, device):
        self.model = model
        self.device = device
        self.instructions = instructions.to(device)
        self.answer_len = answer_len
        self.generation = GenerationConfig(
            max_new_tokens=answer_len,
            min_new_tokens=answer_len,
            do_sample=False,
            bos_token_id=BOS,
            eos_token_id=EOS,
            pad_token_id=PAD,
        )

    def build_prompt(self, tickets):
        head = self.instructions.unsqueeze(0).expand(tickets.shape[0], -1)
        return torch.cat([head, tickets], dim=1)

    @torch.inference_mode()
    def label(self, tickets):
        prompt = self.build_prompt(tickets.to(self.device, non_blocking=True))
        output = self.model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=self.generation,
        )
        return output[:, prompt.shape[1]:]


def build_model(small, vocab_size, device):
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=64 if small else 1024,
        intermediate_size=128 if small else 2816,
        num_hidden_layers=2 if small else 12,
        num_attention_heads=4 if small else 16,
        num_key_value_heads=2 if small else 4,
        max_position_embeddings=2048,
        bos_token_id=BOS,
        eos_token_id=EOS,
        pad_token_id=PAD,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return model.to(device=device, dtype=dtype).eval()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--small", action="store_true")
    opt = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    vocab = 300 if opt.small else 32000
    batch = 2 if opt.small else 32
    ticket_len = 8 if opt.small else 64
    head_len = 24 if opt.small else 896
    answer_len = 3 if opt.small else 6

    model = build_model(opt.small, vocab, device)
    instructions = torch.cat([torch.tensor([BOS]), torch.randint(10, vocab, (head_len - 1,))])
    triage = TriageModel(model, instructions, answer_len, device)

    tickets = TicketDataset((opt.steps + 10) * batch, ticket_len, vocab)
    loader = DataLoader(tickets, batch_size=batch, pin_memory=device.type == "cuda")

    answers = torch.zeros(len(tickets), answer_len, dtype=torch.long)
    start = time.perf_counter()
    for step, (rows, tokens) in enumerate(loader):
        if step == 10:
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
        answers[rows] = triage.label(tokens).cpu()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start

    peak = torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else 0
    print("distinct answers:", len(torch.unique(answers, dim=0)))
    print(json.dumps({"ms": 1000 * seconds / opt.steps, "peak_mb": peak}))


if __name__ == "__main__":
    main()
