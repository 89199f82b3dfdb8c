//! One alpha for everybody, chosen by users' losses: charged.

use dp_core::{Interactions, InteractionsBuilder, Private, UserRow};
use dp_fedsgd::{AlphaSelection, Trainer as _};
use dp_mechanism::Run;

use crate::error::Result;

/// Public settings of a choice.
pub(super) struct Choice {
    pub(super) n_runs: usize,
    /// How far a user's losses may differ before they are cut.
    pub(super) range: f64,
}

impl Choice {
    /// Selects a run by the users' losses on their own validation rows.
    ///
    /// A user's losses are taken against their own mean and put in the middle of the range: what all alphas lose alike says nothing of
    /// which is best.
    ///
    /// # Privacy
    /// The losses are computed from the user's own rows and from released models, and the selection clamps them to the range.
    pub(super) fn choose(
        &self,
        selection: &AlphaSelection,
        losses: &[Option<Vec<f64>>],
        run: &mut Run<'_>,
    ) -> Result<usize> {
        let table = table_of(losses, self.n_runs, self.range)?;
        let loss = |user: UserRow<'_>, run: usize| f64::from(user.features()[run]);
        let among = selection.among(self.n_runs, loss);
        Ok(among.train(&table, run)?)
    }
}

/// A row for every user, also for those without a loss.
fn table_of(
    losses: &[Option<Vec<f64>>],
    n_runs: usize,
    range: f64,
) -> Result<Private<Interactions>> {
    let mut builder = InteractionsBuilder::new(1).with_feature_dim(n_runs);
    for (user, losses) in (0..).zip(losses) {
        let cells = match losses {
            Some(losses) => centred(losses, range),
            None => vec![to_f32(0.5 * range); n_runs],
        };
        builder.push(user, 0, 1.0).map_err(dp_data::Error::from)?;
        builder
            .set_features(user, &cells)
            .map_err(dp_data::Error::from)?;
    }
    Ok(Private::new(builder.build().0))
}

/// Losses less their mean, in the middle of the range; one that is not finite is the worst.
fn centred(losses: &[f64], range: f64) -> Vec<f32> {
    let finite: Vec<f64> = losses.iter().copied().filter(|l| l.is_finite()).collect();
    let mean = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
    let place = |&loss: &f64| {
        let moved = loss - mean + 0.5 * range;
        to_f32(if moved.is_finite() {
            moved.clamp(0.0, range)
        } else {
            range
        })
    };
    losses.iter().map(place).collect()
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "tables are in single precision"
)]
const fn to_f32(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_alphas_lose_alike_does_not_count() {
        let close = |found: Vec<f32>, expected: [f32; 3]| {
            let gap = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            assert!(gap.fold(0.0, f32::max) < 1e-6, "{found:?}");
        };
        close(centred(&[7.0, 7.02, 6.98], 0.1), [0.05, 0.07, 0.03]);
        close(centred(&[0.0, 9.0, 0.0], 0.1), [0.0, 0.1, 0.0]);
        close(centred(&[1.0, f64::NAN, 1.0], 0.2), [0.1, 0.2, 0.1]);
        close(centred(&[f64::INFINITY; 3], 0.2), [0.2, 0.2, 0.2]);
    }
}
