//! How candidates compared, from their released scores.

use serde::{Deserialize, Serialize};

use super::statement::put;

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
    /// One line per candidate, for the terminal.
    pub(crate) fn lines(&self) -> String {
        let mut text = String::new();
        for (at, (name, score)) in self.candidates.iter().zip(&self.scores).enumerate() {
            let head = if at == 0 { "candidates" } else { "" };
            let mark = if at == self.chosen { "  <- chosen" } else { "" };
            put(&mut text, &format!("{head:<12}{name}: {score:+.1}{mark}"));
        }
        let noise = self.noise_stddev;
        let line = format!(
            "{:<12}excess loss of each, released with noise of {noise:.1}",
            ""
        );
        put(&mut text, &line);
        text
    }

    /// A section of the released report.
    pub(crate) fn section(&self) -> String {
        let mut text = String::new();
        put(&mut text, "\n## Candidates\n");
        put(
            &mut text,
            &format!(
                "Each was trained and paid for; the scores (loss above the mean of all, on ratings held out by each \
                 user, noise {:.1}) are released and covered by the guarantee, and so is the choice.\n",
                self.noise_stddev
            ),
        );
        put(&mut text, "| candidate | score | |\n|---|---|---|");
        for (at, (name, score)) in self.candidates.iter().zip(&self.scores).enumerate() {
            let mark = if at == self.chosen { "chosen" } else { "" };
            put(&mut text, &format!("| `{name}` | {score:+.1} | {mark} |"));
        }
        text
    }
}
