//! The server's side of a run: released values alone.

use super::{ClipState, KeptRound, PpSgd, Provenance, SharedModel};

/// What changes from round to round.
pub(crate) struct Run {
    shared: Vec<f64>,
    /// Sum of `w` over the starts of rounds; empty when no average is wanted.
    sum: Vec<f64>,
    clip: ClipState,
    kept: Vec<KeptRound>,
    n_rounds: usize,
}

impl Run {
    pub(crate) fn new(fit: &PpSgd, n_shared: usize) -> Self {
        Self {
            shared: vec![0.0; n_shared],
            sum: vec![0.0; if fit.params().average { n_shared } else { 0 }],
            clip: ClipState::new(fit.params().clip),
            kept: Vec::new(),
            n_rounds: 0,
        }
    }

    pub(crate) fn shared(&self) -> &[f64] {
        &self.shared
    }

    /// Clip norm of the round to come.
    pub(crate) const fn clip_norm(&self) -> f64 {
        self.clip.norm()
    }

    /// Rounds begun.
    pub(crate) const fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    pub(crate) fn begin_round(&mut self, round: usize) {
        for (sum, w) in self.sum.iter_mut().zip(&self.shared) {
            *sum += w;
        }
        self.n_rounds = round;
    }

    /// Makes the step that the released values say, if there are any; whether one was made.
    pub(crate) fn end_round(&mut self, fit: &PpSgd, values: Option<Vec<f64>>) -> bool {
        let stepped = values.is_some_and(|values| self.step(fit, values));
        let every = fit.params().keep_every;
        if every > 0 && self.n_rounds.is_multiple_of(every) {
            self.kept.push(KeptRound {
                round: self.n_rounds,
                shared: self.shared.clone(),
            });
        }
        stepped
    }

    /// `w <- w - eta_global values / (q N)`, and the clip of the next round. A round with too few clients counts for nothing but
    /// its cost.
    fn step(&mut self, fit: &PpSgd, mut values: Vec<f64>) -> bool {
        let params = fit.params();
        let layout = fit.layout(self.shared.len());
        let extras = layout.decode(self.clip.norm(), &mut values);
        let too_few = extras.count.zip(params.minimum_clients);
        if too_few.is_some_and(|(count, minimum)| count < minimum) {
            return false;
        }
        let rate = fit.step_sizes(self.n_rounds).1 / params.denominator();
        for (w, value) in self.shared.iter_mut().zip(&values) {
            *w -= rate * value;
        }
        let clients = params.expected_clients();
        let share = extras.within.map(|balance| 0.5 + 0.5 * balance / clients);
        self.clip.advance(share);
        true
    }

    pub(crate) fn into_model(self, average: bool, provenance: Provenance) -> SharedModel {
        let n = self.n_rounds.max(1) as f64;
        SharedModel {
            last: self.shared,
            average: average.then(|| self.sum.iter().map(|sum| sum / n).collect()),
            clip_norm: self.clip.norm(),
            n_rounds: self.n_rounds,
            kept: self.kept,
            provenance,
        }
    }
}
