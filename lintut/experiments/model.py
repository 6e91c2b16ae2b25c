"""One small model for every experiment: only the rule of its mixers differs.

    B batch   T length   H heads   d width of q, k and v   D width of the model

    mixer   q, k, v = three maps of x, each smoothed over the last few tokens;
            one rule of `lintut.kernels`; RMS norm a head; a map back to D
    block   x + mixer(norm(x)), then x + mlp(norm(x))
    model   embedding, blocks, norm, the scores of the next symbol

The short causal convolution lets a token's key be made of the token before
it, which recall needs: the key's name stands one token before its value.  The
layers of DeltaNet and Gated DeltaNet have it (Yang et al. 2025, section 3.4);
here every rule gets it, softmax included.  There are no positions unless
`positions` asks for a learned table of them.

Gates are computed from the token:  α = exp(−softplus(w·x + b)/16), which is
GLA's sigmoid(·)^(1/16) (Yang et al. 2024, section 4.4), a number a channel for
"gla" and a head for "gated_delta"; β = sigmoid(w·x + b).  Retention's γ is
1 − 2^(−5−h) for head h.  Keys and queries of the delta rules have length 1;
those of retention and gla are divided by √d; linear takes ELU + 1.
"""

from lintut import cost
from lintut._optional import require

torch = require("torch", "kernels", "lintut.experiments.model")
nn, F = torch.nn, torch.nn.functional

from lintut.kernels import (                                  # noqa: E402
    delta, gated_delta, gla, linear, retention, sliding_window, softmax)

RULES = ("softmax", "sliding_window", "linear", "retention", "gla", "delta",
         "gated_delta")
# The state first, then the window, as in Gated DeltaNet-H1 (Yang et al. 2025,
# section 3.4); and the other way round.
HYBRIDS = {"hybrid": ("linear", "sliding_window"),
           "hybrid_window_first": ("sliding_window", "linear")}
MECHANISMS = (*RULES, *HYBRIDS)


class Mixer(nn.Module):
    """Tokens exchange information here and nowhere else."""

    def __init__(self, rule, D, heads, d, window, taps=4):
        super().__init__()
        self.rule, self.heads, self.d, self.window = rule, heads, d, window
        self.taps, inner = taps, heads * d
        self.qkv = nn.Linear(D, 3 * inner, bias=False)
        self.smooth = nn.Conv1d(3 * inner, 3 * inner, taps, groups=3 * inner)
        self.norm = nn.RMSNorm(d)
        self.out = nn.Linear(inner, D, bias=False)
        gates = {"gla": inner, "gated_delta": heads}.get(rule)
        self.alpha = nn.Linear(D, gates) if gates else None
        self.beta = nn.Linear(D, heads) if "delta" in rule else None

    def forward(self, x):                               # (B, T, D)
        past = F.pad(self.qkv(x).mT, (self.taps - 1, 0))
        q, k, v = (y.unflatten(-1, (self.heads, self.d))     # (B, T, H, d)
                   for y in self.smooth(past).mT.chunk(3, -1))
        o = self.norm(self.attend(q, k, v, x))          # (B, T, H, d)
        return self.out(o.flatten(2))                   # (B, T, D)

    def attend(self, q, k, v, x):
        """One rule, (B, T, H, d); x (B, T, D) makes the gates."""
        rule, size = self.rule, dict(chunk_size=min(64, q.shape[1]))
        if rule == "softmax":
            return softmax.chunkwise(q, k, v, causal=True)
        if rule == "sliding_window":
            return sliding_window.chunkwise(q, k, v, self.window)
        if rule == "linear":
            return linear.chunkwise(q, k, v, **size)
        if rule == "retention":
            heads = torch.arange(self.heads, device=q.device)
            return retention.chunkwise(q, k / self.d ** 0.5, v,
                                       1 - 2.0 ** (-5 - heads), **size)
        if rule == "gla":
            alpha = self.decay(x).unflatten(-1, q.shape[2:])
            return gla.chunkwise(q, k / self.d ** 0.5, v, alpha, **size)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        beta = self.beta(x).sigmoid()                   # (B, T, H)
        if rule == "delta":
            return delta.chunkwise(q, k, v, beta, **size)
        return gated_delta.chunkwise(q, k, v, self.decay(x), beta, **size)

    def decay(self, x):
        return torch.exp(-F.softplus(self.alpha(x)) / 16)


class Block(nn.Module):
    """Exchange between tokens, then work on each token alone."""

    def __init__(self, mixer, D):
        super().__init__()
        self.mixer = mixer
        self.norm1, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(),
                                 nn.Linear(2 * D, D))

    def forward(self, x):                               # (B, T, D)
        x = x + self.mixer(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Symbols to scores: (B, T) to (B, T, symbols)."""

    def __init__(self, mechanism, symbols, D=64, heads=2, d=16, layers=2,
                 window=16, positions=0):
        super().__init__()
        self.embedding = nn.Embedding(symbols, D)
        self.place = nn.Embedding(positions, D) if positions else None
        self.blocks = nn.Sequential(*(
            Block(Mixer(rule, D, heads, d, window), D)
            for rule in rules(mechanism, layers)))
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, symbols)

    def forward(self, tokens):                          # (B, T)
        x = self.embedding(tokens)                      # (B, T, D)
        if self.place is not None:
            x = x + self.place.weight[:tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def rules(mechanism, layers):
    """The rule of each layer; those of a hybrid take turns."""
    if mechanism not in MECHANISMS:
        raise ValueError("mechanism must be one of " + ", ".join(MECHANISMS)
                         + f"; it is {mechanism!r}")
    turns = HYBRIDS.get(mechanism, (mechanism,))
    return [turns[i % len(turns)] for i in range(layers)]


def state_size(mechanism, tokens, d, window, layers=2):
    """Numbers that decoding keeps after `tokens`, a layer and head.

    The mean over the layers, from `lintut.cost`; the convolution's last
    tokens, the same for every rule, are not counted.
    """
    sizes = [cost.of(rule, N=tokens, d=d, d_v=d, dtype="float32",
                     **{"linear": dict(r=d),
                        "sliding_window": dict(w=window)}.get(rule, {})
                     ).state_bytes // 4
             for rule in rules(mechanism, layers)]
    return sum(sizes) / len(sizes)
