import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, frames, actions):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(frames, 16, 5, stride=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
            nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Flatten())
        self.value = nn.Sequential(nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 1))
        self.advantage = nn.Sequential(nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, actions))

    def forward(self, obs):
        h = self.conv(obs)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Agent:
    def __init__(self, frames, actions, lr=3e-4, gamma=0.98, tau=0.01):
        self.q = QNet(frames, actions)
        self.q_target = copy.deepcopy(self.q)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=lr)
        self.actions, self.gamma, self.tau = actions, gamma, tau

    @torch.no_grad()
    def act(self, obs, eps):
        greedy = self.q(obs.float().div(255)).argmax(1)
        explore = torch.rand(len(obs)) < eps
        return torch.where(explore, torch.randint(0, self.actions, (len(obs),)), greedy)

    def td_loss(self, obs, action, reward, nxt, done):
        q = self.q(obs).gather(1, action[:, None]).squeeze(1)
        best = self.q(nxt).argmax(1, keepdim=True)
        q_next = self.q_target(nxt).gather(1, best).squeeze(1)
        target = reward + self.gamma * (1 - done) * q_next
        return F.smooth_l1_loss(q, target)

    def update(self, batch):
        loss = self.td_loss(*batch)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        with torch.no_grad():
            for p, tp in zip(self.q.parameters(), self.q_target.parameters()):
                tp.lerp_(p, self.tau)
        return loss.detach()
