//! How a unit's budget is spread over its items.

use dp_core::{UserRow, params};

use crate::Result;

/// What is done with a user whose weights' squares do not sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightRule {
    /// Scaled to 1: nobody's budget is wasted.
    #[default]
    Normalise,
    /// Scaled down to 1 where it is above: heavy users count less, light ones stay as they are.
    Clip,
}

/// One number per item, and where the numbers come from.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum ItemNumbers {
    /// They are public knowledge and were not made from the data; the certificate says so.
    Public {
        /// One per item.
        values: Vec<f64>,
    },
    /// They were released under a certificate of their own, whose guarantee has to be added to that of the fit; the certificate says so and names it.
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
/// Either way `sum_j w_kj^2 <= 1`: the `w_bar` of Theorem 2 (Krichene et al. 2024) is 1, and a table has every pair of user and
/// item at most once, without which the theorem does not hold (`docs/errata.md`). With adaptive weights `omega_j = n_j^(-1/4)` for public or released
/// counts `n_j`; the printed formula of appendix E.1.4 is mended the same way.
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
    /// What is done with them.
    pub rule: WeightRule,
}

impl ExampleWeights {
    /// All items alike, normalised.
    #[must_use]
    pub fn equal() -> Self {
        Self::default()
    }

    /// These `omega_j`, above 0.
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

    /// `omega_j` and where they come from; none for all alike (1).
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

    /// What a certificate says of them.
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
    use dp_core::InteractionsBuilder;

    use super::*;

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
        // and survives a file
        let text = serde_json::to_string(&weights).unwrap();
        assert_eq!(
            serde_json::from_str::<ExampleWeights>(&text).unwrap(),
            weights
        );
    }
}
