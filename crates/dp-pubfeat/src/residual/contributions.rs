//! What a unit adds to the residual and weight sums.

use dp_core::UserRow;
use dp_mechanism::{SparseBuffer, VectorContribution};

use crate::ProblemSetup;
use crate::problem::UnitValues;
use crate::ssp::scale_jointly;

/// One unit's share of the residual sums of all items at given item vectors.
///
/// ```text
/// e_j = y_j - <u, v_j>,   all of the unit's scaled so that ||u||^2 sum_j w_j^2 e_j^2 <= c^2
/// r_j += w_j e_j u
/// ```
///
/// `u` is shortened to `Gamma_u` and `y_j` clipped to `Gamma_y` first. Coordinates: item by item, `d` each.
///
/// # Privacy
/// The unit adds the blocks `w_j e_j u`, one per item, of squared norm `w_j^2 e_j^2 ||u||^2`; their sum is at most `c^2` by construction, whatever the item vectors, which are released
/// values. L2 sensitivity `c` under add/remove, `2 c` under replacement.
#[derive(Debug, Clone, Copy)]
pub struct ResidualContribution<'a> {
    /// Checked settings.
    pub setup: &'a ProblemSetup,
    /// Released item vectors, shape `(m, d)`.
    pub item_vectors: &'a [f64],
    /// The bound `c`, data units of a label times those of `u`.
    pub bound: f64,
}

impl VectorContribution for ResidualContribution<'_> {
    type Scratch = UnitValues;

    fn scratch(&self) -> UnitValues {
        UnitValues::default()
    }

    fn contribute(&self, unit: UserRow<'_>, own: &mut UnitValues, out: &mut SparseBuffer) {
        let dim = self.setup.dim;
        own.read(self.setup, unit);
        let (u, residuals) = (&own.vector, &mut own.labels);
        for (residual, &item) in residuals.iter_mut().zip(unit.items()) {
            let v = &self.item_vectors[item as usize * dim..][..dim];
            *residual -= u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
        }
        let norm = u.iter().map(|u| u * u).sum::<f64>().sqrt();
        if norm > 0.0 {
            scale_jointly(residuals, &own.weights, self.bound / norm);
        }
        let each = own.weights.iter().zip(&*residuals);
        for (&item, (w, e)) in unit.items().iter().zip(each) {
            let first = item as usize * dim;
            let at = |a: usize| u32::try_from(first + a).unwrap_or(u32::MAX); // checked by the plan
            out.extend(u.iter().enumerate().map(|(a, u)| (at(a), w * e * u)));
        }
    }
}

/// One unit's share of the items' total weights, and of the number of units.
///
/// ```text
/// t_j += .95 w_j,   t_m += sqrt(1 - .95^2)      for a unit with items
/// ```
///
/// # Privacy
/// Squared norm `.95^2 sum_j w_j^2 + 1 - .95^2 <= 1`: sensitivity 1 under add/remove, 2 under replacement.
#[derive(Debug, Clone, Copy)]
pub struct TotalsContribution<'a> {
    /// Checked settings.
    pub setup: &'a ProblemSetup,
    /// Number of items `m`.
    pub n_items: usize,
}

impl TotalsContribution<'_> {
    /// Share of a unit's norm that goes to its items.
    pub(crate) const ITEMS: f64 = 0.95;

    /// Share of a unit's norm that counts the unit.
    pub(crate) fn units() -> f64 {
        (1.0 - Self::ITEMS * Self::ITEMS).sqrt()
    }
}

impl VectorContribution for TotalsContribution<'_> {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        Vec::new()
    }

    fn contribute(&self, unit: UserRow<'_>, weights: &mut Vec<f64>, out: &mut SparseBuffer) {
        if unit.is_empty() {
            return;
        }
        weights.clear();
        weights.resize(unit.len(), 0.0);
        self.setup.weights.weigh(unit, weights);
        let each = unit.items().iter().copied().zip(&*weights);
        out.extend(each.map(|(item, w)| (item, Self::ITEMS * w)));
        out.push(
            u32::try_from(self.n_items).unwrap_or(u32::MAX),
            Self::units(),
        );
    }
}
