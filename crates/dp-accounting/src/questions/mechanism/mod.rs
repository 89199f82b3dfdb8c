//! The mechanisms of a question file, and the events that they are.

mod event;
mod frame;
mod number;
mod unknown;

use dp_core::params;
use serde::Deserialize;

use super::answer::{QuestionError, Result};
use number::{count, nullable, whole};

pub(super) use event::events;
pub(super) use frame::{Frame, Toward};

/// How neighbours are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Neighbour {
    AddRemove,
    ReplaceOne,
    ZeroOut,
}

/// One entry of `events`. `None` is a parameter that is null: the unknown.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, tag = "mechanism", rename_all = "snake_case")]
pub(super) enum Mechanism {
    Gaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        sensitivity: f64,
    },
    Laplace {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        scale: Option<f64>,
        sensitivity: f64,
    },
    DiscreteGaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        sensitivity: u32,
    },
    DiscreteLaplace {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        rate: Option<f64>,
        sensitivity: u32,
    },
    RandomizedResponse {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        noise_probability: f64,
        buckets: u32,
    },
    ApproximateDp {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        epsilon: f64,
        delta: f64,
    },
    PoissonSubsampledGaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        sensitivity: f64,
        #[serde(deserialize_with = "nullable")]
        sampling_probability: Option<f64>,
    },
    PoissonSubsampledApproximateDp {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        epsilon: f64,
        delta: f64,
        #[serde(deserialize_with = "nullable")]
        sampling_probability: Option<f64>,
    },
    BinaryTreeGaussian {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "nullable")]
        sigma: Option<f64>,
        #[serde(deserialize_with = "whole")]
        steps: u64,
    },
    RdpPoint {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        alpha: f64,
        rdp: f64,
    },
    Zcdp {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        rho: f64,
    },
}

impl Mechanism {
    const fn knows_neighbours(&self) -> bool {
        matches!(
            self,
            Self::PoissonSubsampledGaussian { .. }
                | Self::PoissonSubsampledApproximateDp { .. }
                | Self::RandomizedResponse { .. }
        )
    }

    pub(super) fn count(&self) -> Option<u64> {
        let mut copy = *self;
        *copy.count_mut()
    }

    const fn count_mut(&mut self) -> &mut Option<u64> {
        match self {
            Self::Gaussian { count, .. }
            | Self::Laplace { count, .. }
            | Self::DiscreteGaussian { count, .. }
            | Self::DiscreteLaplace { count, .. }
            | Self::RandomizedResponse { count, .. }
            | Self::ApproximateDp { count, .. }
            | Self::PoissonSubsampledGaussian { count, .. }
            | Self::PoissonSubsampledApproximateDp { count, .. }
            | Self::BinaryTreeGaussian { count, .. }
            | Self::RdpPoint { count, .. }
            | Self::Zcdp { count, .. } => count,
        }
    }

    /// The largest distance between outputs, 1 where there is none.
    pub(super) fn sensitivity(&self) -> Result<f64> {
        match *self {
            Self::Gaussian { sensitivity, .. }
            | Self::Laplace { sensitivity, .. }
            | Self::PoissonSubsampledGaussian { sensitivity, .. } => {
                Ok(params::finite_positive("sensitivity", sensitivity)?)
            }
            Self::DiscreteGaussian { sensitivity, .. }
            | Self::DiscreteLaplace { sensitivity, .. } => Ok(params::finite_positive(
                "sensitivity",
                f64::from(sensitivity),
            )?),
            _ => Ok(1.0),
        }
    }
}

/// A sampling probability in (0, 1].
pub(super) fn probability(value: Option<f64>) -> Result<f64> {
    let name = "sampling_probability";
    let q = params::closed_unit(name, given(name, value)?)?;
    Ok(params::finite_positive(name, q)?)
}

pub(super) fn given<T>(name: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| QuestionError::NotAsked {
        name: name.to_owned(),
    })
}
