//! What a training algorithm has to say, and what follows from it for all of them.

use dp_accounting::{Certificate, CertificateBuilder, Plan, Requests, Spend};
use dp_core::{Adjacency, ApproxDp};

use super::Run;
use crate::{Error, Grid, NoiseSource, Result};

/// A training algorithm with its settings, checked.
///
/// A trainer says what it will release and how a model follows from the releases. Planning, payment, resuming, workers,
/// audits and the certificate are the same for all trainers and come from here and from [`Run`].
///
/// # Privacy
/// [`train`](Self::train) is handed private data, which it may pass to the methods of its [`Run`] and use for nothing else: everything
/// it does beside must follow from the settings, the public shape of the data and what the run has released. Then a run is a function
/// of its list of releases. A coordinator without users, a replay without data and a worker with some of the
/// users arrive at the same model, and the tests of this workspace hold every trainer to that.
pub trait Trainer {
    /// The users' data.
    type Data: ?Sized;
    /// What the releases make: public.
    type Model;
    /// Errors of the trainer's crate.
    type Error: From<Error>;

    /// The public number that decides how large the releases over a table are: items, features or shared parameters.
    fn width(&self, data: &Self::Data) -> usize;

    /// What a run over data of this width will release.
    ///
    /// # Errors
    /// When there is no plan of this width, or the algorithm has no guarantee for these neighbours.
    fn requests(&self, width: usize, adjacency: Adjacency) -> Result<Requests, Self::Error>;

    /// Accounts that pay: more than one where disjoint batches of users have an account each.
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

    /// The plan of a run over data of this width: the least noise that meets `target`. Every grid is tried once, so that nothing is
    /// paid for that could not be released.
    ///
    /// # Errors
    /// Those of [`requests`](Self::requests); [`Error::Accounting`] when the target cannot be met; [`Error::Param`] when a release would
    /// get so small a share that its noise does not fit a grid.
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

    /// Trains with spends that were reserved before, once for each account in turn.
    ///
    /// # Errors
    /// [`Error::Plan`] or [`Error::Spends`] when data, plan and spends do not belong together, before any data is touched;
    /// those of [`train`](Self::train). Spends are consumed either way.
    fn fit(
        &self,
        data: &Self::Data,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<Fitted<Self::Model>, Self::Error> {
        self.run(data, Run::new(plan, spends, noise)?)
    }

    /// Trains along `run`: resumed, observed, with workers or as one, or replayed.
    ///
    /// # Errors
    /// As [`fit`](Self::fit), and [`Error::EndOfList`] when the run ends before the model is made.
    fn run(&self, data: &Self::Data, mut run: Run<'_>) -> Result<Fitted<Self::Model>, Self::Error> {
        let requests = self.requests(self.width(data), run.plan().adjacency())?;
        run.begin(&requests, self.n_accounts())?;
        let model = self.train(data, &mut run)?;
        Ok(run.finish(model, |builder| self.describe(builder))?)
    }
}

/// The plan for `requests` with the least noise that meets `target`: [`Trainer::plan`] where the settings are there and what is trained is not.
///
/// # Errors
/// [`Error::Accounting`] when the target cannot be met; [`Error::Param`] when a release would get so small a share that its noise
/// does not fit a grid.
pub fn plan_for(requests: &Requests, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
    let plan = requests.calibrate(target, adjacency)?;
    try_grids(&plan, &[1.0])?;
    Ok(plan)
}

/// Tries the grid of every Gaussian release of `plan` with each of these bounds on a user's norm, so that nothing is paid for that
/// could not be released.
///
/// # Errors
/// [`Error::Param`] for the first that does not fit a grid.
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
    /// Releases made: entries of the list.
    pub n_releases: usize,
    /// The hash that stands for the list of releases.
    pub releases_hash: String,
}

impl<M> Fitted<M> {
    /// The same run with what is made of its model.
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

/// How a model came about, and with it who may see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Released under the guarantee of its certificate.
    Private,
    /// Released with seeded noise: no guarantee.
    SeededNoise,
    /// Computed without noise, or given from outside: for those who may see the data.
    NonPrivate,
    /// Nothing was released: all zeros.
    NotTrained,
}

impl Provenance {
    /// Of a release whose noise was repeatable, or was not.
    #[must_use]
    pub const fn of(insecure: bool) -> Self {
        if insecure {
            Self::SeededNoise
        } else {
            Self::Private
        }
    }
}
