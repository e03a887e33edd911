"""The model of `runtime/README.md` in PyTorch, written from that page and from nothing else.

`GPT(config, recipe)` holds parameters under the names a checkpoint uses; `loss(tokens, targets)` is the mean
cross-entropy. It serves as the outside judge of numbers (`ten_steps.py`) and of speed (`energyrun bench train`).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def scores_mask(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


def softmax_head(q, k, v, p, dropout):
    """o = Σ p v with p = softmax(q·k/√d_h)."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)


def newton_taylor_head(q, k, v, p, dropout):
    """o = −(r + τ b), r = q − k̄, b = Σ p k (k·r) − k̄ (k̄·r), p = softmax(−½|q − k|²/T)."""
    T, tau = p["T"].view(1, -1, 1, 1), p["tau"].view(1, -1, 1, 1)
    d2 = (q * q).sum(-1, keepdim=True) + (k * k).sum(-1).unsqueeze(-2) - 2 * q @ k.transpose(-1, -2)
    w = torch.softmax((-d2 / (2 * T)).masked_fill(scores_mask(q.shape[-2]), float("-inf")), -1)
    dropped = F.dropout(w, dropout)
    mean = dropped @ k
    r = q - mean
    b = (dropped * (r @ k.transpose(-1, -2))) @ k - mean * (mean * r).sum(-1, keepdim=True)
    return -(r + tau * b)


def newton_light_head(q, k, v, p, dropout):
    """o = v̄ + τ b, b = Σ p v (v·v̄) − v̄ (v̄·v̄), p = softmax(q·k/√d_h)."""
    tau = p["tau"].view(1, -1, 1, 1)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    w = torch.softmax(s.masked_fill(scores_mask(q.shape[-2]), float("-inf")), -1)
    dropped = F.dropout(w, dropout)
    mean = dropped @ v
    b = (dropped * (mean @ v.transpose(-1, -2))) @ v - mean * (mean * mean).sum(-1, keepdim=True)
    return mean + tau * b


RECIPES = {
    "softmax": dict(head=softmax_head, optimizer=None, numbers={}, write_back="free"),
    "momentum": dict(head=softmax_head, optimizer="momentum", numbers={}, write_back="free"),
    "nag": dict(head=softmax_head, optimizer="nag", numbers={}, write_back="free"),
    "newton_taylor": dict(
        head=newton_taylor_head, optimizer=None,
        numbers={"T": lambda dh: math.sqrt(2 * dh), "tau": lambda dh: 0.01}, write_back="free_pinv"),
    "newton_light": dict(
        head=newton_light_head, optimizer=None, numbers={"tau": lambda dh: 0.01}, write_back="free"),
}


class GPT(nn.Module):
    def __init__(self, layers, heads, head, window, vocabulary, dropout, recipe):
        super().__init__()
        self.layers, self.heads, self.head, self.dropout = layers, heads, head, dropout
        self.recipe = RECIPES[recipe]
        d = heads * head
        last = 0.02 / math.sqrt(2 * layers)
        self.values = nn.ParameterDict()

        def add(name, shape, deviation=None, value=0.0):
            start = torch.full(shape, float(value)) if deviation is None else torch.randn(shape) * deviation
            self.values[name.replace(".", "/")] = nn.Parameter(start)

        add("tokens", (vocabulary, d), 0.02)
        add("positions", (window, d), 0.02)
        for i in range(layers):
            a, f = f"layers.{i}.attention", f"layers.{i}.feed_forward"
            add(f"{a}.norm.weight", (d,), value=1)
            add(f"{a}.norm.bias", (d,))
            for name in ("w1", "w2", "wv"):
                add(f"{a}.{name}", (d, d), 0.02)
            add(f"{a}.wo", (d, d), last)
            for name, start in self.recipe["numbers"].items():
                add(f"{a}.{name}", (heads,), value=start(head))
            add(f"{f}.norm.weight", (d,), value=1)
            add(f"{f}.norm.bias", (d,))
            add(f"{f}.w1", (4 * d, d), 0.02)
            add(f"{f}.b1", (4 * d,))
            add(f"{f}.w2", (d, 4 * d), last)
            add(f"{f}.b2", (d,))
            if self.recipe["optimizer"]:
                for sublayer in (a, f):
                    add(f"{sublayer}.beta", (1,), value=0.9)
                    add(f"{sublayer}.eta", (1,), value=1)
        add("norm.weight", (d,), value=1)
        add("norm.bias", (d,))
        add("logits", (vocabulary, d), 0.02)

    def __getitem__(self, name):
        return self.values[name.replace(".", "/")]

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self[f"{name}.weight"], self[f"{name}.bias"], 1e-5)

    def attention(self, x, a):
        b, n, d = x.shape
        together = torch.cat([self[f"{a}.{w}"] for w in ("w1", "w2", "wv")])
        q, k, v = (x @ together.T).view(b, n, 3, self.heads, self.head).permute(2, 0, 3, 1, 4)
        numbers = {name: self[f"{a}.{name}"] for name in self.recipe["numbers"]}
        o = self.recipe["head"](q, k, v, numbers, self.dropout if self.training else 0.0)
        if self.recipe["write_back"] == "free":
            return o.transpose(1, 2).reshape(b, n, d) @ self[f"{a}.wo"].T
        w1 = self[f"{a}.w1"].view(self.heads, self.head, d)
        wv = self[f"{a}.wv"].view(self.heads, self.head, d)
        wo = self[f"{a}.wo"].view(d, self.heads, self.head).transpose(0, 1)
        pinv = w1.transpose(1, 2) @ torch.linalg.inv(w1 @ w1.transpose(1, 2))
        m = (wo @ wv @ pinv).transpose(0, 1).reshape(d, d)
        return o.transpose(1, 2).reshape(b, n, d) @ m.T

    def feed_forward(self, x, f):
        inside = F.gelu(x @ self[f"{f}.w1"].T + self[f"{f}.b1"], approximate="tanh")
        return inside @ self[f"{f}.w2"].T + self[f"{f}.b2"]

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training)

    def forward(self, tokens):
        z = self.drop(self["tokens"][tokens] + self["positions"][: tokens.shape[1]])
        p = torch.zeros_like(z)
        for i in range(self.layers):
            for kind, force in (("attention", self.attention), ("feed_forward", self.feed_forward)):
                name = f"layers.{i}.{kind}"
                if self.recipe["optimizer"] is None:
                    z = z + self.drop(force(self.norm(z, f"{name}.norm"), name))
                    continue
                beta, eta = self[f"{name}.beta"], self[f"{name}.eta"]
                at = z - beta * p if self.recipe["optimizer"] == "nag" else z
                p = beta * p - self.drop(force(self.norm(at, f"{name}.norm"), name))
                z = z - eta * p
        return self.norm(z, "norm") @ self["logits"].T

    def loss(self, tokens, targets):
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def groups(self, weight_decay):
        """Matrices decay; vectors and numbers do not."""
        matrices = [p for p in self.values.values() if p.dim() > 1]
        others = [p for p in self.values.values() if p.dim() <= 1]
        return [dict(params=matrices, weight_decay=weight_decay), dict(params=others, weight_decay=0.0)]
