//! A generator that plays back chosen blocks, so that tests can reach rare branches.

use std::collections::VecDeque;
use std::convert::Infallible;

use chacha20::rand_core::TryRng;

use super::words::Words;

/// Plays back blocks of 96 bits; panics if asked for more than it was given.
pub(super) struct Script(VecDeque<u8>);

impl Script {
    /// Blocks as (high 32 bits, low 64 bits).
    pub(super) fn new(blocks: &[(u32, u64)]) -> Self {
        let bytes =
            |&(high, low): &(u32, u64)| low.to_le_bytes().into_iter().chain(high.to_le_bytes());
        Self(blocks.iter().flat_map(bytes).collect())
    }

    /// Words over the script without prefetching.
    pub(super) const fn words(&mut self) -> Words<'_, Self> {
        Words::new(self, 0)
    }

    /// Blocks not yet used.
    pub(super) fn n_left(&self) -> usize {
        self.0.len() / 12
    }
}

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("the sampler asks for bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("the sampler asks for bytes")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for byte in bytes {
            *byte = self.0.pop_front().expect("the script has run out");
        }
        Ok(())
    }
}
