//! How candidates compared, from their released scores.

use serde::{Deserialize, Serialize};

use super::statement::fact;

/// The candidates of `dp tune` and what was released about them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// As they were given.
    pub(crate) candidates: Vec<String>,
    /// Released scores, smallest best.
    pub(crate) scores: Vec<f64>,
    /// Noise in each of them.
    pub(crate) noise_stddev: f64,
    /// Place of the chosen one, from 0.
    pub(crate) chosen: usize,
}

impl Comparison {
    /// Names and values for the terminal, a candidate each.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let scored = self.candidates.iter().zip(&self.scores).enumerate();
        let mut facts: Vec<_> = scored
            .map(|(at, (name, score))| {
                let head = if at == 0 { "candidates" } else { "" };
                let mark = if at == self.chosen { "  <- chosen" } else { "" };
                fact(head, format!("{name}: {score:+.1}{mark}"))
            })
            .collect();
        let noise = self.noise_stddev;
        let words = format!("excess loss of each, released with noise of {noise:.1}");
        facts.push(fact("", words));
        facts
    }
}
