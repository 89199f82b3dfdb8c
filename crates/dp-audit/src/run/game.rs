//! Coins and scores.

use crate::view::View;

/// Fair coins from a seed: they decide who takes part in an audit and protect nobody.
pub(super) struct Coins(u64);

impl Coins {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One coin each, by the mixing function of Steele, Lea and Flood (2014).
    pub(super) fn flip(&mut self, n: usize) -> Vec<bool> {
        (0..n)
            .map(|_| {
                self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.0;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (z ^ (z >> 31)) >> 63 == 1
            })
            .collect()
    }
}

/// `sum_t <Z, Y - S' + 1/2>` in units of the promised noise, and the squared norm of `Z` by
/// release. A residual is taken against the sum with the canary in it if it was present, so what
/// it added is put back.
pub(super) fn score(
    canary: usize,
    here: bool,
    views: &[View],
    residuals: &[(String, Vec<f64>)],
) -> (f64, Vec<f64>) {
    let mut total = 0.0;
    let mut squares = Vec::with_capacity(views.len());
    for (view, (_, residuals)) in views.iter().zip(residuals) {
        let mut square = 0.0;
        for &(at, z) in view.canaries.get(canary).into_iter().flatten() {
            let z = z as f64 / view.scale(at);
            square += z * z;
            let own = if here { z } else { 0.0 };
            total += z * (residuals.get(at).copied().unwrap_or(0.0) + own);
        }
        squares.push(square);
    }
    (total, squares)
}
