//! Algorithm 1: private alternating minimisation.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, UserSamples, params};
use dp_mechanism::{Provenance, Run, Trainer};

use crate::embedding::{DpGdEmbedding, RowUse, SspEmbedding, StepUsers, SymmetricNoise};
use crate::init::{ProjectorSum, SamplePairs};
use crate::subspace::describe;
use crate::{Error, Result, Subspace};

/// Private alternating minimisation: a first release, then `T` steps. In each step every user fits
/// a personal model in the current subspace, and the server fits the subspace to these models with
/// noise.
///
/// Source: Jain et al. 2021, Algorithm 1, corrected (`docs/errata.md`).
///
/// # Privacy
/// Released to everybody: the subspace (and with it everything that led to it). Unit: the user with
/// all rows. Every release is a bounded sum over users, whose sensitivity is derived at its
/// contribution: [`SamplePairs`](crate::SamplePairs) or [`ProjectorSum`](crate::ProjectorSum),
/// [`SspMatrix`](crate::SspMatrix) and [`SspRhs`](crate::SspRhs) or
/// [`SubspaceGradients`](crate::SubspaceGradients). Everything between releases is post-processing;
/// personal models are computed inside the contributions and never leave them.
///
/// With [`UserBatches::All`] the plan lists all releases, which add up. With
/// [`UserBatches::Disjoint`] it lists what *one* user pays: the first release and one step. A
/// user's batch follows from the user's own rows, so adding or removing a user changes one batch,
/// and replacing one changes at most two, each by one contribution: `D^2 + D^2`, less than the
/// `(2 D)^2` that the plan counts. Every batch then has a separate account
/// ([`n_accounts`](Trainer::n_accounts)): [`fit`](Trainer::fit) takes the reservations of `T`
/// ledgers, one after the other.
///
/// # Errors
/// [`plan`](Trainer::plan): [`crate::Error::Param`] unless `dim` is at least the rank and
/// `dim * rank` at most 1024. [`train`](Trainer::train): errors of
/// [`check_rows`](Self::check_rows); [`crate::Error::Shape`] when a given start has another
/// dimension.
///
/// # Examples
/// ```
/// use dp_data::SharedSubspace;
/// use dp_personalize::{Adjacency, AltMinParams, ApproxDp, Budget, Ledger, NoiseSource, Trainer, UserBatches};
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

impl AltMin {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &AltMinParams {
        &self.params
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

    /// Checks that users with at most `max_rows` rows have enough for every computation: a pair for
    /// Algorithm 3, a row for the others. [`train`](Trainer::train) checks this again; call this
    /// method before the spends are reserved.
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

    fn release_requests(&self, dim: usize) -> Vec<ReleaseRequest> {
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

    /// The subspace from which the first step starts.
    fn start(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<Subspace> {
        let (dim, rank) = (samples.n_features(), self.params.rank);
        match &self.params.init {
            &Initialisation::Pairs {
                label_bound,
                symmetric_noise,
            } => {
                let pairs = SamplePairs {
                    n_features: dim,
                    max_rows: samples.max_rows(),
                    label_bound,
                    symmetric_noise,
                    rows: self.params.rows.init(),
                };
                pairs.release(samples, rank, run)
            }
            Initialisation::Projectors => ProjectorSum::new(dim).release(samples, rank, run),
            Initialisation::Given(start) => {
                params::same_size("features", dim, start.dim())?;
                // if the start is not private, neither is the result, however little the steps
                // change
                run.taint(start.provenance() == Provenance::SeededNoise);
                Ok(start.clone())
            }
        }
    }

    fn step(
        &self,
        step: usize,
        subspace: &Subspace,
        samples: &UserSamples,
        run: &mut Run<'_>,
    ) -> Result<Subspace> {
        let (rows, n) = (self.params.rows, self.params.n_rounds);
        let (batch, account) = match self.params.batches {
            UserBatches::All => (None, None),
            UserBatches::Disjoint => (Some((step, n)), Some(step)),
        };
        let users = StepUsers {
            batch,
            model_rows: rows.models(),
            embedding_rows: rows.embedding(),
        };
        run.charge(account);
        match &self.params.embedding {
            Embedding::Ssp(ssp) => ssp.step(subspace, samples, users, run),
            Embedding::Gd(gd) => gd.step(subspace, samples, users, run),
        }
    }
}

impl Trainer for AltMin {
    type Data = UserSamples;
    type Model = Subspace;
    type Error = Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, dim: usize, _: Adjacency) -> Result<Requests> {
        self.check_dim(dim)?;
        Ok(Requests::Shares(self.release_requests(dim)))
    }

    fn n_accounts(&self) -> usize {
        match self.params.batches {
            UserBatches::All => 1,
            UserBatches::Disjoint => self.params.n_rounds.max(1),
        }
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = describe(certificate, "basis of the shared subspace, settings");
        match self.params.init {
            Initialisation::Given(_) => certificate.assumption(
                "the start given in the settings is public, or was released and paid for elsewhere",
            ),
            _ => certificate,
        }
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<Subspace> {
        self.check_rows(samples.max_rows())?;
        let mut subspace = self.start(samples, run)?;
        subspace.show(0, run);
        for step in 0..self.params.n_rounds {
            subspace = self.step(step, &subspace, samples, run)?;
            subspace.show(step + 1, run);
        }
        Ok(subspace.with_provenance(run.provenance()))
    }
}

/// The initial subspace of alternating minimisation.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum Initialisation {
    /// Algorithm 3, [`SamplePairs`](crate::SamplePairs), with labels clipped to `label_bound`.
    Pairs {
        /// Bound `zeta` on a label.
        label_bound: f64,
        /// Coordinates of the release.
        symmetric_noise: SymmetricNoise,
    },
    /// [`ProjectorSum`](crate::ProjectorSum), on all rows.
    Projectors,
    /// A public subspace: nothing is spent.
    Given(Subspace),
}

/// The private step.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Embedding {
    /// Algorithm 2, for the squared loss.
    Ssp(SspEmbedding),
    /// A gradient step, for convex losses.
    Gd(DpGdEmbedding),
}

/// Which users a step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserBatches {
    /// Every step reads all users: steps add up.
    All,
    /// Every step reads a separate batch. Users are assigned to batches by a hash of their own
    /// rows, so adding or removing a user does not change anyone else's batch, and a user pays for
    /// the first release and one step.
    Disjoint,
}

/// Which rows a step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowSplit {
    /// All rows for all computations.
    Shared,
    /// Quarters, as in the proofs: personal models, embedding, first release; the last quarter is
    /// used only for the user's final fit.
    Quarters,
}

/// Settings of [`AltMin`] before validation. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AltMinParams {
    /// Dimension of the subspace `k`.
    pub rank: usize,
    /// The initial subspace.
    pub init: Initialisation,
    /// Share of a user's budget for the first release, strictly between 0 and 1; not used for a
    /// given start.
    pub init_share: f64,
    /// The private step.
    pub embedding: Embedding,
    /// Number of steps `T`, 0 for the first release alone.
    pub n_rounds: usize,
    /// The users read by a step.
    pub batches: UserBatches,
    /// The rows read by a step.
    pub rows: RowSplit,
}

impl AltMinParams {
    /// The experiment of section 6 of the paper: Algorithm 3, then one step of Algorithm 2 on all
    /// users and rows, with all labels and designs clipped to 1e-4.
    ///
    /// # Examples
    /// ```
    /// let fit = dp_personalize::AltMinParams::section_6(2).check()?;
    /// assert_eq!(fit.params().n_rounds, 1);
    /// # Ok::<(), dp_personalize::Error>(())
    /// ```
    #[must_use]
    pub const fn section_6(rank: usize) -> Self {
        let embedding = SspEmbedding::section_6();
        Self {
            rank,
            init: Initialisation::Pairs {
                label_bound: embedding.label_clip,
                symmetric_noise: embedding.symmetric_noise,
            },
            init_share: 0.3,
            embedding: Embedding::Ssp(embedding),
            n_rounds: 1,
            batches: UserBatches::All,
            rows: RowSplit::Shared,
        }
    }

    /// The same with all symmetric matrices released in isometric coordinates.
    #[must_use]
    pub const fn isometric(mut self) -> Self {
        if let Initialisation::Pairs {
            symmetric_noise, ..
        } = &mut self.init
        {
            *symmetric_noise = SymmetricNoise::Isometric;
        }
        if let Embedding::Ssp(ssp) = &mut self.embedding {
            ssp.symmetric_noise = SymmetricNoise::Isometric;
        }
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range, or if there is neither a
    /// first release nor a step.
    pub fn check(self) -> Result<AltMin> {
        params::in_range("rank", self.rank, 1, 1024, "a whole number from 1 to 1024")?;
        params::open_unit("init_share", self.init_share)?;
        params::in_range(
            "n_rounds",
            self.n_rounds,
            0,
            1000,
            "a whole number up to 1000",
        )?;
        match &self.init {
            Initialisation::Pairs { label_bound, .. } => {
                params::finite_positive("label_bound", *label_bound)?;
            }
            Initialisation::Projectors => (),
            Initialisation::Given(start) => {
                params::same_size("rank of the start", start.rank(), self.rank)?;
                params::at_least_one("n_rounds", self.n_rounds)?;
            }
        }
        match &self.embedding {
            Embedding::Ssp(ssp) => ssp.check()?,
            Embedding::Gd(gd) => gd.check()?,
        }
        Ok(AltMin { params: self })
    }
}

impl RowSplit {
    const fn models(self) -> RowUse {
        self.quarter(0)
    }

    const fn embedding(self) -> RowUse {
        self.quarter(1)
    }

    const fn init(self) -> RowUse {
        self.quarter(2)
    }

    const fn quarter(self, quarter: usize) -> RowUse {
        match self {
            Self::Shared => RowUse::All,
            Self::Quarters => RowUse::Quarter(quarter),
        }
    }
}
