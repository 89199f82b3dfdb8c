//! Rows of a sum: their positions and how far each can be read.

use std::ops::Range;

use super::dispatch::{Kernel, Operation};
use super::lanes::Lanes;

/// `count` rows that start `stride` elements apart, each readable for `width` elements.
///
/// A row's own numbers are its first `dim <= width` elements. They may be followed by zeros or the
/// next row: kernels multiply these like the rest, and the results land in padding that is never
/// read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    data: &'a [T],
    stride: usize,
    count: usize,
    width: usize,
}

impl<'a, T> Rows<'a, T> {
    /// # Panics
    /// If the last row is not readable for `width` elements.
    pub(crate) fn new(data: &'a [T], stride: usize, count: usize, width: usize) -> Self {
        let last = count.saturating_sub(1).checked_mul(stride);
        let end = last.and_then(|last| last.checked_add(width));
        assert!(count == 0 || end.is_some_and(|end| end <= data.len()));
        Self {
            data,
            stride,
            count,
            width,
        }
    }

    /// The number of rows, out of `count` packed `stride` apart in `len` elements, that can be read
    /// for `width`.
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

impl<T: Copy> RowSource<T> for Rows<'_, T> {
    type Starts = Spaced<T>;

    fn count(&self) -> usize {
        self.count
    }

    fn width(&self) -> usize {
        self.width
    }

    fn starts(&self) -> Spaced<T> {
        Spaced::new(self.data.as_ptr(), self.stride)
    }
}

/// Selected rows of a table, read in place: equivalent to [`Rows`] of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChosenRows<'a, T> {
    table: &'a [T],
    indices: &'a [u32],
    stride: usize,
    width: usize,
}

impl<'a, T> ChosenRows<'a, T> {
    /// Rows `indices` of a table whose rows have length `stride`, each readable for `width`
    /// elements; `None` if the table ends before that.
    pub(crate) fn new(
        table: &'a [T],
        indices: &'a [u32],
        stride: usize,
        width: usize,
    ) -> Option<Self> {
        let last = indices.iter().copied().max().unwrap_or(0) as usize;
        let end = last.checked_mul(stride)?.checked_add(width)?;
        (end <= table.len()).then_some(Self {
            table,
            indices,
            stride,
            width,
        })
    }
}

impl<'a, T: Copy> RowSource<T> for ChosenRows<'a, T> {
    type Starts = Listed<'a, T>;

    fn count(&self) -> usize {
        self.indices.len()
    }

    fn width(&self) -> usize {
        self.width
    }

    fn starts(&self) -> Listed<'a, T> {
        Listed {
            first: self.table.as_ptr(),
            indices: self.indices,
            stride: self.stride,
        }
    }
}

/// Rows that are known to be readable for `width` elements each.
pub(crate) trait RowSource<T>: Copy {
    /// The addresses of its rows.
    type Starts: RowStarts<T>;

    fn count(&self) -> usize;

    fn width(&self) -> usize;

    /// Row r below `count` starts at `start(r)` and can be read for `width`.
    fn starts(&self) -> Self::Starts;
}

/// The address of each row.
pub(crate) trait RowStarts<T>: Copy {
    /// # Safety
    /// Row `row` exists.
    unsafe fn start(self, row: usize) -> *const T;

    /// The addresses moved forward by `columns`.
    fn shifted(self, columns: usize) -> Self;
}

/// Rows at equal distances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spaced<T> {
    first: *const T,
    stride: usize,
}

impl<T> Spaced<T> {
    pub(super) fn new(first: *const T, stride: usize) -> Self {
        Self { first, stride }
    }
}

impl<T: Copy> RowStarts<T> for Spaced<T> {
    #[inline(always)]
    unsafe fn start(self, row: usize) -> *const T {
        self.first.wrapping_add(row * self.stride)
    }

    #[inline(always)]
    fn shifted(self, columns: usize) -> Self {
        Self::new(self.first.wrapping_add(columns), self.stride)
    }
}

/// Rows given by a list of indices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed<'a, T> {
    first: *const T,
    indices: &'a [u32],
    stride: usize,
}

impl<T: Copy> RowStarts<T> for Listed<'_, T> {
    #[inline(always)]
    unsafe fn start(self, row: usize) -> *const T {
        // SAFETY: there is an index for each row.
        let index = unsafe { *self.indices.get_unchecked(row) };
        self.first.wrapping_add(index as usize * self.stride)
    }

    #[inline(always)]
    fn shifted(self, columns: usize) -> Self {
        Self {
            first: self.first.wrapping_add(columns),
            ..self
        }
    }
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
    /// If a buffer is shorter than `indices.len() * width`, or `width` is below `dim`.
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

/// Rows that the next block will gather. Prefetching them during the arithmetic of this block hides
/// the latency of memory, which otherwise costs as much as the arithmetic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prefetch<'a> {
    /// The address of the rows; never dereferenced, so its element type does not matter.
    factors: *const u8,
    row_bytes: usize,
    /// Whether a row may extend over one more cache line than its length requires.
    straddles: bool,
    indices: &'a [u32],
}

impl<'a> Prefetch<'a> {
    /// Nothing to prefetch.
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

    /// Prefetches the rows that correspond to `share` of `work`. Only a hint: it reads nothing and
    /// cannot fault.
    #[inline(always)]
    pub(super) fn fetch(&self, share: Range<usize>, work: usize) {
        let n = self.indices.len();
        let indices = &self.indices[share.start * n / work..share.end * n / work];
        // the same number of fetches for every row, so that no branch is mispredicted
        match self.row_bytes.div_ceil(CACHE_LINE) {
            1 => self.fetch_rows(indices, 1),
            2 => self.fetch_rows(indices, 2),
            4 => self.fetch_rows(indices, 4),
            8 => self.fetch_rows(indices, 8),
            n_lines => self.fetch_rows(indices, n_lines),
        }
    }

    /// Inlined with a constant number of lines, so that the short loop over them is unrolled.
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

/// Memory that will be read soon. It is prefetched gradually into the second-level cache, between
/// other work, so that neither waits for the other.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Upcoming {
    /// Never dereferenced.
    address: usize,
    n_lines: usize,
}

impl Upcoming {
    /// The range from one address to another.
    pub(crate) fn new(addresses: Range<usize>) -> Self {
        Self {
            address: addresses.start,
            n_lines: addresses.len().div_ceil(CACHE_LINE),
        }
    }

    /// Prefetches the next `n_lines` cache lines, if there are that many. Only a hint.
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

/// Prefetches a slice into the cache. Only a hint.
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
