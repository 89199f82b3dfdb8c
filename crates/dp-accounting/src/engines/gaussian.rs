//! The accountant for Gaussian mechanisms only.

use dp_core::{Adjacency, DpEvent, Gdp, Zcdp};

use crate::engines::accountant::{Accountant, PrivacyBound};
use crate::engines::composition::Composition;
use crate::engines::gdp::{self, finite_cost, repeated_cost};
use crate::engines::rounding::UpwardSum;
use crate::engines::tightest::TightestAccountant;
use crate::{Error, Result};

/// Exact accountant for Gaussian mechanisms: it tracks mu^2 under one adjacency.
///
/// ```text
/// mu^2 = Σ_i f_i^2 / z_i^2,   f_i = 1 (add/remove), 2 or √2 (replace)
/// ```
///
/// Source: Dong, Roth, Su, arXiv 1905.02383, Corollary 3.3. It accounts for the ideal mechanisms;
/// [`crate::Plan`] also sets delta aside for the error of the sampler.
///
/// # Examples
/// ```
/// use dp_accounting::GdpAccountant;
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = GdpAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::gaussian(10.0), 100)?;
/// assert!((accountant.gdp().mu - 1.0).abs() < 1e-14);
/// assert!((accountant.epsilon(1e-5) - 4.3771780957).abs() < 1e-9);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GdpAccountant {
    adjacency: Adjacency,
    mu_squared: UpwardSum,
}

impl GdpAccountant {
    /// Creates an accountant without any events.
    #[must_use]
    pub fn new(adjacency: Adjacency) -> Self {
        Self {
            adjacency,
            mu_squared: UpwardSum::EMPTY,
        }
    }

    /// Adds `count` runs of `event`. On an error the accountant is unchanged.
    ///
    /// # Errors
    /// The errors of [`gdp::mu_squared`], and [`crate::Error::Param`] if the total is not finite or
    /// a count does not fit in 64 bits.
    pub fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        Composition::new(self.adjacency).add(event, count)?;
        let cost = repeated_cost(event, count, self.adjacency)?;
        let sum = self.mu_squared.plus(cost);
        finite_cost(sum.total())?;
        self.mu_squared = sum;
        Ok(())
    }

    /// The adjacency of the guarantee.
    #[must_use]
    pub const fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// mu^2 so far, rounded up.
    #[must_use]
    pub fn mu_squared(&self) -> f64 {
        self.mu_squared.total()
    }

    /// The guarantee so far as mu-GDP, rounded up.
    #[must_use]
    pub fn gdp(&self) -> Gdp {
        gdp::from_mu_squared(self.mu_squared())
    }

    /// The guarantee so far as zCDP: rho = mu^2 / 2.
    #[must_use]
    pub fn zcdp(&self) -> Zcdp {
        Zcdp {
            rho: 0.5 * self.mu_squared(),
        }
    }

    /// Epsilon at `delta`, in nats, never below the true value; see [`gdp::epsilon`].
    #[must_use]
    pub fn epsilon(&self, delta: f64) -> f64 {
        gdp::epsilon(self.gdp().mu, delta)
    }

    /// Delta at `epsilon` (nats); see [`gdp::delta`].
    #[must_use]
    pub fn delta(&self, epsilon: f64) -> f64 {
        gdp::delta(self.gdp().mu, epsilon)
    }
}

impl Accountant for GdpAccountant {
    fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        Self::compose(self, event, count)
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        self.account()?.epsilon(delta)
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        self.account()?.delta(epsilon)
    }
}

impl GdpAccountant {
    /// The same mu^2 as one Gaussian mechanism.
    fn account(&self) -> Result<TightestAccountant> {
        if self.mu_squared() == 0.0 {
            return Err(Error::NothingComposed);
        }
        Ok(TightestAccountant::of_gaussian(
            self.mu_squared,
            self.adjacency,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(parts: &[(&DpEvent, u64)], adjacency: Adjacency) -> f64 {
        let mut accountant = GdpAccountant::new(adjacency);
        for (event, count) in parts {
            accountant.compose(event, *count).unwrap();
        }
        accountant.mu_squared()
    }

    #[test]
    fn composing_n_times_is_n_single_compositions_for_every_event() {
        let gaussian = DpEvent::gaussian(1.7);
        let events = [
            gaussian.clone(),
            DpEvent::gaussian_psd(0.3),
            gaussian.clone().repeated(3),
            DpEvent::composed(vec![gaussian, DpEvent::gaussian_psd(9.1).repeated(2)]),
        ];
        for event in &events {
            for adjacency in [Adjacency::AddRemoveUser, Adjacency::ReplaceRecord] {
                let at_once = account(&[(event, 10)], adjacency);
                let singly = account(&[(event, 1); 10], adjacency);
                assert!((at_once / singly - 1.0).abs() < 1e-15, "{event:?}");
                let one = account(&[(event, 1)], adjacency);
                assert!((at_once / one - 10.0).abs() < 1e-13, "{event:?}");
            }
        }
    }

    #[test]
    fn refused_event_changes_nothing() {
        let mut accountant = GdpAccountant::new(Adjacency::AddRemoveUser);
        accountant.compose(&DpEvent::gaussian(1.0), 1).unwrap();
        let before = accountant;
        let half_bad = DpEvent::composed(vec![DpEvent::gaussian(1.0), DpEvent::NonPrivate]);
        assert!(accountant.compose(&half_bad, 1).is_err());
        assert!(
            accountant
                .compose(&DpEvent::gaussian(1e-154), u64::MAX)
                .is_err()
        );
        assert_eq!(accountant, before);
    }

    #[test]
    fn rho_is_half_of_mu_squared() {
        let mut accountant = GdpAccountant::new(Adjacency::ReplaceUser);
        accountant.compose(&DpEvent::gaussian(4.0), 2).unwrap();
        assert!((accountant.zcdp().rho - 0.25).abs() < 1e-15);
        assert!((accountant.gdp().mu - 0.5_f64.sqrt()).abs() < 1e-15);
    }
}
