//! Users' examples, their bounds and the protected unit.

use dp_core::{Adjacency, Interactions, InteractionsBuilder, Private, UserRow, params};
use sha2::{Digest, Sha256};

use crate::features::in_public_range;
use crate::{Error, Result};

/// Public settings of the problem: examples `(u, item, y)` with given vectors `u`, and item vectors
/// `v_j` to be learned with `y ~ <u, v_j>`.
///
/// The vectors `u` are the features of the table's users. Each must be computed from its user's own
/// data and public or released values only (where records are units: not from the records).
/// Magnitudes must lie between 1e-6 and 1e6.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSetup {
    /// Length `d` of the vectors, 1 to 256.
    pub dim: usize,
    /// Bound `Gamma_u` on the norm of `u`; longer vectors are shortened to it.
    pub user_norm: f64,
    /// Bound `Gamma_y` on a label, in data units; larger labels are clipped to it.
    pub label_bound: f64,
    /// Bound `B` on the weighted norm `sqrt(sum_j w_kj^2 y_kj^2)` of a unit's labels, in data
    /// units; all labels of a unit above it are scaled down together. It has no effect at
    /// `label_bound` and above.
    pub label_norm: f64,
    /// How a unit's budget is divided among its items.
    pub weights: ExampleWeights,
    /// The protected unit.
    pub unit: ProtectedUnit,
}

impl ProblemSetup {
    /// Vectors in the unit ball, labels up to `label_bound`, equal item weights, users protected.
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

    /// The same problem with single records protected, with weight 1 each, as in Theorem 1. Users'
    /// vectors are not protected: see [`ProtectedUnit::Example`].
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

    /// `min(B, Gamma_y)`: the largest norm of a unit's weighted labels.
    #[must_use]
    pub const fn label_reach(&self) -> f64 {
        self.label_norm.min(self.label_bound)
    }

    /// Checks the public shape of the table: vectors of the right length, and this many items.
    pub(crate) fn check_table(&self, data: &Private<Interactions>, n_items: usize) -> Result<()> {
        let data = data.expose();
        params::same_size("users' vectors", data.feature_dim(), self.dim)?;
        params::same_size("items of the table", data.n_items(), n_items)?;
        self.weights.check_items(n_items)
    }

    /// The same check for a table whose users' vectors are fitted on all of their ratings: then
    /// only users can be units.
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

    /// Writes `u`, shortened to norm `Gamma_u`.
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

/// Scales a vector down to norm `bound`; a vector that is not finite becomes zero.
pub(crate) fn shorten(vector: &mut [f64], bound: f64) {
    let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    if !norm.is_finite() {
        vector.fill(0.0);
    } else if norm > bound {
        let scale = bound / norm;
        vector.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Scratch memory of one thread: a unit's values after the bounds on single values.
#[derive(Default)]
#[allow(
    missing_debug_implementations,
    reason = "holds one unit's values; printing them is never wanted"
)]
pub struct UnitValues {
    /// `u`, shortened to `Gamma_u`.
    pub(crate) vector: Vec<f64>,
    /// `w_j` for each record.
    pub(crate) weights: Vec<f64>,
    /// Labels clipped to `Gamma_y`, later overwritten with values derived from them.
    pub(crate) labels: Vec<f64>,
}

impl UnitValues {
    /// Overwrites everything with the values of a unit.
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

/// The origin of users' vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// Given with the table or by clients.
    Given,
    /// Fitted in the run, from a user's own ratings and released item vectors.
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

/// Assumptions about the meaning of the unit and the origin of users' vectors and of weights, one
/// sentence each.
pub(crate) fn assumptions(setup: &ProblemSetup, vectors: Vectors) -> Vec<String> {
    let (unit, vector) = match setup.unit {
        ProtectedUnit::User => (USER, USER_VECTOR),
        ProtectedUnit::Example => (EXAMPLE, EXAMPLE_VECTOR),
    };
    let given = (vectors == Vectors::Given).then_some(vector);
    let said = unit.iter().copied().chain(given).map(str::to_owned);
    said.chain(setup.weights.assumption()).collect()
}

/// The protected unit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtectedUnit {
    /// A user with all examples and the user's vector: Theorem 2 of Krichene et al. 2024. Adjacency
    /// [`Adjacency::AddRemoveUser`] or [`Adjacency::ReplaceUser`]. A given vector must be computed
    /// from its user's own data and from public or released values only: a vector that was learned
    /// from all users' data also changes with other users. The certificate lists this as an
    /// assumption.
    #[default]
    User,
    /// The record of one pair of user and item: Theorem 1. Every record becomes its own row, with
    /// its user's vector, so that the kernel bounds each record separately. Adjacency
    /// [`Adjacency::ReplaceRecord`].
    ///
    /// # Neighbours
    /// Two tables that contain each pair of user and item at most once, with the same vectors of
    /// users, and with the same records except one:
    ///
    /// ```text
    /// replaced:          T' = T - {(k, j, y)} + {(k, j, y')}      the same pair with another label, or
    ///                    T' = T - {(k, j, y)} + {(k', j', y')}    a pair (k', j') that T does not have
    /// added or removed:  T' = T + {(k', j', y')}                  a pair (k', j') that T does not have
    /// ```
    ///
    /// So one row changes, and the release moves by `D` when a record is added or removed, and by
    /// at most `2 D` (right-hand sides, gradients) or `sqrt(2) D` (matrices) when it is replaced.
    /// The kernel, which bounds rows, accepts payments for replacement only; the certificate prints
    /// epsilon under both relations.
    ///
    /// # Not covered
    /// Raw lists of records that are merged so that the last one wins. If `(k, j, y)` replaces a
    /// record and its pair already exists, the label of that pair is overwritten too; and if the
    /// old record had covered an earlier one of its pair, that earlier record takes effect again.
    /// Two rows then move: right-hand sides by up to `2 sqrt(2) D` and gradients by up to `4 D`.
    /// Repeats must be merged before neighbouring tables are defined; the certificate lists this as
    /// an assumption.
    ///
    /// Protects single records only, and not users' vectors: these are not part of the unit, and
    /// must not be computed from the records, because otherwise one record changes all rows of its
    /// user.
    Example,
}

impl ProtectedUnit {
    /// Refuses an adjacency that does not match this unit.
    pub(crate) fn check(self, adjacency: Adjacency) -> Result<()> {
        match (self, adjacency) {
            (Self::User, Adjacency::AddRemoveUser | Adjacency::ReplaceUser)
            | (Self::Example, Adjacency::ReplaceRecord) => Ok(()),
            (Self::User, _) => Err(Error::Unsupported {
                what: "neighbours that differ in a record, for a run that bounds users",
            }),
            (Self::Example, _) => Err(Error::Unsupported {
                what: "neighbours other than replace-record, for a run that bounds single examples",
            }),
        }
    }

    /// Runs `work` on the table whose rows are the units.
    pub(crate) fn with_rows<T>(
        self,
        data: &Private<Interactions>,
        work: impl FnOnce(&Private<Interactions>) -> Result<T>,
    ) -> Result<T> {
        let unit = self;
        #[cfg(privacy_mutants)]
        let unit = crate::mutants::unit(unit);
        match unit {
            Self::User => work(data),
            Self::Example => work(&one_row_per_record(data)?),
        }
    }
}

/// A table with one row for every record, with the vector of its user. Its id follows from the
/// user's id and the item, so that the sampling coins belong to the record, wherever it is stored.
fn one_row_per_record(data: &Private<Interactions>) -> Result<Private<Interactions>> {
    let data = data.expose();
    let mut builder = InteractionsBuilder::new(data.n_items()).with_feature_dim(data.feature_dim());
    let mut number = 0_u32;
    for (user, row) in data.users().enumerate() {
        let user_id = data.user_id(user);
        for (item, value) in row.iter() {
            builder.push(number, item, value)?;
            builder.set_features(number, row.features())?;
            builder.set_id(number, record_id(user_id, item));
            number = number.saturating_add(1); // tables hold fewer than 2^32 records
        }
    }
    Ok(Private::new(builder.build().0))
}

/// `SHA-256(user id, item)` truncated to 128 bits.
fn record_id(user_id: u128, item: u32) -> u128 {
    let hash = Sha256::new_with_prefix(user_id.to_le_bytes())
        .chain_update(item.to_le_bytes())
        .finalize();
    let (first, _) = hash.split_at(size_of::<u128>());
    first.iter().fold(0, |id, byte| id << 8 | u128::from(*byte))
}

/// Treatment of a user whose squared weights do not sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightRule {
    /// Scaled to 1: no user's budget is wasted.
    #[default]
    Normalise,
    /// Scaled down to 1 if the sum is above 1: heavy users have less influence, light users are
    /// unchanged.
    Clip,
}

/// One number per item, and the origin of the numbers.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum ItemNumbers {
    /// Public knowledge, not computed from the data; the certificate says so.
    Public {
        /// One per item.
        values: Vec<f64>,
    },
    /// Released under a separate certificate, whose guarantee must be added to that of the fit; the
    /// certificate says so and names it.
    Released {
        /// One per item.
        values: Vec<f64>,
        /// Release id in the ledger ([`Spend::release_id`](dp_accounting::Spend::release_id)), not empty.
        release_id: String,
    },
}

impl ItemNumbers {
    /// The numbers.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        match self {
            Self::Public { values } | Self::Released { values, .. } => values,
        }
    }

    fn map(mut self, change: impl Fn(f64) -> f64) -> Self {
        let (Self::Public { values } | Self::Released { values, .. }) = &mut self;
        values.iter_mut().for_each(|x| *x = change(*x));
        self
    }

    fn assumption(&self) -> String {
        match self {
            Self::Public { .. } => "the weights of items in the settings are public knowledge and were not made from this data set".to_owned(),
            Self::Released { release_id, .. } => format!(
                "the weights of items in the settings come from the release {release_id}, which this certificate does not cover: its guarantee is to be added"
            ),
        }
    }
}

/// Example weights `w_kj`, a function of the user's own items and of public or released numbers.
///
/// ```text
/// Normalise:  w_kj = omega_j / sqrt(sum_i omega_i^2)            i over the items of user k
/// Clip:       w_kj = omega_j / max(1, sqrt(sum_i omega_i^2))
/// ```
///
/// In both cases `sum_j w_kj^2 <= 1`: the `w_bar` of Theorem 2 (Krichene et al. 2024) is 1, and a
/// table has every pair of user and item at most once, without which the theorem does not hold
/// (`docs/errata.md`). With adaptive weights, `omega_j = n_j^(-1/4)` for public or released counts
/// `n_j`; the printed formula of appendix E.1.4 is corrected in the same way.
///
/// # Examples
/// ```
/// use dp_pubfeat::{ExampleWeights, ItemNumbers};
/// let counts = ItemNumbers::Public { values: vec![16.0, 1.0, 81.0] };
/// let weights = ExampleWeights::adaptive(counts, 0.25)?;
/// assert_eq!(weights.omega().map(ItemNumbers::values), Some(&[0.5, 1.0, 1.0 / 3.0][..]));
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExampleWeights {
    omega: Option<ItemNumbers>,
    /// The rule applied to them.
    pub rule: WeightRule,
}

impl ExampleWeights {
    /// Equal weights for all items, normalised.
    #[must_use]
    pub fn equal() -> Self {
        Self::default()
    }

    /// The given `omega_j`, above 0.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a number that is not finite and above 0, or released numbers without a release id.
    pub fn given(omega: ItemNumbers, rule: WeightRule) -> Result<Self> {
        let omega = Some(omega);
        let weights = Self { omega, rule };
        weights.check()?;
        Ok(weights)
    }

    /// `omega_j = max(n_j, 1)^-exponent`, normalised, for counts that are public or released.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a count or exponent that is not finite, an exponent that is negative, a weight that is 0, or released counts without a release id.
    pub fn adaptive(counts: ItemNumbers, exponent: f64) -> Result<Self> {
        params::finite_non_negative("exponent", exponent)?;
        for &count in counts.values() {
            params::finite("count", count)?;
        }
        let omega = counts.map(|n| n.max(1.0).powf(-exponent));
        Self::given(omega, WeightRule::Normalise)
    }

    /// `omega_j` and their origin; none if all items have weight 1.
    #[must_use]
    pub const fn omega(&self) -> Option<&ItemNumbers> {
        self.omega.as_ref()
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(ItemNumbers::Released { release_id, .. }) = &self.omega {
            params::at_least_one("release_id (its length)", release_id.len())?;
        }
        for &omega in self.values().unwrap_or_default() {
            params::finite_positive("omega", omega)?;
        }
        Ok(())
    }

    fn values(&self) -> Option<&[f64]> {
        self.omega.as_ref().map(ItemNumbers::values)
    }

    /// The assumption about the weights in a certificate.
    pub(crate) fn assumption(&self) -> Option<String> {
        self.omega.as_ref().map(ItemNumbers::assumption)
    }

    pub(crate) fn check_items(&self, n_items: usize) -> Result<()> {
        if let Some(omega) = self.values() {
            params::same_size("omega", omega.len(), n_items)?;
        }
        Ok(())
    }

    /// Weights of a unit's records, `sum w^2 <= 1`.
    pub(crate) fn weigh(&self, unit: UserRow<'_>, out: &mut [f64]) {
        let (mut total, omega) = (0.0, self.values());
        for (w, &item) in out.iter_mut().zip(unit.items()) {
            *w = match omega {
                Some(omega) => omega.get(item as usize).copied().unwrap_or_default(),
                None => 1.0,
            };
            total += *w * *w;
        }
        let norm = total.sqrt();
        let scale = match self.rule {
            WeightRule::Normalise if norm > 0.0 => 1.0 / norm,
            WeightRule::Clip if norm > 1.0 => 1.0 / norm,
            _ => 1.0,
        };
        out.iter_mut().for_each(|w| *w *= scale);
        #[cfg(privacy_mutants)]
        crate::mutants::weights(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_rows_with_their_user_s_vector() {
        let mut builder = InteractionsBuilder::new(3).with_feature_dim(1);
        for (user, item, y) in [(0, 2, 1.0), (0, 0, 2.0), (5, 2, 3.0)] {
            builder.push(user, item, y).unwrap();
            builder.set_features(user, &[user as f32]).unwrap();
        }
        let rows = one_row_per_record(&Private::new(builder.build().0)).unwrap();
        let rows: Vec<_> = rows
            .expose()
            .users()
            .map(|r| (r.items().to_vec(), r.values().to_vec(), r.features()[0]))
            .collect();
        assert_eq!(
            rows,
            [
                (vec![0], vec![2.0], 0.0),
                (vec![2], vec![1.0], 0.0),
                (vec![2], vec![3.0], 5.0)
            ]
        );
    }

    #[test]
    fn a_record_has_the_same_id_in_whichever_table_its_user_is() {
        let mut builder = InteractionsBuilder::new(3);
        for (user, item) in [(0, 2), (0, 0), (1, 2), (2, 1)] {
            builder.push(user, item, 1.0).unwrap();
        }
        let whole = builder.build().0;
        let ids = |data: &Interactions| {
            let rows = one_row_per_record(&Private::new(data.clone())).unwrap();
            let rows = rows.expose();
            (0..rows.n_users())
                .map(|row| rows.user_id(row))
                .collect::<Vec<_>>()
        };
        let all = ids(&whole);
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), 4);
        let parts = whole.deal(2, |id| usize::from(id == 1));
        assert_eq!(ids(&parts[1]), [all[2]]);
        assert_eq!(ids(&parts[0]), [all[0], all[1], all[3]]);
    }

    #[test]
    fn units_take_their_own_neighbours_only() {
        use Adjacency::*;
        for (adjacency, user, example) in [
            (AddRemoveUser, true, false),
            (ReplaceUser, true, false),
            (AddRemoveRecord, false, false),
            (ReplaceRecord, false, true),
        ] {
            assert_eq!(ProtectedUnit::User.check(adjacency).is_ok(), user);
            assert_eq!(ProtectedUnit::Example.check(adjacency).is_ok(), example);
        }
    }

    #[test]
    fn squares_of_weights_sum_to_one_or_less() {
        let mut builder = InteractionsBuilder::new(4);
        for (user, item) in [(0, 1), (1, 0), (1, 2), (1, 3)] {
            builder.push(user, item, 1.0).unwrap();
        }
        let data = builder.build().0;
        let omega = ItemNumbers::Public {
            values: vec![0.5, 0.25, 1.0, 2.0],
        };
        let mut weights = ExampleWeights::given(omega, WeightRule::Normalise).unwrap();
        let of = |weights: &ExampleWeights, user| {
            let mut w = vec![9.0; data.user(user).len()];
            weights.weigh(data.user(user), &mut w);
            w
        };
        let norm = 5.25_f64.sqrt();
        assert_eq!(of(&weights, 0), [1.0]);
        let heavy = of(&weights, 1);
        for (w, e) in heavy.iter().zip([0.5 / norm, 1.0 / norm, 2.0 / norm]) {
            assert!((w - e).abs() < 1e-15);
        }
        weights.rule = WeightRule::Clip;
        assert_eq!(of(&weights, 0), [0.25]);
        assert_eq!(of(&weights, 1), heavy);
        assert_eq!(of(&ExampleWeights::equal(), 1), [1.0 / 3.0_f64.sqrt(); 3]);
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        let public = |values: &[f64]| ItemNumbers::Public {
            values: values.to_vec(),
        };
        for omega in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ExampleWeights::given(public(&[1.0, omega]), WeightRule::Clip).is_err());
        }
        assert!(ExampleWeights::adaptive(public(&[f64::NAN]), 0.25).is_err());
        assert!(ExampleWeights::adaptive(public(&[3.0]), -1.0).is_err());
        assert!(ExampleWeights::adaptive(public(&[1e300]), 2.0).is_err()); // a weight of 0
        let weights = ExampleWeights::adaptive(public(&[16.0, -3.0]), 0.25).unwrap();
        assert_eq!(weights.omega(), Some(&public(&[0.5, 1.0])));
        assert!(weights.check_items(3).is_err());
    }

    #[test]
    fn where_numbers_come_from_is_kept_and_told() {
        let released = |release_id: &str| ItemNumbers::Released {
            values: vec![16.0],
            release_id: release_id.to_owned(),
        };
        assert!(ExampleWeights::adaptive(released(""), 0.25).is_err());
        let weights = ExampleWeights::adaptive(released("counts-7"), 0.25).unwrap();
        assert!(weights.assumption().unwrap().contains("counts-7"));
        let values = vec![16.0];
        let public = ExampleWeights::adaptive(ItemNumbers::Public { values }, 0.25).unwrap();
        assert!(public.assumption().unwrap().contains("public knowledge"));
        assert_eq!(ExampleWeights::equal().assumption(), None);
        // and it survives serialisation
        let text = serde_json::to_string(&weights).unwrap();
        assert_eq!(
            serde_json::from_str::<ExampleWeights>(&text).unwrap(),
            weights
        );
    }
}
