"""HiFi-GAN generator (V1 layout) that turns mel frames into a waveform."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

SLOPE = 0.1


def conv(cin, cout, kernel, dilation=1):
    return weight_norm(nn.Conv1d(cin, cout, kernel, dilation=dilation,
                                 padding=dilation * (kernel - 1) // 2))


class ResBlock(nn.Module):
    def __init__(self, channels, kernel, dilations=(1, 3, 5)):
        super().__init__()
        self.first = nn.ModuleList([conv(channels, channels, kernel, d) for d in dilations])
        self.second = nn.ModuleList([conv(channels, channels, kernel) for _ in dilations])

    def forward(self, x):
        for first, second in zip(self.first, self.second):
            h = first(F.leaky_relu(x, SLOPE))
            x = x + second(F.leaky_relu(h, SLOPE))
        return x


class Generator(nn.Module):
    def __init__(self, mels, channels, rates=(8, 8, 2, 2), kernels=(16, 16, 4, 4), blocks=(3, 7, 11)):
        super().__init__()
        self.pre = conv(mels, channels, 7)
        self.ups = nn.ModuleList()
        self.blocks = nn.ModuleList()
        width = channels
        for rate, kernel in zip(rates, kernels):
            self.ups.append(weight_norm(nn.ConvTranspose1d(width, width // 2, kernel, rate,
                                                           padding=(kernel - rate) // 2)))
            width //= 2
            self.blocks.append(nn.ModuleList([ResBlock(width, k) for k in blocks]))
        self.post = conv(width, 1, 7)

    def forward(self, mel):
        x = self.pre(mel)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, SLOPE))
            total = blocks[0](x)
            for block in blocks[1:]:
                total = total + block(x)
            x = total / len(blocks)
        return torch.tanh(self.post(F.leaky_relu(x)))
