//! What is asked of a case.

use std::fmt;

use dp_core::{ApproxDp, ParamError, params};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Quantity;
use super::answer::{QuestionError, Result};

/// A query of the question file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Query {
    DeltaAtEpsilon {
        epsilon: f64,
        formula: Option<Formula>,
        accountant: Option<Named>,
        orders: Option<Orders>,
    },
    EpsilonAtDelta {
        delta: f64,
        formula: Option<Formula>,
        accountant: Option<Named>,
        orders: Option<Orders>,
    },
    RdpAtAlpha {
        alpha: f64,
    },
    SigmaForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    ScaleForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    #[serde(alias = "max_rate_for_epsilon_delta")]
    RateForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    #[serde(alias = "max_sampling_probability_for_epsilon_delta")]
    SamplingProbabilityForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    MaxCountForEpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    AmplifiedEpsilon {},
}

/// A conversion from Renyi divergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Formula {
    Mironov2017,
    Cks2020,
    Asoodeh2020,
}

/// An accountant asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Named {
    Rdp,
}

/// Renyi orders to minimise over.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Orders {
    Named(DefaultOrders),
    Listed(Vec<f64>),
}

/// The list of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DefaultOrders {
    Default,
}

impl Orders {
    /// The orders, each above 1; those of the file where the query says `default`.
    pub(super) fn list(&self, default: Option<&RawValue>) -> Result<Vec<f64>> {
        let orders = match (self, default) {
            (Self::Listed(orders), _) => orders.clone(),
            (Self::Named(DefaultOrders::Default), Some(text)) => serde_json::from_str(text.get())?,
            (Self::Named(DefaultOrders::Default), None) => Vec::new(),
        };
        if orders.is_empty() {
            let reason = "no orders are listed";
            return Err(QuestionError::Formula { reason });
        }
        orders.into_iter().map(|a| order("orders", a)).collect()
    }
}

/// Which end of the privacy profile is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Given {
    /// Epsilon is asked at this delta.
    Delta(f64),
    /// Delta is asked at this epsilon.
    Epsilon(f64),
}

impl Given {
    pub(super) fn checked(self) -> Result<Self> {
        match self {
            Self::Delta(delta) => params::open_unit("delta", delta)?,
            Self::Epsilon(epsilon) => params::finite_non_negative("epsilon", epsilon)?,
        };
        Ok(self)
    }

    pub(super) const fn asked(self) -> Quantity {
        match self {
            Self::Delta(_) => Quantity::Epsilon,
            Self::Epsilon(_) => Quantity::Delta,
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delta(delta) => write!(f, "epsilon at delta {}", plain(*delta)),
            Self::Epsilon(epsilon) => write!(f, "delta at epsilon {}", plain(*epsilon)),
        }
    }
}

impl Query {
    /// The parameter to solve for and the target, when this is a calibration.
    pub(super) fn calibration(&self) -> Option<Result<(Quantity, ApproxDp)>> {
        let (quantity, epsilon, delta) = match *self {
            Self::SigmaForEpsilonDelta { epsilon, delta } => (Quantity::Sigma, epsilon, delta),
            Self::ScaleForEpsilonDelta { epsilon, delta } => (Quantity::Scale, epsilon, delta),
            Self::RateForEpsilonDelta { epsilon, delta } => (Quantity::Rate, epsilon, delta),
            Self::SamplingProbabilityForEpsilonDelta { epsilon, delta } => {
                (Quantity::SamplingProbability, epsilon, delta)
            }
            Self::MaxCountForEpsilonDelta { epsilon, delta } => (Quantity::Count, epsilon, delta),
            Self::DeltaAtEpsilon { .. }
            | Self::EpsilonAtDelta { .. }
            | Self::RdpAtAlpha { .. }
            | Self::AmplifiedEpsilon {} => return None,
        };
        Some(
            ApproxDp::target(epsilon, delta)
                .map(|target| (quantity, target))
                .map_err(Into::into),
        )
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeltaAtEpsilon {
                epsilon, formula, ..
            } => write!(f, "{}{}", Given::Epsilon(*epsilon), by(*formula)),
            Self::EpsilonAtDelta { delta, formula, .. } => {
                write!(f, "{}{}", Given::Delta(*delta), by(*formula))
            }
            Self::RdpAtAlpha { alpha } => write!(f, "Renyi divergence of order {}", plain(*alpha)),
            Self::AmplifiedEpsilon {} => f.write_str("amplified epsilon"),
            Self::SigmaForEpsilonDelta { epsilon, delta } => target(f, "sigma", *epsilon, *delta),
            Self::ScaleForEpsilonDelta { epsilon, delta } => target(f, "scale", *epsilon, *delta),
            Self::RateForEpsilonDelta { epsilon, delta } => target(f, "rate", *epsilon, *delta),
            Self::SamplingProbabilityForEpsilonDelta { epsilon, delta } => {
                target(f, "sampling probability", *epsilon, *delta)
            }
            Self::MaxCountForEpsilonDelta { epsilon, delta } => {
                target(f, "count", *epsilon, *delta)
            }
        }
    }
}

fn by(formula: Option<Formula>) -> &'static str {
    match formula {
        None => "",
        Some(Formula::Mironov2017) => ", mironov2017",
        Some(Formula::Cks2020) => ", cks2020",
        Some(Formula::Asoodeh2020) => ", asoodeh2020",
    }
}

pub(super) fn target(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    epsilon: f64,
    delta: f64,
) -> fmt::Result {
    write!(f, "{name} for ({}, {})", plain(epsilon), plain(delta))
}

/// The shorter of 0.001 and 1e-3.
fn plain(x: f64) -> String {
    let (fixed, scientific) = (format!("{x}"), format!("{x:e}"));
    if fixed.len() <= scientific.len() + 1 {
        fixed
    } else {
        scientific
    }
}

/// An order of a Renyi divergence.
pub(super) fn order(name: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 1.0 {
        return Ok(value);
    }
    let expected = "a finite number above 1";
    Err(ParamError {
        name,
        value,
        expected,
    }
    .into())
}
