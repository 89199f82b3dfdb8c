//! The error after rounds, measured while the runs go on: afterwards local parameters are those of the last round alone.

use std::time::{Duration, Instant};

use dp_fedsgd::Round;

use super::figures::{Figures, sums};
use super::parts::Group;
use crate::personal::Inputs;
use crate::rounds::MeasuredRounds;

/// The error of the users who are trained on, on their own test rows, after rounds of several runs: private.
pub struct Convergence {
    measured: MeasuredRounds,
    n_rounds: usize,
    /// A line for each run, with a figure for each measured round.
    lines: Vec<Vec<Option<f64>>>,
    took: Duration,
}

impl Convergence {
    /// Nothing measured yet, of runs of so many rounds.
    pub fn new(n_rounds: usize) -> Self {
        Self {
            measured: MeasuredRounds::of(n_rounds),
            n_rounds,
            lines: Vec::new(),
            took: Duration::ZERO,
        }
    }

    /// A run begins, whose rounds come next.
    pub fn begin_run(&mut self) {
        self.lines.push(Vec::new());
    }

    /// Measures a round if it is one of those. Nothing of it goes back to the run.
    pub fn measure(&mut self, inputs: &Inputs, group: &Group, round: &Round<'_>) {
        if !self.measured.contain(round.round) {
            return;
        }
        let Some(local) = round.local else {
            return;
        };
        let start = Instant::now();
        let own = |_, user| Ok(sums(round.parameters, &local(user)));
        // nothing in it fails; if something did, the run must not
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

    /// Figures of a run after these rounds.
    pub fn line(&self, run: usize) -> Option<&[Option<f64>]> {
        self.lines.get(run).map(Vec::as_slice)
    }

    /// Time that was not training.
    pub const fn took(&self) -> Duration {
        self.took
    }
}
