//! How the shared subspace is learned.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, ParamError, UserSamples, params};
use dp_mechanism::{Run, Trainer};
use dp_personalize::{
    AltMin, AltMinParams, ConvexLoss, DpGdEmbedding, Embedding, Initialisation, LevelSums,
    PriorVotes, ResidualAltMin, ResidualAltMinParams, RowSplit, Subspace, UserBatches, WeighedFit,
};
use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
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
    /// What is released for the prior of users' own fits, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<PriorShares>,
}

/// Shares of the budget for the prior of users' own fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorShares {
    /// For the mean of [users' levels](LevelSums), if levels are the users' own and have a public range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
    /// For [users' votes](PriorVotes).
    pub votes: f64,
}

impl Default for PriorShares {
    /// A twentieth for each.
    fn default() -> Self {
        Self {
            level: Some(0.05),
            votes: 0.05,
        }
    }
}

/// A method with validated settings, and what is released before it.
#[derive(Debug)]
pub struct Fit {
    /// How the subspace is learned.
    pub subspace: SubspaceFit,
    /// What is released for the prior of users' own fits, and these fits.
    prior: Option<(PriorShares, WeighedFit)>,
    /// Whether features are between -1 and 1.
    is_bounded: bool,
}

/// How the subspace is learned.
#[derive(Debug)]
pub enum SubspaceFit {
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
            prior: None,
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

    /// The method with validated settings, for users who fit their models as these inputs say.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub fn check(self, inputs: &Inputs) -> Result<Fit> {
        let prior = match self.prior {
            Some(shares) => {
                let level = shares.level.into_iter();
                let level = level.map(|share| params::open_unit("share of the levels", share));
                let level: f64 = level.sum::<Result<_, _>>()?;
                params::open_unit("share of the votes", shares.votes)?;
                params::open_unit("shares of the prior", shares.votes + level)?;
                Some((shares, inputs.weighed_fit()?))
            }
            None => None,
        };
        Ok(Fit {
            subspace: self.subspace()?,
            prior,
            is_bounded: inputs.has_ranges(),
        })
    }

    fn subspace(self) -> Result<SubspaceFit> {
        if self.method == Method::Residual {
            let params = ResidualAltMinParams {
                n_steps: self.n_steps(),
                ..ResidualAltMinParams::new(self.rank)
            };
            return Ok(SubspaceFit::Residual(params.check()?));
        }
        let n_rounds = self.n_steps();
        if self.method == Method::Alternating {
            let params = AltMinParams {
                n_rounds,
                ..AltMinParams::section_6(self.rank).isometric()
            };
            return Ok(SubspaceFit::AltMin(Box::new(params.check()?)));
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
        Ok(SubspaceFit::AltMin(Box::new(params.check()?)))
    }
}

impl Fit {
    /// Checks that users with at most `max_rows` rows have enough of them for the method.
    ///
    /// # Errors
    /// When they have too few.
    pub fn check_rows(&self, max_rows: usize) -> Result<()> {
        match &self.subspace {
            SubspaceFit::Residual(_) => Ok(()),
            SubspaceFit::AltMin(fit) => Ok(fit.check_rows(max_rows)?),
        }
    }
}

impl Fit {
    fn rank(&self) -> usize {
        match &self.subspace {
            SubspaceFit::Residual(fit) => fit.params().rank,
            SubspaceFit::AltMin(fit) => fit.params().rank,
        }
    }
}

fn without_prior() -> ParamError {
    ParamError {
        name: "prior",
        value: 1.0,
        expected: "none, for a method with several accounts or without shares of a budget",
    }
}

/// The mean of users' levels if it is released, the method, and users' votes if there are any.
impl Trainer for Fit {
    type Data = UserSamples;
    type Model = Subspace;
    type Error = dp_personalize::Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, width: usize, adjacency: Adjacency) -> dp_personalize::Result<Requests> {
        let of_method = match &self.subspace {
            SubspaceFit::Residual(fit) => fit.requests(width, adjacency),
            SubspaceFit::AltMin(fit) => fit.requests(width, adjacency),
        }?;
        if self.prior.is_some() && self.n_accounts() > 1 {
            return Err(without_prior().into()); // all users vote, whatever their account
        }
        Ok(match (&self.prior, of_method) {
            (Some((shares, _)), Requests::Shares(others)) => {
                let total: f64 = others.iter().map(|of| of.budget_share).sum();
                let rest = 1.0 - shares.votes - shares.level.unwrap_or(0.0);
                let others = others.into_iter().map(|of| ReleaseRequest {
                    budget_share: of.budget_share * rest / total,
                    ..of
                });
                let level = shares.level.map(LevelSums::request);
                let votes = [PriorVotes::request((width, self.rank()), shares.votes)];
                Requests::Shares(level.into_iter().chain(others).chain(votes).collect())
            }
            (None, others) => others,
            (Some(_), _) => return Err(without_prior().into()),
        })
    }

    fn n_accounts(&self) -> usize {
        match &self.subspace {
            SubspaceFit::Residual(fit) => fit.n_accounts(),
            SubspaceFit::AltMin(fit) => fit.n_accounts(),
        }
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = match &self.subspace {
            SubspaceFit::Residual(fit) => fit.describe(certificate),
            SubspaceFit::AltMin(fit) => fit.describe(certificate),
        };
        match self.prior {
            Some(_) => certificate.released_output(
                "prior of personal fits: noisy sums of users' votes on it; where users' levels lie: noisy number of users, and \
                 noisy sums of the means and standard deviations of their labels",
                "anyone",
            ),
            None => certificate,
        }
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> dp_personalize::Result<Subspace> {
        let levels = match self.prior {
            Some((PriorShares { level: Some(_), .. }, _)) => LevelSums::release(samples, run)?,
            _ => None,
        };
        let subspace = match &self.subspace {
            SubspaceFit::Residual(fit) => fit.train(samples, run),
            SubspaceFit::AltMin(fit) => fit.train(samples, run),
        }?;
        let Some((_, fit)) = self.prior else {
            return Ok(subspace);
        };
        let votes = PriorVotes {
            fit,
            subspace: &subspace,
            levels,
            is_bounded: self.is_bounded,
        };
        let prior = votes.release(samples, run)?;
        Ok(subspace.with_user_prior(Some(prior)))
    }
}
