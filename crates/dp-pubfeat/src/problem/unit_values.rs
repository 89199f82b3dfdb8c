//! One unit's vector, weights and labels, bounded.

use dp_core::UserRow;

use super::ProblemSetup;

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
