//! Sets of rows side by side: number (row, column) of every set in one vector, and back.

use super::ahead::Upcoming;
use super::dispatch::Operation;
use super::lanes::{Lanes, MOST_LANES};
use super::rows::Rows;

/// Sets that go side by side.
pub(crate) const SETS: usize = MOST_LANES;

/// One number of each of several sets.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Across(pub [f32; SETS]);

/// Prints nothing: the numbers may be private.
impl std::fmt::Debug for Across {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Across").finish_non_exhaustive()
    }
}

impl Across {
    /// The vector of the sets from `first` on.
    ///
    /// # Safety
    /// `first + L::WIDTH` is at most [`SETS`]; instructions of `L`.
    #[inline(always)]
    pub(super) unsafe fn get<L: Lanes<Scalar = f32>>(&self, first: usize) -> L {
        // SAFETY: as the caller vouches.
        unsafe { L::load(self.0.as_ptr().add(first)) }
    }

    /// Overwrites those of the sets from `first` on.
    ///
    /// # Safety
    /// As [`get`](Self::get).
    #[inline(always)]
    pub(super) unsafe fn set<L: Lanes<Scalar = f32>>(&mut self, first: usize, vector: L) {
        // SAFETY: as the caller vouches.
        unsafe { vector.store(self.0.as_mut_ptr().add(first)) }
    }
}

/// Writes number (r, c) of every set times the set's scale to `out[r dim + c]`, zero where a set has no such row, and returns the sums of the
/// squares.
#[derive(Debug)]
pub(crate) struct Interleave<'a> {
    sets: &'a [Rows<'a, f32>],
    /// Stands for rows that a set does not have.
    zeros: &'a [f32],
    scales: &'a Across,
    upcoming: &'a mut Upcoming,
    out: &'a mut [Across],
}

/// Lines that are fetched with each square of numbers that is turned over.
const LINES_AT_A_TIME: usize = 6;

impl<'a> Interleave<'a> {
    /// # Panics
    /// When there are more than [`SETS`], their rows are not as long as `zeros`, or `out` is not a whole number of rows.
    pub(crate) fn new(
        sets: &'a [Rows<'a, f32>],
        zeros: &'a [f32],
        scales: &'a Across,
        upcoming: &'a mut Upcoming,
        out: &'a mut [Across],
    ) -> Self {
        assert!(sets.len() <= SETS && out.len().is_multiple_of(zeros.len()));
        assert!(sets.iter().all(|rows| rows.width() == zeros.len()));
        Self {
            sets,
            zeros,
            scales,
            upcoming,
            out,
        }
    }

    /// The sets from `first` on, as many as a vector has lanes.
    ///
    /// # Safety
    /// `first + L::WIDTH` is at most [`SETS`]; instructions of `L`.
    #[inline(always)]
    unsafe fn write<L: Lanes<Scalar = f32>>(&mut self, first: usize) -> L {
        let dim = self.zeros.len();
        // SAFETY: every pointer is to a row that can be read for `dim` elements, of which a load takes those from a column below `dim` on
        // and no more than are left; instructions and sets as the caller vouches.
        unsafe {
            let scale: L = self.scales.get(first);
            let mut squares = [L::zero(); 4];
            for (r, out) in self.out.chunks_exact_mut(dim).enumerate() {
                let mut from = [self.zeros.as_ptr(); SETS];
                for (from, set) in from.iter_mut().zip(self.sets.iter().skip(first)) {
                    if r < set.count() {
                        *from = set.as_ptr().add(r * set.stride());
                    }
                }
                let (whole, rest) = out.split_at_mut(dim / L::WIDTH * L::WIDTH);
                for (part, out) in whole.chunks_exact_mut(L::WIDTH).enumerate() {
                    let mut block = [L::zero(); MOST_LANES];
                    for l in 0..L::WIDTH {
                        block[l] = L::load(from[l].add(part * L::WIDTH));
                    }
                    self.upcoming.fetch(LINES_AT_A_TIME);
                    L::transpose(&mut block);
                    for i in 0..L::WIDTH {
                        let x = block[i].times(scale);
                        squares[i % 4] = squares[i % 4].plus_product(x, x);
                        out[i].set(first, x);
                    }
                }
                if !rest.is_empty() {
                    let (column, mut block) = (dim - rest.len(), [L::zero(); MOST_LANES]);
                    for l in 0..L::WIDTH {
                        block[l] = L::load_first(from[l].add(column), rest.len());
                    }
                    L::transpose(&mut block);
                    for (out, x) in rest.iter_mut().zip(block) {
                        let x = x.times(scale);
                        squares[0] = squares[0].plus_product(x, x);
                        out.set(first, x);
                    }
                }
            }
            let [a, b, c, d] = squares;
            a.plus(b).plus(c.plus(d))
        }
    }
}

impl Operation<f32> for Interleave<'_> {
    type Output = Across;

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(mut self) -> Across {
        let mut squares = Across::default();
        for first in (0..SETS).step_by(L::WIDTH) {
            // SAFETY: widths divide `SETS`; instructions as the caller vouches.
            unsafe {
                let found = self.write::<L>(first);
                squares.set(first, found);
            }
        }
        squares
    }
}

/// Writes the numbers of each set in order, those of the first set first.
#[derive(Debug)]
pub(crate) struct Separate<'a> {
    from: &'a [Across],
    out: &'a mut [f32],
}

impl<'a> Separate<'a> {
    /// # Panics
    /// When `out` is not a whole number of sets, [`SETS`] at most.
    pub(crate) fn new(from: &'a [Across], out: &'a mut [f32]) -> Self {
        assert!(out.len().is_multiple_of(from.len().max(1)) && out.len() <= SETS * from.len());
        Self { from, out }
    }
}

impl Operation<f32> for Separate<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<L: Lanes<Scalar = f32>, const MR: usize>(self) {
        let dim = self.from.len().max(1);
        for (at, from) in self.from.chunks(L::WIDTH).enumerate() {
            for (group, out) in self.out.chunks_mut(L::WIDTH * dim).enumerate() {
                // SAFETY: widths divide `SETS`, and there are no more groups of sets than vectors of them; a set has `from.len()` numbers from
                // column `at L::WIDTH` on; instructions as the caller vouches.
                unsafe {
                    let mut block = [L::zero(); MOST_LANES];
                    for (vector, from) in block.iter_mut().zip(from) {
                        *vector = from.get(group * L::WIDTH);
                    }
                    L::transpose(&mut block);
                    for (set, vector) in out.chunks_exact_mut(dim).zip(block) {
                        let to = set.as_mut_ptr().add(at * L::WIDTH);
                        vector.store_up_to(to, from.len());
                    }
                }
            }
        }
    }
}
