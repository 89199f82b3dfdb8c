//! Where parameters start.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// Standard deviation of initial embeddings.
pub(super) const INITIAL_STDDEV: f64 = 0.1;

/// `n` normal numbers.
pub(super) fn normals<R: Rng + ?Sized>(n: usize, stddev: f64, rng: &mut R) -> Vec<f64> {
    let draw = |_| {
        let normal: f64 = StandardNormal.sample(rng);
        stddev * normal
    };
    (0..n).map(draw).collect()
}
