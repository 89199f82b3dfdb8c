//! What a plan is made of: releases asked for, and releases with their noise.

use dp_core::{DpEvent, ReplaceFactor, params};

use crate::{Error, Result};

/// One release that a run wants to make, before its noise is known.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleaseRequest {
    /// A name for the release, such as `item-gramians-2`.
    pub label: String,
    /// Share of mu^2 under the plan's adjacency, relative to the other requests; above 0.
    pub budget_share: f64,
    /// Growth of the sensitivity under replacement.
    pub replace_factor: ReplaceFactor,
    /// Number of noise coordinates that the release draws.
    pub n_draws: u64,
}

impl ReleaseRequest {
    /// A request with the given fields.
    #[must_use]
    pub fn new(
        label: impl Into<String>,
        budget_share: f64,
        replace_factor: ReplaceFactor,
        n_draws: u64,
    ) -> Self {
        Self {
            label: label.into(),
            budget_share,
            replace_factor,
            n_draws,
        }
    }
}

/// One release of a [`crate::Plan`]: a mechanism with its noise.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRelease {
    label: String,
    event: DpEvent,
    n_draws: u64,
}

impl PlannedRelease {
    /// A release of any mechanism, for [`crate::Plan::with_noise_multipliers`]. Whether the event has a
    /// guarantee is found when the plan is made.
    #[must_use]
    pub fn new(label: impl Into<String>, event: DpEvent, n_draws: u64) -> Self {
        Self {
            label: label.into(),
            event,
            n_draws,
        }
    }

    /// A Gaussian release whose noise the caller chooses.
    ///
    /// # Errors
    /// [`Error::Param`] when `noise_multiplier` is not finite and positive.
    pub fn gaussian(
        label: impl Into<String>,
        noise_multiplier: f64,
        replace_factor: ReplaceFactor,
        n_draws: u64,
    ) -> Result<Self> {
        let noise_multiplier = params::finite_positive("noise_multiplier", noise_multiplier)?;
        let event = DpEvent::Gaussian {
            noise_multiplier,
            replace_factor,
        };
        Ok(Self::new(label, event, n_draws))
    }

    /// The release's name.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Noise standard deviation over the L2 sensitivity under add/remove, of a release that is one
    /// Gaussian mechanism on all units. A sampled one has none: its noise multiplier taken alone
    /// says little about what it costs, and a spend for it must not pay for an unsampled release.
    ///
    /// # Errors
    /// [`Error::NotGaussian`] for every other mechanism.
    pub fn noise_multiplier(&self) -> Result<f64> {
        match self.event {
            DpEvent::Gaussian {
                noise_multiplier, ..
            } => Ok(noise_multiplier),
            _ => Err(Error::NotGaussian {
                what: format!("release {}", self.label),
            }),
        }
    }

    /// The mechanism, for the accountant.
    #[must_use]
    pub const fn event(&self) -> &DpEvent {
        &self.event
    }

    /// Number of noise coordinates.
    #[must_use]
    pub const fn n_draws(&self) -> u64 {
        self.n_draws
    }
}
