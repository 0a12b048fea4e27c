"""Federated training of an activity recogniser (FedProx): twelve clients of unlike data on one machine."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

FEATURES, CLASSES = 561, 6


class Client:
    """One person's phone: windows of motion as features; some activities are more frequent than others."""

    def __init__(self, number, centres, count=120):
        gen = torch.Generator().manual_seed(100 + number)
        liking = torch.rand(CLASSES, generator=gen) ** 2 + 0.02
        self.y = torch.multinomial(liking, count, replacement=True, generator=gen)
        habit = 0.3 * torch.randn(FEATURES, generator=gen)
        self.x = centres[self.y] + habit + torch.randn(count, FEATURES, generator=gen)
        self.gen = gen

    def batches(self, size, number):
        order = torch.randperm(len(self.y), generator=self.gen)[:size * number]
        for part in order.split(size):
            yield self.x[part], self.y[part]


def make_model():
    return nn.Sequential(
        nn.Linear(FEATURES, 512), nn.ReLU(),
        nn.Linear(512, 256), nn.ReLU(),
        nn.Linear(256, CLASSES),
    )


class LocalTrainer:
    """Trains the global weights on a client's data; a proximal term keeps them near to where they began."""

    def __init__(self, model, lr, mu, batch_size, local_steps):
        self.model, self.lr, self.mu = model, lr, mu
        self.batch_size, self.local_steps = batch_size, local_steps
        self.params = list(model.parameters())

    @torch.no_grad()
    def load(self, weights):
        for p, w in zip(self.params, weights):
            p.copy_(w)

    def run(self, client, weights):
        self.load(weights)
        optimizer = torch.optim.SGD(self.params, lr=self.lr)
        total = torch.zeros(())
        for x, y in client.batches(self.batch_size, self.local_steps):
            data_loss = F.cross_entropy(self.model(x), y)
            optimizer.zero_grad(set_to_none=True)
            data_loss.backward()
            with torch.no_grad():
                for p, w in zip(self.params, weights):
                    p.grad.add_(p, alpha=self.mu).sub_(w, alpha=self.mu)
            optimizer.step()
            total += data_loss.detach()
        return total / self.local_steps


class Server:
    def __init__(self, model):
        self.weights = [p.detach().clone() for p in model.parameters()]
        self.sums = [torch.zeros_like(w) for w in self.weights]

    def begin(self):
        for s in self.sums:
            s.zero_()

    @torch.no_grad()
    def receive(self, params, share):
        for s, p in zip(self.sums, params):
            s.add_(p, alpha=share)

    def finish(self):
        for w, s in zip(self.weights, self.sums):
            w.copy_(s)


@torch.inference_mode()
def evaluate(trainer, server, x, y):
    trainer.load(server.weights)
    logits = trainer.model(x)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="rounds")
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--local-steps", type=int, default=3)
    parser.add_argument("--mu", type=float, default=0.1)
    parser.add_argument("--eval-every", type=int, default=20)
    args = parser.parse_args()

    torch.manual_seed(0)
    centres = 0.15 * torch.randn(CLASSES, FEATURES)
    clients = [Client(number, centres) for number in range(args.clients)]
    test_y = torch.randint(CLASSES, (300,))
    test_x = centres[test_y] + torch.randn(300, FEATURES)
    share = 1 / len(clients)

    model = make_model()
    server = Server(model)
    trainer = LocalTrainer(model, 0.05, args.mu, args.batch_size, args.local_steps)
    history = torch.zeros(())
    for step in range(1, args.steps + 1):
        server.begin()
        for client in clients:
            history += trainer.run(client, server.weights)
            server.receive(trainer.params, share)
        server.finish()
        if step % args.eval_every == 0:
            loss, right = evaluate(trainer, server, test_x, test_y)
            print(f"round {step} test loss {loss:.4f} accuracy {right:.3f}")
    print(f"mean local loss {history.item() / args.steps / len(clients):.5f}")


if __name__ == "__main__":
    main()
