//! Random bits in blocks of 96, fetched from the generator in bulk.

use chacha20::rand_core::Rng;
use zeroize::Zeroize;

const BLOCK_BYTES: usize = 12;
const N_BLOCKS: usize = 128;

/// 96 uniform bits.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) high: u32,
    pub(super) low: u64,
}

impl Block {
    #[inline(always)]
    const fn from_bytes(bytes: &[u8; BLOCK_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, rest @ ..] = *bytes;
        Self {
            high: u32::from_le_bytes(rest),
            low: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        }
    }
}

/// A buffer of random blocks in front of a generator; overwritten when dropped.
pub(super) struct Words<'r, R: Rng + ?Sized> {
    rng: &'r mut R,
    bytes: [u8; BLOCK_BYTES * N_BLOCKS],
    next: usize,
    /// Number of blocks still expected to be used; only affects how much is fetched.
    expected: usize,
}

impl<'r, R: Rng + ?Sized> Words<'r, R> {
    /// An empty buffer for about `expected` blocks.
    pub(super) const fn new(rng: &'r mut R, expected: usize) -> Self {
        Self {
            rng,
            bytes: [0; BLOCK_BYTES * N_BLOCKS],
            next: N_BLOCKS,
            expected,
        }
    }

    /// 96 fresh uniform bits.
    #[inline(always)]
    pub(super) fn block(&mut self) -> Block {
        let (blocks, _) = self.bytes.as_chunks::<BLOCK_BYTES>();
        if let Some(block) = blocks.get(self.next) {
            self.next = self.next.wrapping_add(1);
            return Block::from_bytes(block);
        }
        self.refill()
    }

    /// 64 fresh uniform bits; the rest of their block is discarded.
    pub(super) fn word(&mut self) -> u64 {
        self.block().low
    }

    /// 128 fresh uniform bits.
    pub(super) fn double_word(&mut self) -> u128 {
        (u128::from(self.word()) << 64) | u128::from(self.word())
    }

    /// Fetches more blocks into the end of the buffer and returns the first of them.
    #[inline(never)]
    fn refill(&mut self) -> Block {
        let fetched = self.expected.clamp(1, N_BLOCKS);
        self.expected = self.expected.saturating_sub(fetched);
        let first = N_BLOCKS.saturating_sub(fetched);
        self.next = first.wrapping_add(1);
        let (blocks, _) = self.bytes.as_chunks_mut::<BLOCK_BYTES>();
        let fresh = blocks.get_mut(first..).unwrap_or_default();
        self.rng.fill_bytes(fresh.as_flattened_mut());
        Block::from_bytes(&fresh.first().copied().unwrap_or_default())
    }
}

impl<R: Rng + ?Sized> Drop for Words<'_, R> {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}
