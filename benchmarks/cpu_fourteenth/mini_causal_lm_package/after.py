"""A small causal-LM package (config, model, generation mixin, pipeline) and a run of it."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint


@dataclass
class MiniConfig:
    vocab_size: int = 512
    hidden_size: int = 128
    num_layers: int = 3
    num_heads: int = 4
    max_positions: int = 160
    eos_token_id: int = 0
    use_cache: bool = True
    gradient_checkpointing: bool = False


@dataclass
class CausalLMOutput:
    logits: torch.Tensor
    past_key_values: list | None = None


class MiniAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_heads
        self.qkv_proj = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, past=None):
        b, t, c = x.shape
        qkv = self.qkv_proj(x).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, c)), (k, v)


class MiniLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.input_norm = nn.LayerNorm(width)
        self.attention = MiniAttention(config)
        self.post_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, past=None):
        h, present = self.attention(self.input_norm(x), past)
        x = x + h
        return x + self.mlp(self.post_norm(x)), present


class GenerationMixin:
    def prepare_inputs(self, input_ids, past_key_values):
        if past_key_values is not None:
            return input_ids[:, -1:]
        return input_ids

    @torch.no_grad()
    def generate(self, input_ids, max_new_tokens):
        """Greedy decoding; finished sequences are filled with the end token."""
        self.eval()
        past = None
        finished = torch.zeros(len(input_ids), dtype=torch.bool)
        for _ in range(max_new_tokens):
            out = self(self.prepare_inputs(input_ids, past), past_key_values=past)
            past = out.past_key_values
            next_ids = out.logits[:, -1].argmax(dim=-1)
            next_ids = next_ids.masked_fill(finished, self.config.eos_token_id)
            finished |= next_ids == self.config.eos_token_id
            input_ids = torch.cat([input_ids, next_ids[:, None]], dim=1)
            if finished.all():
                break
        return input_ids


class MiniForCausalLM(nn.Module, GenerationMixin):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(config.max_positions, config.hidden_size)
        self.layers = nn.ModuleList(MiniLayer(config) for _ in range(config.num_layers))
        self.final_norm = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def gradient_checkpointing_enable(self):
        self.config.gradient_checkpointing = True
        # cached keys and checkpointing exclude each other
        self.config.use_cache = False

    def gradient_checkpointing_disable(self):
        self.config.gradient_checkpointing = False
        self.config.use_cache = True

    def forward(self, input_ids, past_key_values=None):
        start = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        positions = torch.arange(start, start + input_ids.shape[1])
        x = self.embed_tokens(input_ids) + self.embed_positions(positions)
        presents = []
        for i, layer in enumerate(self.layers):
            past = None if past_key_values is None else past_key_values[i]
            if self.config.gradient_checkpointing and self.training:
                x, present = torch.utils.checkpoint.checkpoint(layer, x, past, use_reentrant=False)
            else:
                x, present = layer(x, past)
            presents.append(present)
        logits = self.lm_head(self.final_norm(x))
        return CausalLMOutput(logits, presents if self.config.use_cache else None)


class TextGenerationPipeline:
    def __init__(self, model, max_new_tokens=24):
        self.model, self.max_new_tokens = model, max_new_tokens

    def __call__(self, prompts):
        return self.model.generate(prompts, self.max_new_tokens)[:, prompts.shape[1]:]


def make_tokens(rows, length, gen):
    """Counting sequences modulo the vocabulary, each with its own stride."""
    start = torch.randint(1, 512, (rows, 1), generator=gen)
    stride = torch.randint(1, 4, (rows, 1), generator=gen)
    return (start + stride * torch.arange(length)) % 511 + 1


def finetune(model, gen, updates=4):
    model.train()
    model.gradient_checkpointing_enable()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(updates):
        ids = make_tokens(4, 33, gen)
        logits = model(ids[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.gradient_checkpointing_disable()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()

    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    model = MiniForCausalLM(MiniConfig())
    finetune(model, gen)
    pipe = TextGenerationPipeline(model)

    correct = total = checksum = 0
    for _ in range(args.steps):
        tokens = make_tokens(2, 36 + 24, gen)
        answer = pipe(tokens[:, :36])
        wanted = tokens[:, 36:36 + answer.shape[1]]
        correct += (answer == wanted).sum().item()
        checksum += answer.sum().item()
        total += wanted.numel()
    print(f"requests {args.steps} token accuracy {correct / total:.4f} checksum {checksum}")


if __name__ == "__main__":
    main()
