use crate::{ParamError, params};

/// An (epsilon, delta) differential-privacy guarantee. Epsilon is in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ApproxDp {
    /// The multiplicative bound, in nats; at least 0.
    pub epsilon: f64,
    /// The additive bound, in [0, 1].
    pub delta: f64,
}

impl ApproxDp {
    /// Creates a guarantee that can serve as a target: finite epsilon above 0, delta in (0, 1).
    ///
    /// # Errors
    /// [`ParamError`] naming `epsilon` or `delta` when it is out of range or NaN.
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// assert!(ApproxDp::target(1.0, 1e-5).is_ok());
    /// assert!(ApproxDp::target(1.0, 1.0).is_err());
    /// ```
    pub fn target(epsilon: f64, delta: f64) -> Result<Self, ParamError> {
        Ok(Self {
            epsilon: params::finite_positive("epsilon", epsilon)?,
            delta: params::open_unit("delta", delta)?,
        })
    }
}

/// Zero-concentrated differential privacy: the Renyi divergence of order a is at most `rho * a`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Zcdp {
    /// Nats per unit of order; at least 0.
    pub rho: f64,
}

/// Gaussian differential privacy: neighbouring data sets are at least as hard to distinguish as
/// N(0, 1) and N(mu, 1).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Gdp {
    /// The distance between the means of the two unit-variance normals; at least 0.
    pub mu: f64,
}

impl Gdp {
    /// The zCDP guarantee implied by this one: rho = mu^2 / 2.
    #[must_use]
    pub fn to_zcdp(self) -> Zcdp {
        Zcdp {
            rho: 0.5 * self.mu * self.mu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_reject_what_cannot_be_met() {
        for (epsilon, delta) in [
            (0.0, 1e-5),
            (-1.0, 1e-5),
            (f64::NAN, 1e-5),
            (f64::INFINITY, 1e-5),
            (1.0, 0.0),
            (1.0, 1.0),
            (1.0, f64::NAN),
        ] {
            assert!(ApproxDp::target(epsilon, delta).is_err());
        }
    }

    #[test]
    fn gaussian_rho_is_half_mu_squared() {
        assert!((Gdp { mu: 3.0 }.to_zcdp().rho - 4.5).abs() < 1e-15);
    }
}
