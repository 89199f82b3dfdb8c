//! Fetching rows into the cache before they are needed.

use std::ops::Range;

/// Rows that the next block will gather. Fetching them during the arithmetic of this block hides
/// the latency of memory, which otherwise costs as much as the arithmetic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead<'a> {
    /// Where the rows begin; never read through, so its element type does not matter.
    factors: *const u8,
    row_bytes: usize,
    /// Whether a row may end on one line more than its length fills.
    straddles: bool,
    indices: &'a [u32],
}

impl<'a> Ahead<'a> {
    /// Nothing to fetch.
    pub(crate) const NONE: Self = Self {
        factors: std::ptr::null(),
        row_bytes: 0,
        straddles: false,
        indices: &[],
    };

    pub(crate) fn new<T>(factors: &[T], indices: &'a [u32], dim: usize) -> Self {
        let row_bytes = dim * size_of::<T>();
        let aligned = factors.as_ptr().addr().is_multiple_of(CACHE_LINE);
        Self {
            factors: factors.as_ptr().cast(),
            row_bytes,
            straddles: !(aligned && row_bytes.is_multiple_of(CACHE_LINE)),
            indices,
        }
    }

    /// Fetches the rows that fall to `share` of `work`. A hint only: it reads nothing and cannot
    /// fault.
    #[inline(always)]
    pub(super) fn fetch(&self, share: Range<usize>, work: usize) {
        let n = self.indices.len();
        let indices = &self.indices[share.start * n / work..share.end * n / work];
        // as many fetches for every row: no branch to mispredict
        match self.row_bytes.div_ceil(CACHE_LINE) {
            1 => self.fetch_rows(indices, 1),
            2 => self.fetch_rows(indices, 2),
            4 => self.fetch_rows(indices, 4),
            8 => self.fetch_rows(indices, 8),
            n_lines => self.fetch_rows(indices, n_lines),
        }
    }

    /// Inlined with a constant number of lines, so that the short loop over them unrolls.
    #[inline(always)]
    fn fetch_rows(&self, indices: &[u32], n_lines: usize) {
        for &index in indices {
            let row = self.row(index);
            for line in 0..n_lines {
                prefetch(row.wrapping_byte_add(line * CACHE_LINE));
            }
            if self.straddles {
                prefetch(row.wrapping_byte_add(self.row_bytes - 1));
            }
        }
    }

    #[inline(always)]
    fn row(&self, index: u32) -> *const u8 {
        self.factors.wrapping_add(index as usize * self.row_bytes)
    }
}

/// Memory that is read soon. It is fetched bit by bit into the second-level cache, between other work, so that neither waits for the other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Upcoming {
    /// Never read through.
    address: usize,
    n_lines: usize,
}

impl Upcoming {
    /// From one address up to another.
    pub(crate) fn new(addresses: Range<usize>) -> Self {
        Self {
            address: addresses.start,
            n_lines: addresses.len().div_ceil(CACHE_LINE),
        }
    }

    /// Fetches the next so many lines, if there are that many. A hint only.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, n_lines: usize) {
        let n_lines = n_lines.min(self.n_lines);
        for line in 0..n_lines {
            prefetch_second_level(std::ptr::without_provenance::<u8>(
                self.address.wrapping_add(line * CACHE_LINE),
            ));
        }
        self.address = self.address.wrapping_add(n_lines * CACHE_LINE);
        self.n_lines -= n_lines;
    }
}

/// Bytes moved by one fetch.
const CACHE_LINE: usize = 64;

/// Starts to fetch a slice into the cache. A hint only.
#[inline]
pub(crate) fn fetch_lines<T>(slice: &[T]) {
    let start: *const u8 = slice.as_ptr().cast();
    for offset in (0..size_of_val(slice)).step_by(CACHE_LINE) {
        prefetch(start.wrapping_add(offset));
    }
}

#[inline(always)]
fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is allowed, and SSE belongs to every x86-64 processor.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[inline(always)]
fn prefetch_second_level<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
