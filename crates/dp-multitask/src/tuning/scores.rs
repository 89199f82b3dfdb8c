//! How well each candidate predicts what its user held out.

use dp_core::{Interactions, InteractionsBuilder, UserRow};
use dp_mechanism::{SparseBuffer, VectorContribution};

use crate::allocation::{fingerprint, mix};
use crate::{FactorModel, Result};

/// Length of the lists that are scored with implicit feedback.
const LIST_LENGTH: usize = 20;
/// Keeps rounding from pushing a contribution over its bound, where the kernel would drop it.
const INSIDE: f64 = 1.0 - 1e-12;

/// Which of a user's records are held out from training, by a hash of the user's own records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HeldOut {
    pub(super) fraction: f64,
    pub(super) seed: u64,
}

impl HeldOut {
    /// The training part of all users: a function of each user's own records.
    pub(super) fn training_part(self, data: &Interactions) -> Option<Interactions> {
        let own: Vec<u64> = data
            .users()
            .map(|row| fingerprint(self.seed, row))
            .collect();
        let part = |user: usize, item, _| usize::from(self.holds(own[user], item));
        data.partition(1, part).pop()
    }

    fn holds(self, fingerprint: u64, item: u32) -> bool {
        let draw = mix(fingerprint ^ mix(u64::from(item)));
        let uniform = (draw >> 11) as f64 / (1_u64 << 53) as f64;
        uniform < self.fraction
    }

    /// One user's records for the local step, and those held out.
    fn parts(self, user: UserRow<'_>, n_items: usize) -> Option<[Interactions; 2]> {
        let fingerprint = fingerprint(self.seed, user);
        let mut parts = [n_items; 2].map(InteractionsBuilder::new);
        for (item, value) in user.iter() {
            parts[usize::from(self.holds(fingerprint, item))]
                .push(0, item, value)
                .ok()?;
        }
        Some(parts.map(|mut part| {
            part.ensure_users(1);
            part.build().0
        }))
    }
}

/// One user's share of the losses of all candidates.
///
/// ```text
/// l_c = sum over the user's held-out records of (rating - prediction of candidate c)^2
///       or, with implicit feedback, minus how many of them are in candidate c's list of 20
/// s_c = l_c - mean_c l_c,    the vector s shortened to the clip norm
/// ```
///
/// What all candidates lose alike says nothing about which is best, and without it the bound is on the
/// differences.
///
/// # Privacy
/// `||s|| <= clip_norm` by construction, and the kernel checks it: the L2 sensitivity under add/remove is the clip
/// norm. The share is a function of the user's own records, released models and public constants.
pub(super) struct ValidationScores<'a> {
    pub(super) models: Vec<&'a FactorModel>,
    pub(super) held_out: HeldOut,
    pub(super) clip_norm: f64,
}

impl ValidationScores<'_> {
    fn losses(&self, user: UserRow<'_>) -> Option<Vec<f64>> {
        let n_items = self.models.iter().map(|m| m.n_items()).min().unwrap_or(0);
        let [own, held_out] = self.held_out.parts(user, n_items)?;
        let (own, held_out) = (own.user(0), held_out.user(0));
        if held_out.is_empty() {
            return None;
        }
        self.models
            .iter()
            .map(|model| loss(model, own, held_out).ok())
            .collect()
    }
}

fn loss(model: &FactorModel, own: UserRow<'_>, held_out: UserRow<'_>) -> Result<f64> {
    let personal = model.fold_in(own)?;
    if model.scoring().unobserved_weight.is_some() {
        let list = model.recommend(&personal, LIST_LENGTH, own.items())?;
        let hits = list
            .iter()
            .filter(|(item, _)| held_out.items().binary_search(item).is_ok());
        return Ok(-(hits.count() as f64));
    }
    let errors = held_out
        .iter()
        .map(|(item, y)| f64::from(y) - model.predict(&personal, item as usize));
    Ok(errors.map(|e| e * e).sum())
}

impl VectorContribution for ValidationScores<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        // a user with nothing held out adds nothing
        let Some(mut losses) = self.losses(user) else {
            return;
        };
        let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        losses.iter_mut().for_each(|l| *l -= mean);
        let norm = losses.iter().map(|l| l * l).sum::<f64>().sqrt();
        let scale = INSIDE * (self.clip_norm / norm).min(1.0);
        for (candidate, l) in (0..).zip(&losses) {
            out.push(candidate, scale * l);
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::ApproxDp;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;
    use crate::{FactorizationParams, Provenance};

    /// Models of the same length that predict the centre plus this much for every item.
    fn models(biases: &[f64]) -> Vec<FactorModel> {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let scoring = FactorizationParams::for_target(target).scoring(1);
        let model = |&bias| FactorModel::new(scoring, vec![bias; 30], Provenance::Private);
        biases.iter().map(|bias| model(bias).unwrap()).collect()
    }

    fn row(value: impl Fn(u32) -> f32) -> Interactions {
        let mut builder = InteractionsBuilder::new(30);
        (0..30).for_each(|item| builder.push(0, item, value(item)).unwrap());
        builder.build().0
    }

    #[test]
    fn a_user_adds_bounded_differences_and_wild_ratings_are_not_rejected() {
        let models = models(&[0.0, 0.5, -2.0]);
        let scores = ValidationScores {
            models: models.iter().collect(),
            held_out: HeldOut {
                fraction: 0.3,
                seed: 5,
            },
            clip_norm: 2.0,
        };
        let grid = Grid::new(3.0, 2.0).unwrap();
        let share = |table: &Interactions| {
            let entries = vector_contribution(&grid, 3, &scores, table.user(0));
            let squares = entries.iter().map(|(_, z)| (*z as f64).powi(2));
            let norm = squares.sum::<f64>().sqrt() / grid.l2_bound() as f64;
            (entries, norm)
        };
        // so little between the models that nothing is clipped: the differences add up to nothing
        let (entries, norm) = share(&row(|item| 3.0 + (item % 2) as f32 / 1e3));
        assert!(norm > 0.99 && norm <= 1.0, "{norm}");
        let sum: i64 = entries.iter().map(|(_, z)| z).sum();
        assert!(sum.unsigned_abs() < grid.l2_bound() >> 18);
        // so large that rounding hides what the models differ by, the loss says nothing
        for (wild, least) in [(1e6, 0.99), (-3e38, 0.0)] {
            let (_, norm) = share(&row(|item| if item == 7 { wild } else { 3.0 }));
            assert!((least..=1.0).contains(&norm), "{wild}: {norm}");
        }
        let mut nobody = InteractionsBuilder::new(30);
        nobody.ensure_users(1);
        assert!(share(&nobody.build().0).0.is_empty());
    }

    #[test]
    fn what_is_held_out_follows_from_the_user_alone_and_in_the_stated_share() {
        let held_out = HeldOut {
            fraction: 0.25,
            seed: 1,
        };
        let mut builder = InteractionsBuilder::new(400);
        for user in 0..200 {
            (0..400).for_each(|item| builder.push(user, item, user as f32).unwrap());
        }
        let data = builder.build().0;
        let train = held_out.training_part(&data).unwrap();
        // 80,000 draws: five deviations are .0077
        let share = train.n_records() as f64 / data.n_records() as f64;
        assert!((share - 0.75).abs() < 0.0077, "{share}");
        for (all, kept) in data.users().zip(train.users()) {
            let [own, rest] = held_out.parts(all, 400).unwrap();
            assert_eq!(own.user(0).items(), kept.items());
            assert_eq!(own.n_records() + rest.n_records(), 400);
        }
    }
}
