"""How many associations does a linear state hold once its keys are learned?

    python -m lintut.experiments.retrieval [--out FILE] [--large | --quick]

A sequence of T tokens, each a key (one of n) with a value (one of n, one-hot)
is written into a state; then one of its keys is asked for.  The embedding of
the keys and the maps to k and q are learned, the values are given.

    k_j = W_k [embedding of key j, value j] + b     (B, T, d)
    q   = W_q  embedding of the key asked for + b   (B, d)
    sum    o = Σ_j φ(k_j)·φ(q) v_j / Σ_j φ(k_j)·φ(q)          (B, n)
    delta  read, write the error β_j (v_j − Sᵀκ_j), o = Sᵀφ(q)/Σφ(q)
           with κ = φ(k)/Σφ(k) and β_j = sigmoid(w·[…] + b)

Schlag et al. 2021, section 6.1; loss ½‖o − v‖², so that o = 0 costs 0.5.
"sum" draws every key once, T = n ("unique"), or with replacement, T = 2n, and
asks for the key's latest value ("repeated").

No state is built: o is a weighted sum of values, and the weights are enough.
"""

from lintut.experiments import training
from lintut.experiments.model import torch

nn = torch.nn

WHAT = "retrieval loss, 0.5 |o - v|^2, against the number S of keys"
D, BATCH, TEST_EVERY, TEST_SEQUENCES, ENOUGH = 64, 32, 100, 20, 0.001

# (update, keys, φ, the values of S, seeds)
THREE = [1, 2, 3]
POINTS = [
    ("sum", "unique", "elu+1", [20, 40, 60, 100, 200], THREE),
    ("sum", "unique", "dpfp-1", [20, 60, 100, 200], THREE),
    ("sum", "unique", "dpfp-3", [200], THREE),
    ("sum", "unique", "favor+64", [20, 100], THREE),
    ("sum", "repeated", "dpfp-1", [20, 60, 100], THREE),
    ("delta", "repeated", "dpfp-1", [20, 60, 100], THREE),
    ("delta", "repeated", "elu+1", [20, 60], THREE),
    ("sum", "unique", "elu+1", [600], [1]),
]
DEFAULT = {"points": POINTS, "steps": 1000, "patience": 5, "d": D,
           "batch": BATCH, "learning_rate": 0.001, "enough": ENOUGH,
           "test": f"{TEST_SEQUENCES} sequences of S tokens every "
                   f"{TEST_EVERY} steps; the last test is recorded"}
LARGE = {"steps": 7000, "patience": 10, "points": [
    (update, keys, φ, [20, 40, 60, 100, 200, 400, 600], THREE)
    for update, keys, φ, *_ in POINTS[:7]]}
QUICK = {"points": [(*point[:3], [6], [1]) for point in POINTS[:7]],
         "steps": 3}


def features(name, x, rows=None):
    """φ(x), (…, d) to (…, r), in a way that learns."""
    if name == "elu+1":
        return nn.functional.elu(x) + 1
    if name.startswith("dpfp-"):
        p = torch.cat([x, -x], -1).relu()                    # (…, 2d)
        return torch.cat([p * p.roll(s, -1)
                          for s in range(1, int(name[5:]) + 1)], -1)
    u = x @ rows.T
    half = (x * x).sum(-1, keepdim=True) / 2
    return torch.cat([u - half, -u - half], -1).exp() / (
        2 * len(rows)) ** 0.5


def orthogonal_rows(m, d):
    """m rows N(0, I), orthogonal in blocks of d; drawn anew at each call."""
    blocks = [torch.linalg.qr(torch.randn(d, d))[0].T
              * torch.randn(d, d).norm(dim=1)[:, None]
              for _ in range(0, m, d)]
    return torch.cat(blocks)[:m]


class Retrieval(nn.Module):
    def __init__(self, n, φ, update):
        super().__init__()
        self.φ, self.update, width = φ, update, int(2 * n * 1.1)
        self.embedding = nn.Parameter(torch.randn(n, width))
        self.k, self.q = nn.Linear(width + n, D), nn.Linear(width, D)
        self.beta = nn.Linear(width + n, 1)
        for layer in (self.k, self.q):
            nn.init.uniform_(layer.weight, -D ** -0.5, D ** -0.5)

    def forward(self, keys, values, asked):
        """keys, values (B, T), asked (B, M) to weights (B, M, T): o = Σ w v."""
        def gathered(layer):        # a linear map of [embedding, one-hot]
            width = self.embedding.shape[1]
            of_key = self.embedding @ layer.weight[:, :width].T + layer.bias
            return (nn.functional.embedding(keys, of_key) +
                    nn.functional.embedding(values,
                                            layer.weight[:, width:].T))

        rows = None
        if self.φ.startswith("favor"):
            rows = orthogonal_rows(int(self.φ[6:]), D)
        fk = features(self.φ, gathered(self.k), rows)        # (B, T, r)
        fq = features(self.φ, self.q(self.embedding)[asked], rows)
        if self.update == "sum":
            w = fq @ fk.mT                                   # (B, M, T)
            return w / (w.sum(-1, keepdim=True) + 1e-6)
        fk = fk / (fk.sum(-1, keepdim=True) + 1e-6)
        fq = fq / (fq.sum(-1, keepdim=True) + 1e-6)
        beta = gathered(self.beta).sigmoid()                 # (B, T, 1)
        overlap = (beta * (fk @ fk.mT)).tril(-1)             # (B, T, T)
        # E + overlap E = β V, o = fq fkᵀ E
        w = torch.linalg.solve_triangular(
            overlap, fq @ fk.mT, upper=False, left=False, unitriangular=True)
        return w * beta.mT


def draw(n, length, repeated, batch):
    """Keys and values (B, T): each once, or with replacement."""
    if repeated:
        return torch.randint(n, (2, batch, length))
    return torch.rand(2, batch, n).argsort(-1)


def last_places(keys, n):
    """(B, n): where each key was written last, −1 if never."""
    places = torch.arange(keys.shape[1]).expand_as(keys)
    return torch.full((len(keys), n), -1).scatter_reduce(
        1, keys, places, "amax")


def loss_of(weights, values, places, n):
    """½‖o − v‖² (B, M) for weights (B, M, T) and where the answer lies."""
    index = values[:, None].expand_as(weights)
    o = weights.new_zeros(*weights.shape[:2], n).scatter_add(2, index, weights)
    right = values.gather(1, places)
    return ((o - nn.functional.one_hot(right, n)) ** 2).sum(-1) / 2


@torch.no_grad()
def test(model, n, repeated):
    """The mean loss over every key of fresh sequences of n tokens."""
    losses = []
    for _ in range(TEST_SEQUENCES):
        keys, values = draw(n, n, repeated, 1)
        places = last_places(keys, n)
        asked = (places[0] >= 0).nonzero().T[:, :200]        # (1, M)
        losses.append(loss_of(model(keys, values, asked), values,
                              places.gather(1, asked), n).mean())
    return float(torch.stack(losses).mean())


def points(settings):
    return [{"update": update, "keys": keys, "feature_map": φ, "S": S,
             "seed": seed}
            for update, keys, φ, sizes, seeds in settings["points"]
            for S in sizes for seed in seeds]


def work(settings, point):
    """The row of one model, on a GPU if there is one."""
    with torch.device(training.device()):
        return train(settings, point)


def train(settings, point):
    """Train one model until it has learned or stopped learning."""
    n, repeated = point["S"], point["keys"] == "repeated"
    length = 2 * n if repeated else n
    model = Retrieval(n, point["feature_map"], point["update"])
    optimiser = torch.optim.Adam(model.parameters(),
                                 lr=settings["learning_rate"])
    best, strikes, step, loss = float("inf"), 0, 0, None
    while step < settings["steps"] and strikes <= settings["patience"]:
        step += 1
        ks, vs = draw(n, length, repeated, BATCH)
        asked = ks.gather(1, torch.randint(length, (BATCH, 1)))
        places = last_places(ks, n).gather(1, asked)
        error = loss_of(model(ks, vs, asked), vs, places, n).mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        if step % TEST_EVERY == 0 or step == settings["steps"]:
            loss = test(model, n, repeated)
            if loss <= ENOUGH:
                break
            strikes = 0 if loss < best else strikes + 1
            best = min(best, loss)
    return {"loss": round(loss, 5), "steps": step,
            "stopped": ("solved" if loss <= ENOUGH else "no progress"
                        if strikes > settings["patience"] else "step limit")}


def main(arguments=None):
    return training.command("retrieval", WHAT, points, work, DEFAULT, LARGE,
                            QUICK, arguments)


if __name__ == "__main__":
    main()
