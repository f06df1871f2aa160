"""python train.py: trains the network and writes 1/model.pt2. Put your own network in its place.

Needs torch and numpy. The points of two spirals are made here."""
import math
import os

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))

    # The names of the arguments are the names of the inputs, the keys of the answer are the names of the outputs.
    def forward(self, point):
        return {"scores": torch.softmax(self.layers(point), dim=1)}


def spirals(count):
    """So many points on each of two spirals, and on which one each lies."""
    angle = torch.linspace(0.5, 1.5 * math.pi, count)
    first = torch.stack([angle * angle.cos(), angle * angle.sin()], dim=1) / 5
    return torch.cat([first, -first]), torch.cat([torch.zeros(count), torch.ones(count)]).long()


torch.manual_seed(1)
torch.set_num_threads(1)
net = Net()
points, which = spirals(200)
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(200):
    optimizer.zero_grad()
    nn.functional.nll_loss(net(points)["scores"].clamp_min(1e-9).log(), which).backward()
    optimizer.step()
net.eval()
points, which = spirals(177)
right = (net(points)["scores"].argmax(dim=1) == which).float().mean().item()
print("right on points that it has not seen: %.0f %%" % (100 * right))

folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "1")
os.makedirs(folder, exist_ok=True)
program = torch.export.export(net, (points,), dynamic_shapes=({0: torch.export.Dim("batch")},))
torch.export.save(program, os.path.join(folder, "model.pt2"))
