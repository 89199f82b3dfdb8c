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

/// Example weights `w_kj`, a function of the user's own items and of public or released numbers.
///
/// ```text
/// Normalise:  w_kj = omega_j / sqrt(sum_i omega_i^2)            i over the items of user k
/// Clip:       w_kj = omega_j / max(1, sqrt(sum_i omega_i^2))
/// ```
///
/// Either way `sum_j w_kj^2 <= 1`: the `w_bar` of Theorem 2 (Krichene et al. 2024) is 1, and a table has every pair of user and
/// item at most once, without which the theorem does not hold (`docs/errata.md`). With adaptive weights `omega_j = n_j^(-1/4)` for released
/// counts `n_j`; the printed formula of appendix E.1.4 is mended the same way.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct ExampleWeights {
    /// `omega_j` per item, public or released; none for all alike (1).
    pub omega: Option<Vec<f64>>,
    /// What is done with them.
    pub rule: WeightRule,
}

impl ExampleWeights {
    /// All items alike, normalised.
    #[must_use]
    pub fn equal() -> Self {
        Self::default()
    }

    /// `omega_j = max(n_j, 1)^-exponent`, normalised, for counts that are public or released.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a count or exponent that is not finite, or an exponent that is negative.
    pub fn adaptive(counts: &[f64], exponent: f64) -> Result<Self> {
        params::finite_non_negative("exponent", exponent)?;
        for &count in counts {
            params::finite("count", count)?;
        }
        let omega = counts.iter().map(|n| n.max(1.0).powf(-exponent)).collect();
        Ok(Self {
            omega: Some(omega),
            rule: WeightRule::Normalise,
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        for &omega in self.omega.iter().flatten() {
            params::finite_positive("omega", omega)?;
        }
        Ok(())
    }

    pub(crate) fn check_items(&self, n_items: usize) -> Result<()> {
        if let Some(omega) = &self.omega {
            params::same_size("omega", omega.len(), n_items)?;
        }
        Ok(())
    }

    /// Weights of a unit's records, `sum w^2 <= 1`.
    pub(crate) fn weigh(&self, unit: UserRow<'_>, out: &mut [f64]) {
        let mut total = 0.0;
        for (w, &item) in out.iter_mut().zip(unit.items()) {
            *w = match &self.omega {
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
        let mut weights = ExampleWeights {
            omega: Some(vec![0.5, 0.25, 1.0, 2.0]),
            rule: WeightRule::Normalise,
        };
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
        for omega in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let weights = ExampleWeights {
                omega: Some(vec![1.0, omega]),
                rule: WeightRule::Clip,
            };
            assert!(weights.check().is_err());
        }
        assert!(ExampleWeights::adaptive(&[f64::NAN], 0.25).is_err());
        assert!(ExampleWeights::adaptive(&[3.0], -1.0).is_err());
        let weights = ExampleWeights::adaptive(&[16.0, -3.0], 0.25).unwrap();
        assert_eq!(weights.omega, Some(vec![0.5, 1.0]));
        assert!(weights.check_items(3).is_err());
    }
}
