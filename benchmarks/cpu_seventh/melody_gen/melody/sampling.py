import torch


def pick(logits, temperature, top_k, generator):
    kept, index = torch.topk(logits / temperature, top_k)
    choice = torch.multinomial(torch.softmax(kept, -1), 1, generator=generator)
    return index.gather(1, choice)


@torch.inference_mode()
def continue_melody(model, prompt, length, temperature=1.0, top_k=16, generator=None):
    tokens = prompt
    for _ in range(length):
        logits = model(tokens)[:, -1]
        tokens = torch.cat([tokens, pick(logits, temperature, top_k, generator)], 1)
    return tokens
