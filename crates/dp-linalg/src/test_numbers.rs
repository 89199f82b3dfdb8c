//! A fixed pseudo-random sequence of numbers for tests.

/// `SplitMix64`: Steele, Lea and Flood 2014.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number from 0 to `bound - 1`.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound)).unwrap()
    }

    /// Whole numbers from `-bound` to `bound`.
    pub(crate) fn integers(&mut self, n: usize, bound: u32) -> Vec<f64> {
        let mut draw = || f64::from(self.below(2 * bound + 1)) - f64::from(bound);
        (0..n).map(|_| draw()).collect()
    }

    /// Numbers between -1 and 1.
    pub(crate) fn reals(&mut self, n: usize) -> Vec<f64> {
        let scale = f64::from(u32::MAX);
        let mut draw = || f64::from(self.below(u32::MAX)) / scale * 2.0 - 1.0;
        (0..n).map(|_| draw()).collect()
    }
}
