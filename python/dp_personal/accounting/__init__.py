"""The cost of mechanisms, the remaining budget, and ledgers.

>>> from dp_personal import accounting
>>> epsilon = accounting.gaussian(noise_multiplier=2.0, releases=10).epsilon(delta=1e-5)
>>> print(f"{epsilon:.4f}")
7.5113
"""

from __future__ import annotations

from ..errors import NoGuarantee, NotCertified, TargetOutOfReach, UnsupportedEvent
from . import adapters, events
from .accountant import (
    Accountant,
    Adjacency,
    Bound,
    Calibrated,
    Method,
    TradeOff,
    calibrate_count,
    calibrate_largest,
    calibrate_noise_multiplier,
    calibrate_sampling_probability,
    calibrate_smallest,
)
from .adapters import from_dp_accounting, from_opacus
from .events import Event, approx_dp, bounded_range, compose, gaussian, laplace, pure_dp, renyi_dp, sampled_gaussian, zcdp
from .filters import GaussianFilter, IndividualGaussianFilter, Odometer, OrderBalance, RdpFilter
from .spending import Balance, OpenLedger, Spend, certify, check_covered, read_certificate

__all__ = [
    "Accountant",
    "Adjacency",
    "Balance",
    "Bound",
    "Calibrated",
    "Event",
    "GaussianFilter",
    "IndividualGaussianFilter",
    "Method",
    "NoGuarantee",
    "NotCertified",
    "Odometer",
    "OpenLedger",
    "OrderBalance",
    "RdpFilter",
    "Spend",
    "TargetOutOfReach",
    "TradeOff",
    "UnsupportedEvent",
    "adapters",
    "approx_dp",
    "bounded_range",
    "calibrate_count",
    "calibrate_largest",
    "calibrate_noise_multiplier",
    "calibrate_sampling_probability",
    "calibrate_smallest",
    "certify",
    "check_covered",
    "compose",
    "events",
    "from_dp_accounting",
    "from_opacus",
    "gaussian",
    "laplace",
    "pure_dp",
    "read_certificate",
    "renyi_dp",
    "sampled_gaussian",
    "zcdp",
]
