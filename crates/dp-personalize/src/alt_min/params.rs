//! Settings of Algorithm 1.

use dp_core::params;

use super::AltMin;
use crate::embedding::{DpGdEmbedding, RowUse, SspEmbedding, SymmetricNoise};
use crate::{Result, Subspace};

/// Where alternating minimisation starts.
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
    /// Every step reads a batch of its own. Users are dealt to batches by a hash of their own rows, so one user more or less changes nobody
    /// else's batch, and a user pays for the first release and one step.
    Disjoint,
}

/// Which rows a step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowSplit {
    /// All rows for everything.
    Shared,
    /// Quarters, as in the proofs: personal models, embedding, first release; the last quarter is for nothing
    /// but the user's final fit.
    Quarters,
}

/// Settings of [`AltMin`], not yet checked. All are public.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AltMinParams {
    /// Dimension of the subspace `k`.
    pub rank: usize,
    /// Where it starts.
    pub init: Initialisation,
    /// Share of a user's budget for the first release, strictly between 0 and 1; not used for a given start.
    pub init_share: f64,
    /// The private step.
    pub embedding: Embedding,
    /// Number of steps `T`, 0 for the first release alone.
    pub n_rounds: usize,
    /// Users of a step.
    pub batches: UserBatches,
    /// Rows of a step.
    pub rows: RowSplit,
}

impl AltMinParams {
    /// The experiment of section 6 of the paper: Algorithm 3, then one step of Algorithm 2 on all users and rows, all labels and designs
    /// clipped to 1e-4.
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
    /// [`crate::Error::Param`] naming the first setting out of range, among them neither a first release nor a
    /// step.
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
    pub(super) const fn models(self) -> RowUse {
        self.quarter(0)
    }

    pub(super) const fn embedding(self) -> RowUse {
        self.quarter(1)
    }

    pub(super) const fn init(self) -> RowUse {
        self.quarter(2)
    }

    const fn quarter(self, quarter: usize) -> RowUse {
        match self {
            Self::Shared => RowUse::All,
            Self::Quarters => RowUse::Quarter(quarter),
        }
    }
}
