"""Double DQN for a courier on a grid: carry the parcel to the goal, avoid the walls."""
import argparse
import random
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))


class CourierEnv:
    """Grid of size n with walls; the observation is three flattened planes."""

    MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))

    def __init__(self, n=7, seed=0):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.walls = self.rng.random((n, n)) < 0.15

    @property
    def obs_dim(self):
        return 3 * self.n * self.n

    def _free_cell(self):
        while True:
            cell = tuple(int(c) for c in self.rng.integers(0, self.n, 2))
            if not self.walls[cell]:
                return cell

    def _observe(self):
        obs = np.zeros((3, self.n, self.n), dtype=np.float32)
        obs[0][self.pos] = 1.0
        obs[1][self.goal] = 1.0
        obs[2] = self.walls
        return obs.reshape(-1)

    def reset(self):
        self.pos, self.goal, self.t = self._free_cell(), self._free_cell(), 0
        return self._observe()

    def step(self, action):
        dy, dx = self.MOVES[action]
        y, x = self.pos[0] + dy, self.pos[1] + dx
        self.t += 1
        reward = -0.02
        if 0 <= y < self.n and 0 <= x < self.n and not self.walls[y, x]:
            self.pos = (y, x)
        else:
            reward = -0.1
        done = self.pos == self.goal
        if done:
            reward = 1.0
        return self._observe(), reward, done, done or self.t >= 60


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        states = torch.from_numpy(np.stack(batch.state))
        next_states = torch.from_numpy(np.stack(batch.next_state))
        actions = torch.tensor(batch.action).unsqueeze(1)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        dones = torch.tensor(batch.done, dtype=torch.float32)
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=384):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, n_actions)

    def forward(self, x):
        x = self.body(x)
        adv = self.advantage(x)
        return self.value(x) + adv - adv.mean(dim=1, keepdim=True)


class Agent:
    def __init__(self, obs_dim, n_actions, args):
        self.args = args
        self.n_actions = n_actions
        self.policy = DuelingNet(obs_dim, n_actions)
        self.target = DuelingNet(obs_dim, n_actions)
        self.target.load_state_dict(self.policy.state_dict())
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=args.lr)
        self.memory = ReplayMemory(20000)

    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(self.n_actions)
        with torch.no_grad():
            return int(self.policy(torch.from_numpy(state).unsqueeze(0)).argmax())

    def learn(self):
        states, actions, rewards, next_states, dones = self.memory.sample(self.args.batch_size)
        q = self.policy(states).gather(1, actions).squeeze(1)
        with torch.no_grad():
            best = self.policy(next_states).argmax(1, keepdim=True)
            next_q = self.target(next_states).gather(1, best).squeeze(1)
            target = rewards + self.args.gamma * (1 - dones) * next_q
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.policy.parameters(), 10)
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--target-every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = CourierEnv(seed=args.seed)
    agent = Agent(env.obs_dim, 4, args)
    state = env.reset()
    losses, returns, episode = [], deque(maxlen=50), 0.0
    start = time.time()
    for frame in range(args.warmup + args.steps):
        epsilon = max(0.05, 1.0 - frame / (args.warmup + 0.6 * args.steps))
        action = agent.act(state, epsilon)
        next_state, reward, done, over = env.step(action)
        agent.memory.push(state, action, reward, next_state, done)
        episode += reward
        state = next_state
        if over:
            returns.append(episode)
            state, episode = env.reset(), 0.0
        if frame < args.warmup:
            continue
        losses.append(agent.learn())
        if len(losses) % args.target_every == 0:
            agent.target.load_state_dict(agent.policy.state_dict())
        if len(losses) % 250 == 0:
            print(f"frame {frame + 1} loss {losses[-1]:.4f} return {np.mean(returns):.2f} "
                  f"({time.time() - start:.1f}s)")
    print(f"final loss {np.mean(losses[-50:]):.5f} return {np.mean(returns):.3f}")


if __name__ == "__main__":
    main()
