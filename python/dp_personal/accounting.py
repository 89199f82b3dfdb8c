"""What mechanisms cost."""

from __future__ import annotations

from . import _native

__all__ = ["gaussian_epsilon"]


def gaussian_epsilon(*, noise_multiplier: float, delta: float, releases: int = 1) -> float:
    """Epsilon at `delta` of `releases` Gaussian releases of one noise multiplier, exact."""
    return _native.gaussian_epsilon(noise_multiplier, delta, releases)
