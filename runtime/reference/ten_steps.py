"""Losses of ten training steps of a small model in PyTorch, in double precision: `python ten_steps.py > ten_steps.json`.

Weights and tokens are given by formulas, so that no file is needed to repeat them elsewhere: weight number i of a tensor
is start + spread·noise(i, j), with j the sum of the bytes of its name; token i is (7i² + 3i + i//5) mod V.
"""
import json

import torch

from gpt import GPT, RECIPES

LAYERS, HEADS, HEAD, WINDOW, VOCABULARY, BATCH, STEPS, RATE, CLIP = 2, 2, 8, 12, 29, 3, 10, 1e-2, 1.0


def token(i):
    return (7 * i * i + 3 * i + i // 5) % VOCABULARY


def noise(i, j):
    """A number in [−1, 1)."""
    x = (i * 2654435761 + j * 97) % 2**32
    x = ((x ^ x >> 15) * 2246822519) % 2**32
    return (x ^ x >> 13) / 2**31 - 1


def main():
    results = {}
    for recipe in RECIPES:
        model = GPT(LAYERS, HEADS, HEAD, WINDOW, VOCABULARY, 0.0, recipe)
        with torch.no_grad():
            for name, parameter in model.values.items():
                j = sum(name.replace("/", ".").encode())
                wave = torch.tensor([noise(i, j) for i in range(parameter.numel())], dtype=torch.float64)
                wave = wave.view(parameter.shape)
                start, spread = (0.0, 0.2) if parameter.dim() > 1 else (parameter.double(), 0.05)
                parameter.copy_((start + spread * wave).float())
        model = model.double()
        optimizer = torch.optim.AdamW(model.groups(0.01), lr=RATE, betas=(0.9, 0.999), eps=1e-8)
        losses = []
        for step in range(1, STEPS + 1):
            first = (step - 1) * BATCH * (WINDOW + 1)
            rows = [[token(first + b * (WINDOW + 1) + t) for t in range(WINDOW + 1)] for b in range(BATCH)]
            rows = torch.tensor(rows)
            for group in optimizer.param_groups:
                group["lr"] = RATE * (STEPS + 1 - step) / STEPS
            optimizer.zero_grad()
            loss = model.loss(rows[:, :-1], rows[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            losses.append(loss.item())
        results[recipe] = losses
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
