//! My targets are counts. How do I learn with my own loss?
//!
//! `cargo run --release -p dp-examples --example your_own_loss`

use dp_fedsgd::{
    Adjacency, ApproxDp, Budget, HeldBatches, Ledger, NoiseSource, PersonalizedObjective, Point,
    PpSgdParams, Trainer, UserSamplesBuilder,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, Poisson};

/// Poisson regression: `log E[y] = <w, x> + theta_i`, with shared slopes and an intercept for each
/// user.
struct Counts {
    dim: usize,
}

impl Counts {
    /// `E[y] - y`, the derivative of `exp(s) - y s` in the score `s`. It is unbounded; clipping
    /// bounds it.
    fn residual(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
        self.score(at, x).exp() - f64::from(y)
    }

    fn score(&self, at: Point<'_>, x: &[f32]) -> f64 {
        let terms = at.shared[..self.dim].iter().zip(x);
        at.local[0] + terms.map(|(w, &x)| w * f64::from(x)).sum::<f64>()
    }
}

impl PersonalizedObjective for Counts {
    fn n_features(&self) -> usize {
        self.dim
    }

    fn n_shared(&self) -> usize {
        self.dim
    }

    fn n_local(&self) -> usize {
        1
    }

    fn loss(&self, at: Point<'_>, x: &[f32], y: f32) -> f64 {
        let score = self.score(at, x);
        score.exp() - f64::from(y) * score
    }

    fn grad_shared(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        let residual = self.residual(at, x, y);
        for (out, &x) in out.iter_mut().zip(x) {
            *out += residual * f64::from(x);
        }
    }

    fn grad_local(&self, at: Point<'_>, x: &[f32], y: f32, out: &mut [f64]) {
        out[0] += self.residual(at, x, y);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (slopes, n_users) = ([0.5_f32, -0.3], 5_000_u16);
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    let mut rows = UserSamplesBuilder::new(slopes.len(), 8)?;
    for user in 0..n_users {
        let level: f32 = rng.random_range(-1.0..1.0);
        for _ in 0..8 {
            let x = [rng.random_range(-1.0..1.0_f32), rng.random_range(-1.0..1.0)];
            let score = level + slopes[0] * x[0] + slopes[1] * x[1];
            let y = Poisson::new(score.exp())?.sample(rng);
            rows.push(user.into(), &x, y)?;
        }
    }
    // a user with absurd counts has no more influence than any other user
    rows.push(n_users.into(), &[1.0, 1.0], 1e9)?;
    let rows = rows.build().0;

    let (target, adjacency) = (ApproxDp::target(1.0, 1e-6)?, Adjacency::AddRemoveUser);
    let objective = Counts { dim: slopes.len() };
    let fit = PpSgdParams::new(1.0, 0.5, 0.5, 100, f64::from(n_users)).check()?;
    let plan = fit.plan(objective.n_shared(), target, adjacency)?;
    let mut ledger = Ledger::in_memory("made counts", Budget::new(target, adjacency)?)?;
    let batches = HeldBatches::new(&rows, 8)?;
    let noise = &mut NoiseSource::operating_system();
    let trainer = fit.with(&objective);
    let fitted = trainer.fit(&batches, &plan, ledger.reserve(&plan)?, noise)?;
    println!(
        "true slopes {slopes:?}, learned {:.3?}",
        fitted.model.shared.last()
    );
    Ok(())
}
