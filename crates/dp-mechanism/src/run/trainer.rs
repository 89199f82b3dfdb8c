//! The interface of a training algorithm, and what follows from it for all of them.

use dp_accounting::{Certificate, CertificateBuilder, Plan, Requests, Spend};
use dp_core::{Adjacency, ApproxDp};

use super::Run;
use crate::{Error, Grid, NoiseSource, Result};

/// A training algorithm with validated settings.
///
/// A trainer declares what it will release and how a model follows from the releases. Planning,
/// charging, resuming, workers, audits and the certificate are the same for all trainers and are
/// provided here and by [`Run`].
///
/// # Privacy
/// [`train`](Self::train) receives private data, which it may pass to the methods of its [`Run`]
/// and use for nothing else: everything else it does must follow from the settings, the public
/// shape of the data and what the run has released. Then a run is a function of its list of
/// releases. A coordinator without users, a replay without data and a worker with some of the users
/// arrive at the same model, and the tests of this workspace check this for every trainer.
pub trait Trainer {
    /// The users' data.
    type Data: ?Sized;
    /// The model that follows from the releases. Public.
    type Model;
    /// Errors of the trainer's crate.
    type Error: From<Error>;

    /// The public number that determines the size of the releases for a table: items, features or
    /// shared parameters.
    fn width(&self, data: &Self::Data) -> usize;

    /// What a run over data of this width will release.
    ///
    /// # Errors
    /// If there is no plan of this width, or the algorithm has no guarantee under this adjacency.
    fn requests(&self, width: usize, adjacency: Adjacency) -> Result<Requests, Self::Error>;

    /// Number of accounts to charge: more than one if disjoint batches of users each have an
    /// account.
    fn n_accounts(&self) -> usize {
        1
    }

    /// Completes the certificate: what is released to whom, assumptions, and what is not covered.
    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder;

    /// Makes the releases and the model that follows from them.
    ///
    /// # Errors
    /// Those of the releases, and of data whose public shape does not fit the settings.
    fn train(&self, data: &Self::Data, run: &mut Run<'_>) -> Result<Self::Model, Self::Error>;

    /// The plan of a run over data of this width: the smallest noise that meets `target`. Every
    /// grid is tried once, so that nothing is charged that could not be released.
    ///
    /// # Errors
    /// The errors of [`requests`](Self::requests); [`Error::Accounting`] if the target cannot be
    /// met; [`Error::Param`] if a release would get so small a share that its noise does not fit a
    /// grid.
    fn plan(
        &self,
        width: usize,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<Plan, Self::Error> {
        Ok(plan_for(
            &self.requests(width, adjacency)?,
            target,
            adjacency,
        )?)
    }

    /// Trains with spends that were reserved before, for each account in turn.
    ///
    /// # Errors
    /// [`Error::Plan`] or [`Error::Spends`] if data, plan and spends do not match, before any data
    /// is touched; the errors of [`train`](Self::train). Spends are consumed in either case.
    fn fit(
        &self,
        data: &Self::Data,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<Fitted<Self::Model>, Self::Error> {
        self.run(data, Run::new(plan, spends, noise)?)
    }

    /// Trains along `run`: resumed, observed, with workers or as a worker, or replayed.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), and [`Error::EndOfList`] if the run ends before the model is
    /// complete.
    fn run(&self, data: &Self::Data, mut run: Run<'_>) -> Result<Fitted<Self::Model>, Self::Error> {
        let requests = self.requests(self.width(data), run.plan().adjacency())?;
        run.begin(&requests, self.n_accounts())?;
        let model = self.train(data, &mut run)?;
        Ok(run.finish(model, |builder| self.describe(builder))?)
    }
}

/// The plan for `requests` with the smallest noise that meets `target`, like [`Trainer::plan`] but
/// without a trainer's settings for the grids.
///
/// # Errors
/// [`Error::Accounting`] if the target cannot be met; [`Error::Param`] if a release would get so
/// small a share that its noise does not fit a grid.
pub fn plan_for(requests: &Requests, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
    let plan = requests.calibrate(target, adjacency)?;
    try_grids(&plan, &[1.0])?;
    Ok(plan)
}

/// Tries the grid of every Gaussian release of `plan` with each of these bounds on a user's norm,
/// so that nothing is charged that could not be released.
///
/// # Errors
/// [`Error::Param`] for the first one that does not fit a grid.
pub fn try_grids(plan: &Plan, clip_norms: &[f64]) -> crate::Result<()> {
    for release in plan.releases() {
        if let Some(noise_multiplier) = super::noise_multiplier(release.event()) {
            for &clip_norm in clip_norms {
                Grid::new(noise_multiplier, clip_norm)?;
            }
        }
    }
    Ok(())
}

/// A released model with the certificate of the run that made it.
#[derive(Debug, Clone)]
pub struct Fitted<M> {
    /// The released model.
    pub model: M,
    /// What was released, under which guarantee.
    pub certificate: Certificate,
    /// Whether the guarantee holds.
    pub provenance: Provenance,
    /// Number of releases made: entries of the list.
    pub n_releases: usize,
    /// The hash that identifies the list of releases.
    pub releases_hash: String,
}

impl<M> Fitted<M> {
    /// The same run with its model converted by `make`.
    pub fn map<N>(self, make: impl FnOnce(M) -> N) -> Fitted<N> {
        Fitted {
            model: make(self.model),
            certificate: self.certificate,
            provenance: self.provenance,
            n_releases: self.n_releases,
            releases_hash: self.releases_hash,
        }
    }
}

/// How a model was created, which determines who may see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Released under the guarantee of its certificate.
    Private,
    /// Released with seeded noise: no guarantee.
    SeededNoise,
    /// Computed without noise, or supplied by the caller: for those who may see the data.
    NonPrivate,
    /// Nothing was released: all zeros.
    NotTrained,
}

impl Provenance {
    /// The provenance of a release, depending on whether its noise was repeatable.
    #[must_use]
    pub const fn of(insecure: bool) -> Self {
        if insecure {
            Self::SeededNoise
        } else {
            Self::Private
        }
    }
}
