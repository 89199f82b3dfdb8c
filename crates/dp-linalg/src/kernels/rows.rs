//! Blocks of rows with room to read past their end, and the copy that makes such blocks.

use std::ops::Range;

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;

/// `count` rows that start `stride` elements apart, each readable for `width` elements.
///
/// A row's own numbers are its first `dim <= width` elements. What follows may be zeros or the
/// next row: kernels multiply it like the rest, and the results land in padding that nobody reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    data: &'a [T],
    stride: usize,
    count: usize,
    width: usize,
}

impl<'a, T> Rows<'a, T> {
    /// # Panics
    /// When the last row is not readable for `width` elements.
    pub(crate) fn new(data: &'a [T], stride: usize, count: usize, width: usize) -> Self {
        assert!(count == 0 || (count - 1) * stride + width <= data.len());
        Self {
            data,
            stride,
            count,
            width,
        }
    }

    /// How many of `count` rows, packed `stride` apart in `len` elements, can be read for `width`.
    pub(crate) fn readable(len: usize, stride: usize, count: usize, width: usize) -> usize {
        match len.checked_sub(width) {
            Some(room) => count.min(room / stride + 1),
            None => 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Start of the first row; row r starts `r * stride` further and can be read for `width`.
    pub(super) fn as_ptr(&self) -> *const T {
        self.data.as_ptr()
    }
}

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
        let bytes = self.row_bytes;
        for &index in &self.indices[share.start * n / work..share.end * n / work] {
            let row = self.factors.wrapping_add(index as usize * bytes);
            // as many fetches for every row: no branch to mispredict
            for offset in (0..bytes).step_by(CACHE_LINE) {
                prefetch(row.wrapping_byte_add(offset));
            }
            if self.straddles {
                prefetch(row.wrapping_byte_add(bytes - 1));
            }
        }
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

/// Copies rows `indices` of `factors` into `out`, padded with zeros to `width`; with weights,
/// also the rows times their weights into `scaled`.
#[derive(Debug)]
pub(crate) struct Gather<'a, T> {
    factors: &'a [T],
    indices: &'a [u32],
    dim: usize,
    width: usize,
    out: &'a mut [T],
    scaled: Option<(&'a [T], &'a mut [T])>,
}

impl<'a, T> Gather<'a, T> {
    /// The caller has checked that `indices` are below `factors.len() / dim`.
    ///
    /// # Panics
    /// When a buffer is shorter than `indices.len() * width`, or `width` below `dim`.
    pub(crate) fn new(
        factors: &'a [T],
        indices: &'a [u32],
        dim: usize,
        width: usize,
        out: &'a mut [T],
        scaled: Option<(&'a [T], &'a mut [T])>,
    ) -> Self {
        assert!(dim <= width && indices.len() * width <= out.len());
        if let Some((weights, scaled)) = &scaled {
            assert!(weights.len() == indices.len() && scaled.len() >= indices.len() * width);
        }
        Self {
            factors,
            indices,
            dim,
            width,
            out,
            scaled,
        }
    }
}

impl<T: Kernel> Operation<T> for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = T>, const MR: usize>(self) {
        let Self { dim, width, .. } = self;
        let mut scaled = self.scaled;
        for (r, &index) in self.indices.iter().enumerate() {
            let row = &self.factors[index as usize * dim..][..dim];
            for col in (0..width).step_by(L::WIDTH) {
                // SAFETY: `row` has dim elements, of which at most dim - col are read from col on
                // (`width` is dim rounded up to WIDTH, so col < dim); row r of `out` and of
                // `scaled` has `width` elements by the constructor's assertion.
                unsafe {
                    let x = L::load_up_to(row.as_ptr().add(col), dim - col);
                    x.store(self.out.as_mut_ptr().add(r * width + col));
                    if let Some((weights, to)) = &mut scaled {
                        let w = L::splat(*weights.get_unchecked(r));
                        w.times(x).store(to.as_mut_ptr().add(r * width + col));
                    }
                }
            }
        }
    }
}
