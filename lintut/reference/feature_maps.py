"""Feature maps φ: vectors of width d to vectors of width r.

Each takes an array (…, d) and returns (…, r) in the same dtype.
"""

import numpy as np


def elu_plus_one(x):
    """φ(x) = ELU(x) + 1: x + 1 above zero, eˣ below; r = d, always positive.

    Katharopoulos et al. 2020, equation 7.
    """
    return np.maximum(x, 0) + np.exp(np.minimum(x, 0))
