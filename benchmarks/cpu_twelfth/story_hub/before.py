"""storyhub: a tiny model hub in the manner of the big one (config, tokenizer, model, pipeline)."""
import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class StoryConfig:
    vocab_size: int = 1024
    hidden_size: int = 192
    num_layers: int = 4
    num_heads: int = 6
    max_positions: int = 256
    use_cache: bool = True

    def save_pretrained(self, folder):
        (Path(folder) / "config.json").write_text(json.dumps(asdict(self), indent=2))

    @classmethod
    def from_pretrained(cls, folder):
        return cls(**json.loads((Path(folder) / "config.json").read_text()))


class StoryTokenizer:
    """Hash tokenizer: good enough for a demo checkpoint."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def __call__(self, text):
        ids = [sum(ord(c) * 31 ** i for i, c in enumerate(w)) % (self.vocab_size - 1) + 1 for w in text.split()]
        return torch.tensor([ids])


class StoryAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, past=None):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, c)), (k, v)


class StoryBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        h = config.hidden_size
        self.ln1, self.attn = nn.LayerNorm(h), StoryAttention(config)
        self.ln2, self.mlp = nn.LayerNorm(h), nn.Sequential(nn.Linear(h, 4 * h), nn.GELU(), nn.Linear(4 * h, h))

    def forward(self, x, past=None):
        a, present = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.mlp(self.ln2(x)), present


class StoryPreTrainedModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def save_pretrained(self, folder):
        self.config.save_pretrained(folder)
        torch.save(self.state_dict(), Path(folder) / "model.pt")

    @classmethod
    def from_pretrained(cls, folder, **overrides):
        config = StoryConfig.from_pretrained(folder)
        for key, value in overrides.items():
            setattr(config, key, value)
        model = cls(config)
        model.load_state_dict(torch.load(Path(folder) / "model.pt"))
        return model.eval()


class GenerationMixin:
    def prepare_inputs_for_generation(self, ids, past_key_values=None):
        if past_key_values is not None:
            ids = ids[:, -1:]
        return {"ids": ids, "past_key_values": past_key_values, "use_cache": self.config.use_cache}

    @torch.inference_mode()
    def generate(self, ids, max_new_tokens):
        past, scores = None, []
        for _ in range(max_new_tokens):
            logits, past = self(**self.prepare_inputs_for_generation(ids, past))
            logp = F.log_softmax(logits, dim=-1)
            best, token = logp.max(dim=-1, keepdim=True)
            scores.append(best)
            ids = torch.cat([ids, token], dim=1)
        return ids, torch.cat(scores, dim=1)


class StoryForCausalLM(StoryPreTrainedModel, GenerationMixin):
    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_positions, config.hidden_size)
        self.blocks = nn.ModuleList(StoryBlock(config) for _ in range(config.num_layers))
        self.ln_f = nn.LayerNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids, past_key_values=None, use_cache=None):
        offset = 0 if past_key_values is None else past_key_values[0][0].size(2)
        x = self.wte(ids) + self.wpe(torch.arange(offset, offset + ids.size(1)))
        presents = []
        for i, block in enumerate(self.blocks):
            x, present = block(x, None if past_key_values is None else past_key_values[i])
            presents.append(present)
        logits = self.lm_head(self.ln_f(x[:, -1]))
        return logits, presents if use_cache else None


class StoryPipeline:
    def __init__(self, folder):
        self.model = StoryForCausalLM.from_pretrained(folder)
        self.tokenizer = StoryTokenizer(self.model.config.vocab_size)

    def __call__(self, text, max_new_tokens):
        ids = self.tokenizer(text)
        out, scores = self.model.generate(ids, max_new_tokens)
        return out[0, ids.size(1):].tolist(), scores.mean().item()


def publish_checkpoint(folder):
    """What the fine-tuning job leaves behind (it ran with gradient checkpointing)."""
    torch.manual_seed(0)
    model = StoryForCausalLM(StoryConfig(use_cache=False))
    nn.init.normal_(model.lm_head.weight, std=0.2)
    model.save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60, help="prompts to complete")
    parser.add_argument("--new-tokens", type=int, default=24)
    args = parser.parse_args()

    words = "the old captain went down to a harbour where his small grey boat waited for rain and wind".split()
    g = torch.Generator().manual_seed(2)
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        publish_checkpoint(folder)
        pipe = StoryPipeline(folder)
        for _ in range(args.steps):
            prompt = " ".join(words[i] for i in torch.randint(len(words), (32,), generator=g).tolist())
            _, score = pipe(prompt, args.new_tokens)
            total += score
    print(f"{args.steps} stories, mean token log-prob {total / max(args.steps, 1):.4f}")


if __name__ == "__main__":
    main()
