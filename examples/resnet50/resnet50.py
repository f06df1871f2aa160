"""ResNet-50 in plain PyTorch: the network of "Deep Residual Learning" with the stride in the 3x3 convolution. Its weights are
random: what it answers means nothing, what it costs is real."""
import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut = nn.Identity()
        if stride > 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self, width=64, classes=1000):
        super().__init__()
        layers = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels = width
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                inner = width << stage
                layers.append(Bottleneck(channels, inner, 2 if stage > 0 and block == 0 else 1))
                channels = 4 * inner
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(channels, classes)

    def forward(self, image):
        return self.classifier(self.features(image))


def make(width=64):
    """The same weights every time. Batch statistics are those of noise, so that the answers stay in a sane range."""
    torch.manual_seed(50)
    model = ResNet50(width)
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, 3, 64, 64))
    return model.eval()
