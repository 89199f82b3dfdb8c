use dp_core::{Adjacency, DpEvent, params};

use crate::Result;
use crate::engines::accountant::{Accountant, PrivacyBound};
use crate::engines::composition::Composition;
use crate::engines::pld;
use crate::engines::pld::Rounds;

/// Accountant by privacy loss distributions: every answer is a proved bracket.
///
/// Events known only through a Renyi divergence, random allocation and repeat-and-select have no
/// privacy loss distribution here and are refused when an answer is asked for.
///
/// # Examples
/// ```
/// use dp_accounting::{Accountant, PldAccountant};
/// use dp_core::{Adjacency, DpEvent};
/// let mut accountant = PldAccountant::new(Adjacency::AddRemoveUser);
/// accountant.compose(&DpEvent::laplace(5.0), 10)?;
/// let bound = accountant.delta(1.0)?;
/// assert!(bound.lower <= 0.0203092809455646 && 0.0203092809455645 <= bound.upper);
/// assert!(bound.upper - bound.lower < 1e-6);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PldAccountant {
    composition: Composition,
    rounds: Rounds,
}

impl PldAccountant {
    /// An accountant that has seen nothing.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
            rounds: Rounds::All,
        }
    }

    /// An accountant that computes each bracket once and leaves it as wide as it is: as sound, in a
    /// fraction of the time where the losses are hard.
    #[must_use]
    pub const fn quick(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
            rounds: Rounds::One,
        }
    }
}

impl Accountant for PldAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", delta)?;
        pld::epsilon(&self.composition, delta, self.rounds)
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", epsilon)?;
        Ok(pld::delta(&self.composition, epsilon, self.rounds)?.as_delta_at(epsilon))
    }
}
