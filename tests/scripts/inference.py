"""Inference over batches with a model in double precision."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def predict(model, loader):
    with torch.inference_mode():
        return [
            model(x).argmax(1)  # fault
            for (x,) in loader
        ]


model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).double().eval()
data = TensorDataset(torch.ones(64 * 20, 256, dtype=torch.float64))
predict(model, DataLoader(data, batch_size=64))
