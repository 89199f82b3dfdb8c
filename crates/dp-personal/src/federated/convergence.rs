//! Whether released steps converge; and the error after rounds, measured during the runs, because
//! afterwards only the local parameters of the last round exist.

use std::time::{Duration, Instant};

use dp_fedsgd::Round;

use super::figures::{Figures, sums};
use super::parts::Group;
use crate::personal::Inputs;
use crate::rounds::MeasuredRounds;

/// The error of the training users, on their own test rows, after rounds of several runs: private.
pub struct Convergence {
    measured: MeasuredRounds,
    n_rounds: usize,
    /// A row for each run, with a value for each measured round.
    lines: Vec<Vec<Option<f64>>>,
    took: Duration,
}

impl Convergence {
    /// An empty record for runs of `n_rounds` rounds.
    pub fn new(n_rounds: usize) -> Self {
        Self {
            measured: MeasuredRounds::of(n_rounds),
            n_rounds,
            lines: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// Starts a new run, whose rounds follow.
    pub fn begin_run(&mut self) {
        self.lines.push(Vec::new());
    }

    /// Measures a round if it is one of those to be measured. The run receives nothing from it.
    pub fn measure(&mut self, inputs: &Inputs, group: &Group, round: &Round<'_>) {
        if !self.measured.contain(round.round) {
            return;
        }
        let Some(local) = round.local else {
            return;
        };
        let start = Instant::now();
        let own = |_, user| Ok(sums(round.parameters, &local(user)));
        // no step in it can fail; if one did, the run must not
        let users = Figures::of_users(inputs, group, 1, own).unwrap_or_default();
        let figures = Figures::over(inputs, &users, 0, String::new());
        if let Some(line) = self.lines.last_mut() {
            line.push(figures.over_rows);
        }
        self.took += start.elapsed();
    }

    /// Numbers of the measured rounds.
    pub fn rounds(&self) -> Vec<usize> {
        let is_measured = |round: &usize| self.measured.contain(*round);
        (1..=self.n_rounds).filter(is_measured).collect()
    }

    /// Values of a run after these rounds.
    pub fn line(&self, run: usize) -> Option<&[Option<f64>]> {
        self.lines.get(run).map(Vec::as_slice)
    }

    /// Time spent on measuring.
    pub const fn took(&self) -> Duration {
        self.took
    }
}

/// Whether the released steps of runs keep reversing direction, as they do when the step is too
/// long for the curvature of the loss. Computed from releases alone.
#[derive(Default)]
pub struct Turning {
    runs: Vec<Turns>,
}

/// The state of one run.
#[derive(Default)]
struct Turns {
    shared: Vec<f64>,
    last_step: Vec<f64>,
    /// Products of consecutive steps, and squares.
    products: f64,
    squares: f64,
    n_steps: usize,
    /// Length of the longest possible step without noise.
    longest: f64,
    is_finite: bool,
}

/// With fewer steps in the second half of the rounds, no conclusion is drawn.
const FEW_STEPS: usize = 8;
/// Correlation between consecutive steps below which a run has not converged. Noise around an
/// optimum stays above -1/2 for steps that the curvature permits.
const TURNED: f64 = -0.75;
/// Minimum length of diverging steps, as a share of the longest possible step: shorter ones reverse
/// without growing.
const LONG: f64 = 0.2;

impl Turning {
    /// Begins the next run, whose steps are at most this long without noise.
    pub fn begin_run(&mut self, longest: f64) {
        self.runs.push(Turns {
            longest,
            ..Turns::default()
        });
    }

    /// Number of runs begun.
    pub const fn n_runs(&self) -> usize {
        self.runs.len()
    }

    /// Records a round of a run of `n_rounds`.
    pub fn note(&mut self, round: usize, n_rounds: usize, shared: &[f64]) {
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        run.is_finite = shared.iter().all(|w| w.is_finite());
        if run.shared.len() != shared.len() {
            run.shared = vec![0.0; shared.len()];
        }
        let step: Vec<f64> = shared
            .iter()
            .zip(&run.shared)
            .map(|(w, from)| w - from)
            .collect();
        if 2 * round > n_rounds && run.last_step.len() == step.len() {
            let products = step.iter().zip(&run.last_step).map(|(a, b)| a * b);
            run.products += products.sum::<f64>();
            run.squares += step.iter().map(|a| a * a).sum::<f64>();
            run.n_steps += 1;
        }
        run.shared.copy_from_slice(shared);
        run.last_step = step;
    }

    /// Whether this run diverged: its parameters are not finite, or its steps reverse direction.
    pub fn diverged(&self, run: usize) -> bool {
        self.runs.get(run).is_some_and(|run| {
            let long = (LONG * run.longest).powi(2) * run.n_steps as f64;
            let turns = run.products < TURNED * run.squares && run.squares > long;
            !run.is_finite || (run.n_steps >= FEW_STEPS && turns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with noise of size 1, in which each step also contains `turn` times the previous one.
    fn diverges(turn: f64, dim: usize, n_rounds: usize, longest: f64) -> bool {
        let mut turning = Turning::default();
        turning.begin_run(longest);
        let (mut state, mut shared, mut step) = (7_u64, vec![0.0; dim], vec![0.0; dim]);
        for round in 1..=n_rounds {
            for (w, s) in shared.iter_mut().zip(&mut step) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                *s = turn * *s + (state >> 40) as f64 / f64::from(1 << 23) - 1.0;
                *w += *s;
            }
            turning.note(round, n_rounds, &shared);
        }
        turning.diverged(0)
    }

    #[test]
    fn steps_that_turn_back_are_told_from_noise() {
        for dim in [2, 30] {
            assert!(diverges(-1.05, dim, 50, 1.0));
            assert!(!diverges(0.0, dim, 50, 1.0) && !diverges(-0.5, dim, 50, 1.0));
            assert!(!diverges(-1.05, dim, 14, 1.0)); // too few to decide
            assert!(!diverges(-1.05, dim, 50, 1e6)); // too short to grow
        }
        let mut turning = Turning::default();
        turning.begin_run(1.0);
        turning.note(1, 1, &[f64::INFINITY]);
        assert!(turning.diverged(0) && !turning.diverged(1));
    }
}
