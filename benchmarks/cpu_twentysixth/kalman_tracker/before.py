"""A ball is followed in noisy pictures by an extended Kalman filter with learned dynamics and a learned sensor."""

import argparse

import torch
from torch import nn
from torch.autograd.functional import jacobian

STATE = 6  # position, velocity, acceleration in x and y
SIZE = 48


class Balls:
    """Short films of balls thrown through a room with wind."""

    def __init__(self, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.grid = torch.linspace(-1, 1, SIZE)

    def films(self, batch, frames):
        position = torch.rand(batch, 2, generator=self.gen) - 0.5
        velocity = 0.2 * torch.randn(batch, 2, generator=self.gen)
        path = []
        for _ in range(frames):
            velocity = velocity + torch.tensor([0.01, -0.02]) - 0.05 * velocity * velocity.abs()
            position = (position + 0.2 * velocity).clamp(-1, 1)
            path.append(position)
        path = torch.stack(path, dim=1)
        dx = (self.grid - path[..., :1]) ** 2
        dy = (self.grid - path[..., 1:]) ** 2
        blob = torch.exp(-40 * (dx.unsqueeze(-2) + dy.unsqueeze(-1)))
        return blob.unsqueeze(2) + 0.3 * torch.randn(batch, frames, 1, SIZE, SIZE, generator=self.gen), path


class Dynamics(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(STATE, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, STATE)
        )

    def forward(self, state):
        return state + 0.1 * self.net(state)


class Sensor(nn.Module):
    """Position and its uncertainty from one picture."""

    def __init__(self, width=16):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
        )
        self.position = nn.Linear(64 * width, 2)
        self.noise = nn.Linear(64 * width, 2)

    def forward(self, pictures):
        x = self.conv(pictures)
        return self.position(x), self.noise(x).clamp(-5, 2).exp()


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.dynamics, self.sensor = Dynamics(), Sensor()
        self.process = nn.Parameter(torch.full((STATE,), -3.0))
        self.register_buffer("observe", torch.eye(2, STATE))

    def transition(self, state):
        """The derivative of the next state by the state, for each film; the covariance is not trained through it."""
        j = jacobian(self.dynamics, state.detach())
        return torch.diagonal(j, dim1=0, dim2=2).permute(2, 0, 1)

    def forward(self, films):
        batch, frames = films.shape[:2]
        measured, noise = self.sensor(films.flatten(0, 1))
        measured, noise = measured.view(batch, frames, 2), noise.view(batch, frames, 2)
        state = films.new_zeros(batch, STATE)
        cov = torch.eye(STATE).expand(batch, STATE, STATE)
        track = []
        for t in range(frames):
            f = self.transition(state)
            state = self.dynamics(state)
            cov = f @ cov @ f.transpose(1, 2) + torch.diag(self.process.exp())
            s = self.observe @ cov @ self.observe.t() + torch.diag_embed(noise[:, t])
            gain = torch.linalg.solve(s, self.observe @ cov).transpose(1, 2)
            state = state + (gain @ (measured[:, t] - state[:, :2]).unsqueeze(2)).squeeze(2)
            cov = cov - gain @ self.observe @ cov
            track.append(state[:, :2])
        return torch.stack(track, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--frames", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    balls, model = Balls(), Filter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total = torch.zeros(())
    for _ in range(args.steps):
        films, path = balls.films(args.batch_size, args.frames)
        loss = (model(films) - path).square().sum(dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"mean squared error {total.item() / args.steps:.5f}")


if __name__ == "__main__":
    main()
