//! Steps on rows of parameters.

use std::collections::HashMap;

use dp_core::params;

use super::SparseRows;
use crate::Result;

/// How a gradient moves parameters. All of them are post-processing and free.
///
/// Each row has a state of its own, made at its first gradient and moved by its own gradients alone: a row without a gradient in a step stays
/// exactly what it was, momentum included. Corrections for the start count the row's own steps.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum Optimiser {
    /// `theta <- theta - rate g`.
    Sgd {
        /// Step size, above 0.
        rate: f64,
    },
    /// `b <- decay b + g`, `theta <- theta - rate b`.
    Momentum {
        /// Step size, above 0.
        rate: f64,
        /// From 0 to below 1.
        decay: f64,
    },
    /// Kingma and Ba 2015 with their constants .9, .999 and 1e-8.
    Adam {
        /// Step size, above 0.
        rate: f64,
    },
    /// Duchi et al. 2011: `s <- s + g^2`, `theta <- theta - rate g / (sqrt s + 1e-10)`.
    Adagrad {
        /// Step size, above 0.
        rate: f64,
    },
}

const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;

impl Optimiser {
    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the setting.
    pub fn check(self) -> Result<Self> {
        let (Self::Sgd { rate }
        | Self::Momentum { rate, .. }
        | Self::Adam { rate }
        | Self::Adagrad { rate }) = self;
        params::finite_positive("rate", rate)?;
        if let Self::Momentum { decay, .. } = self {
            params::closed_unit("decay", decay)?;
            params::finite_positive("1 - decay", 1.0 - decay)?;
        }
        Ok(self)
    }

    const fn n_states(self) -> usize {
        match self {
            Self::Sgd { .. } => 0,
            Self::Momentum { .. } | Self::Adagrad { .. } => 1,
            Self::Adam { .. } => 2,
        }
    }
}

/// What an optimiser remembers: memory for the rows that ever had a gradient, whatever the number of rows.
///
/// # Examples
/// ```
/// use dp_pubfeat::{Optimiser, OptimiserState, SparseRows};
/// let mut state = OptimiserState::new(Optimiser::Sgd { rate: 0.5 }, 2)?;
/// let mut gradient = SparseRows::new(2);
/// gradient.add(1, 1.0, &[2.0, 4.0]);
/// let mut parameters = [1.0; 6];
/// state.step(&gradient, &mut parameters);
/// assert_eq!(parameters, [1.0, 1.0, 0.0, -1.0, 1.0, 1.0]);
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OptimiserState {
    optimiser: Optimiser,
    width: usize,
    slots: HashMap<u32, usize>,
    /// Per slot: steps of the row.
    steps: Vec<u64>,
    /// Per slot: the states, each of a row's width.
    states: Vec<f64>,
}

impl OptimiserState {
    /// Nothing remembered, for rows of this width.
    ///
    /// # Errors
    /// As [`Optimiser::check`].
    pub fn new(optimiser: Optimiser, width: usize) -> Result<Self> {
        Ok(Self {
            optimiser: optimiser.check()?,
            width,
            slots: HashMap::new(),
            steps: Vec::new(),
            states: Vec::new(),
        })
    }

    /// Moves the rows that the gradient names. Rows beyond the parameters are ignored.
    pub fn step(&mut self, gradient: &SparseRows, parameters: &mut [f64]) {
        self.step_rows(gradient.iter(), parameters);
    }

    /// Moves all rows, given a gradient for each.
    pub(crate) fn step_all(&mut self, gradient: &[f64], parameters: &mut [f64]) {
        self.step_rows((0..).zip(gradient.chunks_exact(self.width)), parameters);
    }

    fn step_rows<'g>(
        &mut self,
        rows: impl Iterator<Item = (u32, &'g [f64])>,
        parameters: &mut [f64],
    ) {
        let width = self.width;
        for (row, gradient) in rows {
            let first = row as usize * width;
            if let Some(own) = parameters.get_mut(first..first + width) {
                self.step_row(row, gradient, own);
            }
        }
    }

    fn step_row(&mut self, row: u32, gradient: &[f64], parameters: &mut [f64]) {
        let n = self.optimiser.n_states() * self.width;
        let slot = match n {
            0 => 0,
            _ => *self.slots.entry(row).or_insert(self.steps.len()),
        };
        if n > 0 && slot == self.steps.len() {
            self.steps.push(0);
            self.states.resize(self.states.len() + n, 0.0);
        }
        let states = &mut self.states[slot * n..][..n];
        let each = parameters.iter_mut().zip(gradient);
        match self.optimiser {
            Optimiser::Sgd { rate } => each.for_each(|(t, g)| *t -= rate * g),
            Optimiser::Momentum { rate, decay } => {
                for ((t, g), b) in each.zip(states) {
                    *b = decay * *b + g;
                    *t -= rate * *b;
                }
            }
            Optimiser::Adagrad { rate } => {
                for ((t, g), s) in each.zip(states) {
                    *s += g * g;
                    *t -= rate * g / (s.sqrt() + 1e-10);
                }
            }
            Optimiser::Adam { rate } => {
                self.steps[slot] += 1;
                let n_steps = self.steps[slot] as f64;
                let of_first = 1.0 - FIRST_DECAY.powf(n_steps);
                let of_second = 1.0 - SECOND_DECAY.powf(n_steps);
                let (first, second) = states.split_at_mut(self.width);
                for ((t, g), (m, s)) in each.zip(first.iter_mut().zip(second)) {
                    *m = FIRST_DECAY * *m + (1.0 - FIRST_DECAY) * g;
                    *s = SECOND_DECAY * *s + (1.0 - SECOND_DECAY) * g * g;
                    *t -= rate * (*m / of_first) / ((*s / of_second).sqrt() + 1e-8);
                }
            }
        }
    }

    /// Rows with a state.
    #[cfg(test)]
    pub(super) fn n_remembered(&self) -> usize {
        self.steps.len()
    }
}
