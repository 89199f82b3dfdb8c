//! Algorithm 1 with its plan and its payment.

use dp_accounting::{Certificate, Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, UserSamples, params};
use dp_mechanism::{NoiseSource, Watch, WatchedNoise};

use super::{AltMinParams, Embedding, Initialisation, StepUsers, UserBatches};
use crate::embedding::DpGdEmbedding;
use crate::init::{ProjectorSum, SamplePairs};
use crate::paid::{Paid, plan_of};
use crate::{Provenance, Result, RoundEnd, RoundWatch, Subspace};

/// A released subspace with the certificate of the run that made it.
#[derive(Debug, Clone)]
pub struct FittedSubspace {
    /// The released subspace. Users fit their own models in it with [`LocalFit`](crate::LocalFit).
    pub model: Subspace,
    /// What was released, under which guarantee.
    pub certificate: Certificate,
}

/// Private alternating minimisation: a first release, then `T` steps in which every user fits the own model
/// in the current subspace and the subspace is fitted to the models under noise.
///
/// Source: Jain et al. 2021, Algorithm 1, corrected (`docs/errata.md`).
///
/// # Privacy
/// Released to everybody: the subspace (and with it all that led to it). Unit: the user with all rows. Every release is a bounded sum over users, whose sensitivity
/// stands with its contribution: [`SamplePairs`](crate::SamplePairs) or
/// [`ProjectorSum`](crate::ProjectorSum), [`SspMatrix`](crate::SspMatrix) and [`SspRhs`](crate::SspRhs) or [`SubspaceGradients`](crate::SubspaceGradients). Everything between releases is
/// post-processing; personal models are made inside the contributions and never leave them.
///
/// With [`UserBatches::All`] the plan lists all releases, which add up. With [`UserBatches::Disjoint`] it lists what *one* user pays: the first release and one step.
/// A user's batch follows from the user's own rows, so adding or removing a user changes one batch, and replacing
/// one changes at most two, each by one share: `D^2 + D^2`, less than the `(2 D)^2` that the plan counts.
/// Every batch then has an account: give [`fit`](Self::fit) the reservations of `T` ledgers, one after the other.
///
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_data::SharedSubspace;
/// use dp_mechanism::NoiseSource;
/// use dp_personalize::{AltMinParams, UserBatches};
/// use rand::SeedableRng;
///
/// let set_up = SharedSubspace { n_users: 300, dim: 6, ..SharedSubspace::section_6() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let (target, adjacency) = (ApproxDp::target(5.0, 1e-6)?, Adjacency::AddRemoveUser);
/// let settings = AltMinParams { batches: UserBatches::Disjoint, n_rounds: 2, ..AltMinParams::section_6(2) };
/// let alt_min = settings.check()?;
/// let plan = alt_min.plan(6, target, adjacency)?;
/// let mut spends = Vec::new();
/// for batch in 1..=alt_min.n_accounts() {
///     let budget = Budget::new(target, adjacency)?;
///     spends.extend(Ledger::in_memory(&format!("made data, batch {batch}"), budget)?.reserve(&plan)?);
/// }
/// let fitted = alt_min.fit(&data.samples, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert!(fitted.certificate.verify()?.is_private());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AltMin {
    params: AltMinParams,
}

/// What the certificates of this crate name as released.
pub(crate) const OUTPUT: &str = "basis of the shared subspace, settings";
const GIVEN: &str =
    "the start given in the settings is public, or was released and paid for elsewhere";

impl AltMin {
    pub(super) const fn new(params: AltMinParams) -> Self {
        Self { params }
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &AltMinParams {
        &self.params
    }

    /// Accounts that pay: one, or one for each disjoint batch.
    #[must_use]
    pub fn n_accounts(&self) -> usize {
        match self.params.batches {
            UserBatches::All => 1,
            UserBatches::Disjoint => self.params.n_rounds.max(1),
        }
    }

    /// What one account pays for, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `dim` is at least the rank and `dim * rank` at most 1024;
    /// [`crate::Error::Accounting`] when the target cannot be met.
    pub fn plan(&self, dim: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        self.check_dim(dim)?;
        plan_of(&self.requests(dim), target, adjacency)
    }

    fn check_dim(&self, dim: usize) -> Result<()> {
        let rank = self.params.rank;
        let most = 1024 / rank;
        let (most, expected) = match self.params.init {
            Initialisation::Projectors => (most.min(256), "from rank to 1024 / rank, at most 256"),
            _ => (most, "from rank to 1024 / rank"),
        };
        params::in_range("dim", dim, rank, most, expected)?;
        Ok(())
    }

    /// Checks that users with at most `max_rows` rows have enough for every computation: a pair for Algorithm 3, a row for the
    /// others. [`fit`](Self::fit) checks it again; ask before the spends are reserved.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming `max_rows`.
    ///
    /// # Examples
    /// ```
    /// let fit = dp_personalize::AltMinParams::section_6(2).check()?;
    /// assert!(fit.check_rows(1).is_err() && fit.check_rows(2).is_ok());
    /// # Ok::<(), dp_personalize::Error>(())
    /// ```
    pub fn check_rows(&self, max_rows: usize) -> Result<()> {
        let rows = self.params.rows;
        let pair = match self.params.init {
            Initialisation::Pairs { .. } => 2,
            _ => 0,
        };
        let enough = rows.init().most(max_rows) >= pair
            && rows.models().most(max_rows) >= 1
            && rows.embedding().most(max_rows) >= 1;
        if enough {
            return Ok(());
        }
        let expected = "2 rows or more, 6 or more in quarters";
        params::in_range("max_rows", max_rows, usize::MAX, usize::MAX, expected)?;
        Ok(())
    }

    fn requests(&self, dim: usize) -> Vec<ReleaseRequest> {
        let params = &self.params;
        let n_steps = match params.batches {
            UserBatches::All => params.n_rounds,
            UserBatches::Disjoint => params.n_rounds.min(1),
        };
        let share = params.init_share;
        let (mut requests, rest) = match &params.init {
            Initialisation::Pairs { .. } => (vec![SamplePairs::request(dim, share)], 1.0 - share),
            Initialisation::Projectors => {
                (ProjectorSum::requests(dim, share).to_vec(), 1.0 - share)
            }
            Initialisation::Given(_) => (Vec::new(), 1.0),
        };
        for step in 1..=n_steps {
            let label = match params.batches {
                UserBatches::All => format!("step {step}"),
                UserBatches::Disjoint => "step of the own batch".to_owned(),
            };
            let (rank, share) = (params.rank, rest / n_steps as f64);
            match &params.embedding {
                Embedding::Ssp(ssp) => requests.extend(ssp.requests(dim, rank, &label, share)),
                Embedding::Gd(_) => {
                    requests.push(DpGdEmbedding::request(dim, rank, &label, share));
                }
            }
        }
        requests
    }

    /// Estimates the subspace, consuming exactly the spends of `plan`, once for each account.
    ///
    /// # Errors
    /// [`crate::Error::Param`], [`crate::Error::Shape`] or [`crate::Error::Spends`] when samples, plan and spends do not belong
    /// together, before any data is touched; [`crate::Error::Mechanism`] when a release is refused or entropy
    /// fails. Spends are consumed either way.
    pub fn fit(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedSubspace> {
        let out = WatchedNoise {
            noise,
            watch: &mut |_| {},
        };
        self.run(samples, plan, spends, out, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` with what users added to it: for audits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedSubspace> {
        let out = WatchedNoise { noise, watch };
        self.run(samples, plan, spends, out, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing the first subspace and that after each round to `watch`: for measurements, and for keeping
    /// what was released.
    ///
    /// # Privacy
    /// As [`fit`](Self::fit): `watch` sees what follows from releases, which are covered by the guarantee. What it makes of
    /// that and of private data is not.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_rounds_watched(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut RoundWatch<'_>,
    ) -> Result<FittedSubspace> {
        let out = WatchedNoise {
            noise,
            watch: &mut |_| {},
        };
        self.run(samples, plan, spends, out, watch)
    }

    fn run(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        mut out: WatchedNoise<'_>,
        watch: &mut RoundWatch<'_>,
    ) -> Result<FittedSubspace> {
        let out = &mut out;
        let dim = samples.n_features();
        self.check_dim(dim)?;
        self.check_rows(samples.max_rows())?;
        let mut paid = Paid::new(plan, &self.requests(dim), spends, self.n_accounts())?;
        let (mut insecure, mut assumptions) = (out.is_insecure(), Vec::new());
        if let Initialisation::Given(start) = &self.params.init {
            // a start without privacy stays without, however little the steps change
            insecure |= start.provenance() == Provenance::SeededNoise;
            assumptions.push(GIVEN.to_owned());
        }
        let provenance = Provenance::of(insecure);
        let mut model = self.start(samples, &mut paid, out)?;
        let mut show = |round, model: &_| watch(RoundEnd { round, model });
        show(0, &model);
        for step in 0..self.params.n_rounds {
            let next = self.step(step, &model, samples, &mut paid, out)?;
            model = next.with_provenance(provenance);
            show(step + 1, &model);
        }
        Ok(FittedSubspace {
            model: model.with_provenance(provenance),
            certificate: paid.certificate(OUTPUT, &assumptions, insecure)?,
        })
    }

    fn step(
        &self,
        step: usize,
        subspace: &Subspace,
        samples: &UserSamples,
        paid: &mut Paid<'_>,
        out: &mut WatchedNoise<'_>,
    ) -> Result<Subspace> {
        let (rows, n) = (self.params.rows, self.params.n_rounds);
        let (batch, account) = match self.params.batches {
            UserBatches::All => (None, 0),
            UserBatches::Disjoint => (Some((step, n)), step),
        };
        let users = StepUsers {
            batch,
            model_rows: rows.models(),
            embedding_rows: rows.embedding(),
        };
        match &self.params.embedding {
            Embedding::Ssp(ssp) => {
                let spends = [paid.next_of(account)?, paid.next_of(account)?];
                ssp.step(subspace, samples, users, spends, out)
            }
            Embedding::Gd(gd) => gd.step(subspace, samples, users, paid.next_of(account)?, out),
        }
    }
}
