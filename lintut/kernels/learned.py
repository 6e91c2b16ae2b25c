"""A feature map that is learned, so that linear attention weighs as softmax.

    φ(x) = exp([Wx + b, −Wx + b'] − c‖x‖²)     r features, all positive

With random rows W, b = 0 and c = 1/(2√D) this is Performer's hyperbolic map;
`fit` trains W, b and c until the weights of linear attention are close to
softmax's.  Training the map against softmax's weights is Hedgehog's idea:
Zhang et al. 2024, "The Hedgehog & the Porcupine: Expressive Linear Attentions
with Softmax Mimicry", sections 4.1 and 4.2 (whose map has no norm in it).

>>> _ = torch.manual_seed(0)
>>> φ = LearnedFeatureMap(d=16, r=32)
>>> q, k, v = torch.randn(3, 1, 100, 2, 16)
>>> losses = fit(φ, q, k, steps=20)
>>> losses[-1] < losses[0]
True
>>> from lintut.kernels import linear
>>> linear.chunkwise(q, k, v, feature_map=φ).shape
torch.Size([1, 100, 2, 16])
"""

import torch
from torch import nn

from . import _checks


class LearnedFeatureMap(nn.Module):
    """φ from width d to width r; r is even, since features come in pairs."""

    def __init__(self, d, r):
        super().__init__()
        d, r = _checks.count("d", d), _checks.count("r", r, low=2)
        if r % 2:
            raise ValueError(f"r must be even; it is {r}")
        self.rows = nn.Parameter(torch.randn(r // 2, d) * d ** -0.25)
        self.bias = nn.Parameter(torch.zeros(r))
        self.norm = nn.Parameter(torch.tensor(0.5 * d ** -0.5))

    def forward(self, x):
        """(…, d) to (…, r), in x's dtype."""
        wide = x.to(torch.promote_types(x.dtype, self.rows.dtype))
        u = wide @ self.rows.mT.to(wide.dtype)              # (…, r/2)
        u = torch.cat([u, -u], -1) + self.bias
        u = u - self.norm * (wide * wide).sum(-1, keepdim=True)
        return u.exp().to(x.dtype)


def divergence(feature_map, q, k, scale=None, causal=True):
    """How far linear attention's weights are from softmax's.

    q, k : tensor (B, T, H, D).  The Kullback–Leibler divergence, in nats, of
    the weights of φ(q)·φ(k) from softmax(scale q·k), the mean over queries:
    zero if they are the same.  `scale` is 1/√D unless given.  Builds T×T.
    """
    _checks.qkv(q, k, k)
    q, k = q.transpose(1, 2), k.transpose(1, 2)             # (B, H, T, D)
    T, scale = q.shape[2], q.shape[-1] ** -0.5 if scale is None else scale
    past = torch.ones(T, T, dtype=torch.bool, device=q.device)
    past = past.tril() if causal else past
    wanted = (scale * q @ k.mT).masked_fill(~past, -torch.inf).log_softmax(-1)
    φ = feature_map(q) @ feature_map(k).mT
    least = torch.finfo(φ.dtype).tiny       # a weight of zero has no logarithm
    total = φ.masked_fill(~past, 0).sum(-1, keepdim=True)
    got = φ.clamp(min=least).log() - total.clamp(min=least).log()
    terms = wanted.exp() * (wanted - got)
    return terms.masked_fill(~past, 0).sum(-1).mean()


def fit(feature_map, q, k, scale=None, causal=True, steps=300,
        learning_rate=1e-2, batch=8, seed=0):
    """Train a feature map on queries and keys (B, T, H, D); Adam.

    Each step takes `batch` of the B·H sequences, drawn from `seed`.  Returns
    the divergence at every step, a list of numbers.
    """
    _checks.qkv(q, k, k)
    steps = _checks.count("steps", steps)
    q, k = (x.detach().transpose(1, 2).flatten(0, 1).unsqueeze(2)
            for x in (q, k))                                # (B H, T, 1, D)
    draw = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(feature_map.parameters(), learning_rate)
    losses = []
    for _ in range(steps):
        some = torch.randperm(len(q), generator=draw)[:batch]
        loss = divergence(feature_map, q[some], k[some], scale, causal)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses
