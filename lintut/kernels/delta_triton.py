"""The delta rule on Triton: `gated_delta_triton` without gates."""

import functools

from .gated_delta_triton import sample as _sample

sample = functools.partial(_sample, gated=False)
