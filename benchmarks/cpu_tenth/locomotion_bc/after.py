"""Offline reinforcement learning on logged walking data: TD3 with a
behaviour-cloning term (TD3+BC)."""
import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

OBS, ACT = 17, 6


class Transitions(Dataset):
    """Logged (s, a, r, s', not_done); indexing with a list gives a batch."""

    def __init__(self, n=500_000, seed=8):
        g = torch.Generator().manual_seed(seed)
        self.obs = torch.randn(n, OBS, generator=g)
        gain = torch.randn(OBS, ACT, generator=g) / OBS**0.5
        self.act = torch.tanh(self.obs @ gain + 0.1 * torch.randn(n, ACT, generator=g))
        drift = torch.randn(ACT, OBS, generator=g) * 0.1
        self.next_obs = 0.95 * self.obs + self.act @ drift
        self.reward = self.obs[:, 0] - 0.1 * self.act.square().sum(dim=1)
        self.not_done = (torch.rand(n, generator=g) > 0.001).float()

    def __len__(self):
        return len(self.obs)

    def __getitem__(self, idx):
        idx = torch.as_tensor(idx)
        return self.obs[idx], self.act[idx], self.reward[idx], self.next_obs[idx], self.not_done[idx]


def mlp(cin, cout, hidden=256):
    return nn.Sequential(nn.Linear(cin, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, cout))


class TwinCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=1)
        return self.q1(x).squeeze(1), self.q2(x).squeeze(1)


class Agent:
    def __init__(self, gamma=0.99, tau=0.005, alpha=2.5, noise=0.2):
        self.gamma, self.tau, self.alpha, self.noise = gamma, tau, alpha, noise
        self.actor = nn.Sequential(mlp(OBS, ACT), nn.Tanh())
        self.critic = TwinCritic()
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4, fused=True)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4, fused=True)
        self.updates = 0

    def update(self, obs, act, reward, next_obs, not_done):
        with torch.no_grad():
            noise = (torch.randn_like(act) * self.noise).clamp(-0.5, 0.5)
            next_act = (self.actor_target(next_obs) + noise).clamp(-1, 1)
            target = reward + self.gamma * not_done * torch.min(*self.critic_target(next_obs, next_act))
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        self.updates += 1
        if self.updates % 2 == 0:
            self.update_actor(obs, act)
        return critic_loss.detach()

    def update_actor(self, obs, act):
        self.critic.requires_grad_(False)
        pi = self.actor(obs)
        q = self.critic.q1(torch.cat([obs, pi], dim=1)).squeeze(1)
        actor_loss = -self.alpha * q.mean() / q.detach().abs().mean() + F.mse_loss(pi, act)
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        self.critic.requires_grad_(True)
        self.soft_update(self.actor, self.actor_target)
        self.soft_update(self.critic, self.critic_target)

    @torch.no_grad()
    def soft_update(self, net, target):
        torch._foreach_lerp_(list(target.parameters()), list(net.parameters()), self.tau)


def endless(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(0)

    data = Transitions()
    sampler = BatchSampler(RandomSampler(data), batch_size=1024, drop_last=True)
    loader = DataLoader(data, sampler=sampler, batch_size=None)
    agent = Agent()

    losses = []
    for _, batch in zip(range(args.steps), endless(loader)):
        losses.append(agent.update(*batch))
    print(f"updates {args.steps}  critic loss {torch.stack(losses).mean().item():.3f}")


if __name__ == "__main__":
    main()
