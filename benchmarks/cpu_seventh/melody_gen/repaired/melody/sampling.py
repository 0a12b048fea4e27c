import torch


def pick(logits, temperature, top_k, generator):
    kept, index = torch.topk(logits / temperature, top_k)
    choice = torch.multinomial(torch.softmax(kept, -1), 1, generator=generator)
    return index.gather(1, choice)


@torch.inference_mode()
def continue_melody(model, prompt, length, temperature=1.0, top_k=16, generator=None):
    tokens, new, past = prompt, prompt, None
    for _ in range(length):
        logits, past = model.extend(new, past)
        new = pick(logits[:, -1], temperature, top_k, generator)
        tokens = torch.cat([tokens, new], 1)
    return tokens
