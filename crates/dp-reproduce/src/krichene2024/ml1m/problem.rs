//! Input and output of a method.

use std::sync::Arc;

use dp_core::{ApproxDp, Interactions, InteractionsBuilder, Private, UserRow};
use dp_multitask::FactorModel;
use dp_pubfeat::{ItemFeatures, UserStep};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use dp_personal::error::Result;

/// Kind of users' records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Feedback {
    /// Ratings, to be predicted.
    Ratings,
    /// Items that users liked, for ranked lists.
    Likes,
}

/// A table to learn from, and a budget.
pub(super) struct Problem<'a> {
    pub(super) features: &'a Arc<ItemFeatures>,
    pub(super) train: &'a Private<Interactions>,
    pub(super) feedback: Feedback,
    /// Whether new items are publicly known to have no training records.
    pub(super) without_new: bool,
    pub(super) target: ApproxDp,
    pub(super) seed: u64,
}

/// A trained model, in which any user can fold in.
pub(super) trait Model {
    /// Scores of all items for a user with these records.
    fn scores(&self, user: UserRow<'_>) -> Result<Vec<f64>>;
}

impl Model for FactorModel {
    fn scores(&self, user: UserRow<'_>) -> Result<Vec<f64>> {
        let (personal, n_items) = (self.fold_in(user)?, self.n_items());
        let scores = (0..n_items).map(|item| self.predict(&personal, item));
        Ok(scores.collect())
    }
}

/// Item vectors and the exact user step.
pub(super) struct ItemVectors {
    pub(super) step: UserStep,
    pub(super) dim: usize,
    pub(super) vectors: Vec<f64>,
    pub(super) feedback: Feedback,
    /// Time of the fit, excluding the calibration of the noise.
    pub(super) seconds: f64,
}

impl Model for ItemVectors {
    fn scores(&self, user: UserRow<'_>) -> Result<Vec<f64>> {
        let (v, dim) = (&self.vectors, self.dim);
        let personal = match self.feedback {
            Feedback::Ratings => self.step.fold_in(v, dim, user)?,
            Feedback::Likes => {
                let n_items = v.len() / dim;
                let mut alone = InteractionsBuilder::new(n_items);
                push_with_zeros(&mut alone, n_items, 0, user)?;
                alone.ensure_users(1); // a user without likes still has a row
                self.step.fold_in(v, dim, alone.build().0.user(0))?
            }
        };
        let items = v.chunks_exact(dim);
        Ok(items.map(|v| personal.predict(v)).collect())
    }
}

/// Likes, and for every user an equal number of items drawn from the others, with value 0, which
/// represent the items without interaction. A function of the user's own records and of public
/// numbers.
pub(super) fn with_zeros(likes: &Private<Interactions>) -> Result<Private<Interactions>> {
    let n_items = likes.expose().n_items();
    let mut out = InteractionsBuilder::new(n_items);
    for (number, user) in (0_u32..).zip(likes.expose().users()) {
        push_with_zeros(&mut out, n_items, number, user)?;
    }
    out.ensure_users(likes.expose().n_users());
    Ok(Private::new(out.build().0))
}

fn push_with_zeros(
    out: &mut InteractionsBuilder,
    n_items: usize,
    number: u32,
    user: UserRow<'_>,
) -> Result<()> {
    for &item in user.items() {
        out.push(number, item, 1.0)
            .map_err(dp_pubfeat::Error::from)?;
    }
    let free = n_items.saturating_sub(user.len());
    let seed = user.items().iter().map(|&j| u64::from(j)).sum();
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut drawn: Vec<u32> = Vec::new();
    while drawn.len() < user.len().min(free) {
        let item = rng.random_range(0..u32::try_from(n_items).unwrap_or(u32::MAX));
        if user.items().binary_search(&item).is_err() && !drawn.contains(&item) {
            out.push(number, item, 0.0)
                .map_err(dp_pubfeat::Error::from)?;
            drawn.push(item);
        }
    }
    Ok(())
}
