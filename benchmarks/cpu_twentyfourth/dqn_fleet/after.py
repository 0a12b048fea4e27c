"""Double DQN on a fleet of simulated delivery robots."""
import argparse
import copy
import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "obs action reward next_obs done")


class FleetEnv:
    """Independent robots; each sees a linear image of its hidden state and steers it to the goal."""

    def __init__(self, robots, obs_dim=192, num_actions=8, horizon=60, seed=0):
        self.rng = np.random.default_rng(seed)
        self.robots, self.horizon = robots, horizon
        self.moves = self.rng.normal(0, 0.3, (num_actions, 6)).astype(np.float32)
        self.view = self.rng.normal(0, 0.4, (6, obs_dim)).astype(np.float32)
        self.state = self._spawn(robots)
        self.clock = self.rng.integers(0, horizon, robots)

    def _spawn(self, n):
        return self.rng.normal(0, 1, (n, 6)).astype(np.float32)

    def observe(self):
        return np.tanh(self.state @ self.view)

    def step(self, actions):
        self.state = 0.99 * self.state + self.moves[actions]
        self.clock += 1
        distance = np.linalg.norm(self.state, axis=1)
        done = (self.clock >= self.horizon) | (distance > 6.0)
        obs = self.observe()
        if done.any():
            self.state[done] = self._spawn(int(done.sum()))
            self.clock[done] = 0
        return obs, -distance, done


class ReplayBuffer:
    def __init__(self, capacity, seed=0):
        self.memory = deque(maxlen=capacity)
        self.rng = random.Random(seed)

    def __len__(self):
        return len(self.memory)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return Transition(*zip(*self.rng.sample(self.memory, batch_size)))


class QNetwork(nn.Module):
    def __init__(self, obs_dim, num_actions, hidden=512):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
        )
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, num_actions)

    def forward(self, obs):
        h = self.body(obs)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Agent:
    def __init__(self, obs_dim, num_actions, lr=5e-4, gamma=0.97, tau=0.01, seed=0):
        self.num_actions, self.gamma, self.tau = num_actions, gamma, tau
        self.online = QNetwork(obs_dim, num_actions)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.rng = np.random.default_rng(seed)

    @torch.no_grad()
    def act(self, obs, epsilon):
        greedy = self.online(torch.from_numpy(obs)).argmax(1).numpy()
        explore = self.rng.random(len(obs)) < epsilon
        return np.where(explore, self.rng.integers(0, self.num_actions, len(obs)), greedy)

    def learn(self, batch):
        obs = torch.from_numpy(np.stack(batch.obs))
        next_obs = torch.from_numpy(np.stack(batch.next_obs))
        action = torch.tensor(batch.action)
        reward = torch.tensor(batch.reward)
        alive = 1.0 - torch.tensor(batch.done, dtype=torch.float32)

        with torch.no_grad():
            best = self.online(next_obs).argmax(1, keepdim=True)
            bootstrap = self.target(next_obs).gather(1, best).squeeze(1)
            goal = reward + self.gamma * alive * bootstrap
        q = self.online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.online.parameters()):
                slow.lerp_(fast, self.tau)
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--robots", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=320)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = FleetEnv(args.robots)
    agent = Agent(192, 8)
    buffer = ReplayBuffer(20000)
    obs = env.observe()
    average, step = 0.0, 0
    while step < args.steps:
        epsilon = max(0.05, 0.5 - 0.5 * step / args.steps)
        actions = agent.act(obs, epsilon)
        next_obs, reward, done = env.step(actions)
        for i in range(args.robots):
            buffer.push(obs[i], int(actions[i]), float(reward[i]), next_obs[i], bool(done[i]))
        obs = env.observe() if done.any() else next_obs
        if len(buffer) < 4 * args.batch_size:
            continue
        loss = agent.learn(buffer.sample(args.batch_size))
        average += (loss - average) / (step + 1)
        step += 1
    print(f"{average:.5f}")


if __name__ == "__main__":
    main()
