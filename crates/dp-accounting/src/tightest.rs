use dp_core::{Adjacency, DpEvent, params};

use crate::accountant::{Accountant, Method, PrivacyBound};
use crate::composition::Composition;
use crate::{Result, gdp};

/// The accountant to use when in doubt: it knows every event, asks every method that applies and
/// answers with the best of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TightestAccountant {
    composition: Composition,
}

impl TightestAccountant {
    /// An accountant that has seen nothing.
    #[must_use]
    pub const fn new(adjacency: Adjacency) -> Self {
        Self {
            composition: Composition::new(adjacency),
        }
    }
}

impl Accountant for TightestAccountant {
    fn adjacency(&self) -> Adjacency {
        self.composition.adjacency()
    }

    fn compose(&mut self, event: &DpEvent, count: u64) -> Result<()> {
        self.composition.add(event, count)
    }

    fn epsilon(&self, delta: f64) -> Result<PrivacyBound> {
        params::open_unit("delta", delta)?;
        self.composition.nonempty()?;
        if self.composition.parts().is_empty() {
            let mu = gdp::from_mu_squared(self.composition.gaussian()).mu;
            let epsilon = gdp::epsilon(mu, delta);
            return Ok(PrivacyBound::bracket(
                epsilon,
                epsilon * (1.0 - 1e-12),
                epsilon,
                Method::Gdp,
                self.adjacency(),
            ));
        }
        crate::saddle_point::epsilon(&self.composition, delta)
    }

    fn delta(&self, epsilon: f64) -> Result<PrivacyBound> {
        params::finite_non_negative("epsilon", epsilon)?;
        self.composition.nonempty()?;
        crate::saddle_point::delta(&self.composition, epsilon)
    }
}
