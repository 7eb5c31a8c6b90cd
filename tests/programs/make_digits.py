"""Trains a small network on handwritten digits and writes examples/digits.*: the program, ten images, what PyTorch answers, and the truth.

    python tests/programs/make_digits.py [OUTDIR]

Needs torch, safetensors and scikit-learn, whose copy of the UCI "Optical Recognition of Handwritten Digits" (CC BY 4.0) it takes.
"""
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

from make_zoo import tidy


def network():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10))


def train(model, images, labels, epochs=20):
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    for epoch in range(epochs):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.85
    return model.eval()


def store(path, **tensors):
    save_file(tensors, path, {"order": json.dumps(list(tensors))})


def main():
    outdir = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2] / "examples")
    torch.manual_seed(3)
    torch.set_num_threads(1)
    data = load_digits()
    images, labels = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(data.target)
    unseen = torch.arange(len(images)) % 5 == 0
    model = train(network(), images[~unseen], labels[~unseen])
    with torch.no_grad():
        right = (model(images[unseen]).argmax(1) == labels[unseen]).float().mean()
        shown = torch.stack([images[unseen][labels[unseen] == digit][1] for digit in range(10)])
        logits = model(shown)
    print(f"{right:.1%} of the {unseen.sum()} digits it has not seen are right")
    program = torch.export.export(model, (shown,), dynamic_shapes=({0: torch.export.Dim("batch", max=4096)},))
    torch.export.save(tidy(program), outdir / "digits.pt2")
    store(outdir / "digits.inputs.safetensors", **{program.graph_signature.user_inputs[0]: shown})
    store(outdir / "digits.expected.safetensors", output_0=logits)
    store(outdir / "digits.labels.safetensors", labels=torch.arange(10))


if __name__ == "__main__":
    main()
