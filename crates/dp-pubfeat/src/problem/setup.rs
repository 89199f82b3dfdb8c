//! Public bounds on what a unit brings, and what is taken on trust about it.

use dp_core::{Interactions, Private, UserRow, params};

use super::{ExampleWeights, ProtectedUnit};
use crate::features::in_public_range;
use crate::{Error, Result};

/// Public settings of the problem: examples `(u, item, y)` with given vectors `u` and item vectors `v_j` to be learned,
/// `y ~ <u, v_j>`.
///
/// The vectors `u` are the features of the table's users, each made from its user's own data and public or released values only (where records are units: not from the records). Magnitudes must lie between 1e-6 and 1e6.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSetup {
    /// Length `d` of the vectors, 1 to 256.
    pub dim: usize,
    /// Bound `Gamma_u` on the norm of `u`; longer vectors are shortened to it.
    pub user_norm: f64,
    /// Bound `Gamma_y` on a label, data units; larger ones are clipped to it.
    pub label_bound: f64,
    /// Bound `B` on the weighted norm `sqrt(sum_j w_kj^2 y_kj^2)` of a unit's labels, data units; a unit above it has all labels scaled
    /// down together. At `label_bound` and above it never acts.
    pub label_norm: f64,
    /// How a unit's budget is spread over its items.
    pub weights: ExampleWeights,
    /// What is protected.
    pub unit: ProtectedUnit,
}

impl ProblemSetup {
    /// Vectors in the unit ball, labels up to `label_bound`, all items alike, users protected.
    #[must_use]
    pub fn new(dim: usize, label_bound: f64) -> Self {
        Self {
            dim,
            user_norm: 1.0,
            label_bound,
            label_norm: label_bound,
            weights: ExampleWeights::equal(),
            unit: ProtectedUnit::User,
        }
    }

    /// The same problem with single records protected, weight 1 each, as in Theorem 1; not with users' vectors: [`ProtectedUnit::Example`] says what that means.
    #[must_use]
    pub fn example_level(mut self) -> Self {
        self.unit = ProtectedUnit::Example;
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(&self) -> Result<()> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        in_public_range("user_norm", self.user_norm)?;
        in_public_range("label_bound", self.label_bound)?;
        in_public_range("label_norm", self.label_norm)?;
        self.weights.check()
    }

    /// `min(B, Gamma_y)`: what a unit's weighted labels can amount to.
    #[must_use]
    pub const fn label_reach(&self) -> f64 {
        self.label_norm.min(self.label_bound)
    }

    /// The table must have vectors of the right length and this many items: its public shape.
    pub(crate) fn check_table(&self, data: &Private<Interactions>, n_items: usize) -> Result<()> {
        let data = data.expose();
        params::same_size("users' vectors", data.feature_dim(), self.dim)?;
        params::same_size("items of the table", data.n_items(), n_items)?;
        self.weights.check_items(n_items)
    }

    /// The same for a table whose users' vectors are fitted on all of their ratings: only users can be units then.
    pub(crate) fn check_ratings(
        &self,
        data: &Private<Interactions>,
        (n_items, dim): (usize, usize),
    ) -> Result<()> {
        if self.unit != ProtectedUnit::User {
            return Err(Error::Unsupported {
                what: "single examples as units where users' vectors are fitted on all of theirs",
            });
        }
        params::same_size("model's dim", dim, self.dim)?;
        params::same_size("items of the table", data.expose().n_items(), n_items)?;
        self.weights.check_items(n_items)
    }

    /// `u`, shortened to norm `Gamma_u`.
    pub(crate) fn write_vector(&self, unit: UserRow<'_>, out: &mut [f64]) {
        out.fill(0.0);
        for (out, &x) in out.iter_mut().zip(unit.features()) {
            *out = x.into();
        }
        shorten(out, self.user_norm);
    }

    pub(crate) fn label(&self, y: f32) -> f64 {
        f64::from(y).clamp(-self.label_bound, self.label_bound)
    }
}

/// Scales a vector down to norm `bound`; one that is not finite, to zero.
pub(crate) fn shorten(vector: &mut [f64], bound: f64) {
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    if !norm.is_finite() {
        vector.fill(0.0);
    } else if norm > bound {
        let scale = bound / norm;
        vector.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Working memory of one thread: what a unit brings, after the bounds on single values.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one unit's values; printing them is never wanted"
)]
pub struct UnitValues {
    /// `u`, shortened to `Gamma_u`.
    pub(crate) vector: Vec<f64>,
    /// `w_j` per record.
    pub(crate) weights: Vec<f64>,
    /// Labels clipped to `Gamma_y`, or what becomes of them.
    pub(crate) labels: Vec<f64>,
}

impl UnitValues {
    /// Overwrites everything by the values of a unit.
    pub(crate) fn read(&mut self, setup: &ProblemSetup, unit: UserRow<'_>) {
        self.vector.resize(setup.dim, 0.0);
        setup.write_vector(unit, &mut self.vector);
        self.weights.clear();
        self.weights.resize(unit.len(), 0.0);
        setup.weights.weigh(unit, &mut self.weights);
        self.labels.clear();
        let labels = unit.values().iter().map(|&y| setup.label(y));
        self.labels.extend(labels);
    }
}

/// Where the vectors of users come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// They are given with the table or by clients.
    Given,
    /// They are fitted in the run, on a user's own ratings and released item vectors.
    Fitted,
}

const USER: &[&str] = &["one person has one user id"];
const USER_VECTOR: &str =
    "each user's vector was made from that user's own data and from public or released values only";

const EXAMPLE: &[&str] = &[
    "the unit is the record of one pair of user and item: in neighbouring tables it has another label, or is exchanged for the record of a pair \
     that the table does not have (for adding and removing: is there or not)",
    "every pair of user and item has at most one record in either of two neighbouring tables: an exchange whose new record overwrites another one \
     of its pair, or whose old record had covered another one, moves two units and is not covered",
    "a person with several records is protected for each of them, not for all together",
];
const EXAMPLE_VECTOR: &str = "vectors of users are no part of the unit and not protected: they were made from public or released values, or from \
     data other than the records, and are the same in neighbouring data sets";

/// The meaning of the unit, the origin of users' vectors and of weights, one sentence each.
pub(crate) fn assumptions(setup: &ProblemSetup, vectors: Vectors) -> Vec<String> {
    let (unit, vector) = match setup.unit {
        ProtectedUnit::User => (USER, USER_VECTOR),
        ProtectedUnit::Example => (EXAMPLE, EXAMPLE_VECTOR),
    };
    let given = (vectors == Vectors::Given).then_some(vector);
    let said = unit.iter().copied().chain(given).map(str::to_owned);
    said.chain(setup.weights.assumption()).collect()
}
