//! Reproducible pseudo-random numbers.

/// `SplitMix64`: reproducible, and good enough to choose test cases.
#[derive(Debug, Clone)]
pub(crate) struct Draw(pub u64);

impl Draw {
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `n` - 1.
    #[allow(clippy::cast_possible_truncation, reason = "below a usize")]
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// In [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Uniform on a logarithmic scale.
    pub(crate) fn log(&mut self, low: f64, high: f64) -> f64 {
        let x = libm::exp(libm::log(low) + self.unit() * libm::log(high / low));
        x.clamp(low, high)
    }

    pub(crate) fn whole(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// Uniform on a logarithmic scale.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range"
    )]
    pub(crate) fn log_whole(&mut self, low: u64, high: u64) -> u64 {
        (self.log(low as f64, high as f64).round() as u64).clamp(low, high)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A sampling probability: tiny, ordinary or close to 1.
    pub(crate) fn probability(&mut self) -> f64 {
        match self.whole(0, 3) {
            0 => self.log(1e-7, 1e-3),
            1 => 1.0 - self.log(1e-7, 0.3),
            _ => self.log(1e-3, 0.6),
        }
    }
}
