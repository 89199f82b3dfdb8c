//! How the shared subspace is learned.

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, UserSamples};
use dp_mechanism::{Run, Trainer};
use dp_personalize::{
    AltMin, AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, Initialisation, ResidualAltMin,
    ResidualAltMinParams, RowSplit, Subspace, UserBatches,
};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Methods to learn a subspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `ResidualAltMin`: whitening, projector sum, residual steps; squared loss.
    Residual,
    /// The projector sum alone: squared loss, directions only.
    Projectors,
    /// Projector sum, then clipped gradient steps on the loss of the task.
    Gradient,
    /// Algorithms 1 to 3 of Jain et al. 2021 with the settings of section 6: squared loss.
    Alternating,
}

/// Public settings of a method before validation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MethodSettings {
    /// The method.
    pub method: Method,
    /// Dimension of the subspace.
    pub rank: usize,
    /// Number of steps after the first release; the default depends on the method.
    pub steps: Option<usize>,
    /// The loss of users' personal models.
    pub loss: ConvexLoss,
    /// Bound on a user's mean gradient, for `gradient` only.
    pub gradient_clip: f64,
    /// The step size, for `gradient` only.
    pub learning_rate: f64,
    /// Ridge of users' personal models during gradient steps.
    pub l2_penalty: f64,
}

/// A method with validated settings.
#[derive(Debug)]
pub enum Fit {
    /// Residual steps.
    Residual(ResidualAltMin),
    /// All others.
    AltMin(Box<AltMin>),
}

impl MethodSettings {
    /// Defaults for a method.
    pub const fn new(method: Method, rank: usize, loss: ConvexLoss) -> Self {
        Self {
            method,
            rank,
            steps: None,
            loss,
            gradient_clip: 1.0,
            learning_rate: 1.0,
            l2_penalty: 0.1,
        }
    }

    /// The number of steps.
    pub fn n_steps(&self) -> usize {
        match self.method {
            Method::Residual => self.steps.unwrap_or(4),
            Method::Projectors => 0,
            Method::Gradient => self.steps.unwrap_or(3),
            Method::Alternating => self.steps.unwrap_or(1),
        }
    }

    /// The method with validated settings.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub fn check(self) -> Result<Fit> {
        if self.method == Method::Residual {
            let params = ResidualAltMinParams {
                n_steps: self.n_steps(),
                ..ResidualAltMinParams::new(self.rank)
            };
            return Ok(Fit::Residual(params.check()?));
        }
        let n_rounds = self.n_steps();
        if self.method == Method::Alternating {
            let params = AltMinParams {
                n_rounds,
                ..AltMinParams::section_6(self.rank).isometric()
            };
            return Ok(Fit::AltMin(Box::new(params.check()?)));
        }
        let gradient = DpGdEmbedding {
            loss: self.loss,
            gradient_clip: self.gradient_clip,
            learning_rate: self.learning_rate,
            l2_penalty: self.l2_penalty,
        };
        let params = AltMinParams {
            rank: self.rank,
            init: Initialisation::Projectors,
            init_share: 0.5,
            embedding: Embedding::Gd(gradient),
            n_rounds,
            batches: UserBatches::All,
            rows: RowSplit::Shared,
        };
        Ok(Fit::AltMin(Box::new(params.check()?)))
    }
}

impl Fit {
    /// Checks that users with at most `max_rows` rows have enough of them for the method.
    ///
    /// # Errors
    /// When they have too few.
    pub fn check_rows(&self, max_rows: usize) -> Result<()> {
        match self {
            Self::Residual(_) => Ok(()),
            Self::AltMin(fit) => Ok(fit.check_rows(max_rows)?),
        }
    }
}

/// Delegates to the method.
impl Trainer for Fit {
    type Data = UserSamples;
    type Model = Subspace;
    type Error = dp_personalize::Error;

    fn width(&self, samples: &UserSamples) -> usize {
        match self {
            Self::Residual(fit) => fit.width(samples),
            Self::AltMin(fit) => fit.width(samples),
        }
    }

    fn requests(&self, width: usize, adjacency: Adjacency) -> dp_personalize::Result<Requests> {
        match self {
            Self::Residual(fit) => fit.requests(width, adjacency),
            Self::AltMin(fit) => fit.requests(width, adjacency),
        }
    }

    fn n_accounts(&self) -> usize {
        match self {
            Self::Residual(fit) => fit.n_accounts(),
            Self::AltMin(fit) => fit.n_accounts(),
        }
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        match self {
            Self::Residual(fit) => fit.describe(certificate),
            Self::AltMin(fit) => fit.describe(certificate),
        }
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> dp_personalize::Result<Subspace> {
        match self {
            Self::Residual(fit) => fit.train(samples, run),
            Self::AltMin(fit) => fit.train(samples, run),
        }
    }
}
