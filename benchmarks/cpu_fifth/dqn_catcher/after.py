"""DQN with a target network and frame stacking on a small pixel game: catch the falling ball."""
import argparse
import copy
import random
import statistics
import time
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")


class Catcher:
    """A ball falls down a 32x32 screen; the paddle moves left, stays or moves right."""

    def __init__(self, size=32, frames=4, seed=0):
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.stack = deque(maxlen=frames)

    def _frame(self):
        frame = np.zeros((self.size, self.size), dtype=np.uint8)
        y, x = int(self.ball[0]), int(self.ball[1])
        frame[y:y + 2, x:x + 2] = 255
        frame[-2:, self.paddle:self.paddle + 5] = 160
        return frame

    def reset(self):
        self.ball = np.array([0.0, self.rng.integers(2, self.size - 4)])
        self.drift = self.rng.uniform(-0.7, 0.7)
        self.paddle = int(self.rng.integers(0, self.size - 5))
        for _ in range(self.stack.maxlen):
            self.stack.append(self._frame())
        return np.stack(self.stack)

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + 2 * (action - 1), 0, self.size - 5))
        self.ball[0] += 1.5
        self.ball[1] = np.clip(self.ball[1] + self.drift, 0, self.size - 2)
        done = self.ball[0] >= self.size - 3
        reward = 0.0
        if done:
            reward = 1.0 if self.paddle - 2 <= self.ball[1] <= self.paddle + 5 else -1.0
        self.stack.append(self._frame())
        return np.stack(self.stack), reward, bool(done)


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = []
        self.capacity = capacity
        self.pos = 0

    def push(self, *args):
        if len(self.memory) < self.capacity:
            self.memory.append(None)
        self.memory[self.pos] = Transition(*args)
        self.pos = (self.pos + 1) % self.capacity

    def sample(self, batch_size):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        states = torch.from_numpy(np.stack(batch.state)).float() / 255.0
        next_states = torch.from_numpy(np.stack(batch.next_state)).float() / 255.0
        actions = torch.tensor(batch.action, dtype=torch.int64)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        dones = torch.tensor(batch.done, dtype=torch.float32)
        return states, actions, rewards, next_states, dones

    def __len__(self):
        return len(self.memory)


class QNetwork(nn.Module):
    def __init__(self, frames=4, n_actions=3):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(frames, 32, 5, 2, 2), nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(inplace=True),
        )
        self.value = nn.Sequential(nn.Linear(64 * 8 * 8, 256), nn.ReLU(inplace=True), nn.Linear(256, n_actions))

    def forward(self, x):
        return self.value(self.conv(x).flatten(1))


class Agent:
    def __init__(self, lr=1e-4, gamma=0.97, tau=0.01):
        self.online = QNetwork()
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr, fused=True)
        self.gamma, self.tau = gamma, tau

    @torch.no_grad()
    def act(self, state, epsilon):
        if random.random() < epsilon:
            return random.randrange(3)
        x = torch.from_numpy(state).unsqueeze(0).float() / 255.0
        return self.online(x).argmax(1).item()

    def learn(self, batch):
        states, actions, rewards, next_states, dones = batch
        with torch.no_grad():
            next_q = self.target(next_states).amax(1)
            target = rewards + self.gamma * (1 - dones) * next_q
        q = self.online(states).gather(1, actions[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), self.tau)
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40, help="gradient steps")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--train-every", type=int, default=4, help="environment steps per gradient step")
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--capacity", type=int, default=20000)
    args = parser.parse_args()

    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)

    env, agent, memory = Catcher(), Agent(), ReplayBuffer(args.capacity)
    state = env.reset()
    losses, times, episode_rewards = [], [], []
    env_steps = 0
    tick = time.perf_counter()
    while len(losses) < args.steps:
        env_steps += 1
        epsilon = max(0.05, 1.0 - env_steps / 5000)
        action = agent.act(state, epsilon)
        next_state, reward, done = env.step(action)
        memory.push(state, action, reward, next_state, done)
        state = next_state
        if done:
            episode_rewards.append(reward)
            state = env.reset()

        if env_steps >= args.warmup and env_steps % args.train_every == 0:
            losses.append(agent.learn(memory.sample(args.batch_size)))
            now = time.perf_counter()
            times.append(now - tick)
            tick = now

    print(f"episodes {len(episode_rewards)}, mean reward {np.mean(episode_rewards[-50:]):.3f}")
    print(f"loss {torch.stack(losses[-10:]).mean().item():.5f}")
    print(f"step {1000 * statistics.median(times[5:]):.2f} ms")


if __name__ == "__main__":
    main()
