//! Exact privacy profiles by inversion of the moment generating function of the privacy loss.

mod contour;
mod inversion;
mod legendre;
mod mixture_nodes;
mod nodes;
mod solve;
mod tail;
#[cfg(test)]
mod tests;
mod tilted;
mod windows;

use dp_core::{Adjacency, DpEvent, params};

use crate::Result;
use crate::engines::accountant::{Accountant, PrivacyBound};
use crate::engines::composition::Composition;

pub(crate) use solve::{Ask, delta, epsilon, estimate, stays_below};

/// Accountant that inverts the moment generating function of the privacy loss.
///
/// Composition adds logarithms of moment generating functions, whatever the mechanisms and
/// however often they ran, so the cost does not depend on the number of steps and nothing is
/// discretised. Every error of the inversion has a bound, and the bracket contains them all; it is
/// about 1e-11 of epsilon wide.
///
/// It answers for compositions whose loss is smooth enough: with at least one Gaussian
/// mechanism, or enough runs of sampled or Laplace ones. Elsewhere it refuses with
/// [`crate::Error::NotCertified`]; [`crate::PldAccountant`] takes over there.
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, SaddlePointAccountant};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = SaddlePointAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::sampled_gaussian(1.0, 0.01), 1_000)?;
/// let bound = accountant.epsilon(1e-5)?;
/// assert!((bound.value / 1.828_236_666_516_576_8 - 1.0).abs() < 1e-11);
/// assert!(bound.upper - bound.lower < 1e-9);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SaddlePointAccountant {
    composition: Composition,
}

impl SaddlePointAccountant {
    /// An accountant that has seen nothing.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
        }
    }
}

impl Accountant for SaddlePointAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, target_delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", target_delta)?;
        epsilon(self.composition.nonempty()?, target_delta)
    }

    fn delta(&self, target_epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", target_epsilon)?;
        let bound = delta(self.composition.nonempty()?, target_epsilon)?;
        Ok(bound.as_delta_at(target_epsilon))
    }
}
