//! Test errors of runs at one epsilon.

use dp_fedsgd::PpSgdModel;

use dp_personal::error::Result;
use dp_personal::federated::{Figures, Group, Offer, coefficients, losses_of_users, offered_by};
use dp_personal::personal::Inputs;

/// Test errors of one seed at one epsilon: for all alphas, for the alpha that validation rows
/// choose, and for users' own choices given that run.
pub(super) struct Measured {
    pub(super) by_alpha: Vec<f64>,
    pub(super) selected: f64,
    pub(super) own_choice: f64,
    pub(super) own_ridge: f64,
}

impl Measured {
    pub(super) fn of(inputs: &Inputs, group: &Group, runs: &[PpSgdModel]) -> Result<Self> {
        let all: Vec<&PpSgdModel> = runs.iter().collect();
        let chosen = least(&losses_of_users(inputs, group, &all), all.len());
        let own = |run: usize, user: usize| Ok(coefficients(all[run], user));
        let mut users = Figures::of_users(inputs, group, all.len(), own)?;
        let released = Offer {
            models: &offered_by(inputs.task, &all[chosen].shared),
            prior: None,
        };
        Figures::add_own_choices(inputs, group, released, None, &mut users)?;
        let figure = |at: usize| {
            let figures = Figures::over(inputs, &users, at, String::new());
            figures.over_rows.unwrap_or(f64::NAN)
        };
        let n = all.len();
        Ok(Self {
            by_alpha: (0..n).map(figure).collect(),
            selected: figure(chosen),
            own_choice: figure(n),
            own_ridge: figure(n + 1),
        })
    }
}

/// The run with the smallest mean loss over users.
fn least(losses: &[Option<Vec<f64>>], n_runs: usize) -> usize {
    let sum = |run: usize| losses.iter().flatten().map(|l| l[run]).sum::<f64>();
    let sums = (0..n_runs).map(|run| (run, sum(run)));
    let best = sums.min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0, |(run, _)| run)
}
