import torch
import torch.nn as nn


def mlp(inputs, outputs, width):
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, outputs))


class Agent(nn.Module):
    def __init__(self, inputs, actions, width=128):
        super().__init__()
        self.policy, self.value = mlp(inputs, actions, width), mlp(inputs, 1, width)
        self.log_std = nn.Parameter(torch.full((actions,), -0.7))

    def act(self, obs):
        mean = self.policy(obs)
        action = mean + self.log_std.exp() * torch.randn_like(mean)
        return action, self.log_prob(mean, action), self.value(obs).squeeze(-1)

    def log_prob(self, mean, action):
        z = (action - mean) / self.log_std.exp()
        return -(0.5 * z.square() + self.log_std + 0.919).sum(-1)

    def forward(self, obs, action):
        mean = self.policy(obs)
        return self.log_prob(mean, action), self.value(obs).squeeze(-1), self.log_std.sum()


def advantages(reward, value, done, last_value, gamma=0.98, lam=0.95):
    """Backward recursion over time, all plants at once. Arrays are (time, plants)."""
    out = torch.empty_like(reward)
    running = torch.zeros_like(last_value)
    following = last_value
    for t in range(len(reward) - 1, -1, -1):
        alive = 1 - done[t]
        delta = reward[t] + gamma * alive * following - value[t]
        running = delta + gamma * lam * alive * running
        out[t] = running
        following = value[t]
    return out
