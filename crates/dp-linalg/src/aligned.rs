//! Buffers that begin at a cache-line boundary.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

/// A buffer of fixed length whose first element begins a cache line, so that whole vectors read at
/// multiples of their width never straddle two lines, which would take two reads.
///
/// Useful for tables whose rows are gathered ([`GramAccumulator`](crate::GramAccumulator)). The
/// overhead is at most one cache line.
///
/// ```
/// use dp_linalg::AlignedVec;
///
/// let table = AlignedVec::from_slice(&[1.0_f32, 2.0, 3.0]);
/// assert_eq!(table[..], [1.0, 2.0, 3.0]);
/// assert!(table.as_ptr().addr().is_multiple_of(64));
/// ```
#[derive(Debug)]
pub struct AlignedVec<T> {
    /// The buffer, with extra room to move its start.
    room: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Copy + Default> AlignedVec<T> {
    /// `len` times the default value, zero for numbers.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let room = vec![T::default(); len + per_line::<T>()];
        let start = start_of_line(&room);
        Self { room, start, len }
    }

    /// A copy of `values`.
    #[must_use]
    pub fn from_slice(values: &[T]) -> Self {
        let mut buffer = Self::zeros(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

/// Number of elements before the first one that begins a cache line; fewer than a line holds.
fn start_of_line<T>(room: &[T]) -> usize {
    room.as_ptr().align_offset(LINE) % per_line::<T>()
}

/// Number of elements per cache line, at least 1.
const fn per_line<T>() -> usize {
    match size_of::<T>() {
        0 => 1,
        size if size > LINE => 1,
        size => LINE / size,
    }
}

/// A copy starts where its own memory is aligned.
impl<T: Clone> Clone for AlignedVec<T> {
    fn clone(&self) -> Self {
        let mut room = self.room.clone();
        let start = start_of_line(&room);
        room.rotate_left(self.start);
        room.rotate_right(start);
        let len = self.len;
        Self { room, start, len }
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.room[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.room[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_and_their_copies_begin_a_cache_line() {
        let others: Vec<Vec<u8>> = (1..50).map(|n| vec![0; n]).collect();
        for len in [0, 1, 5, 16, 1000] {
            let mut buffer = AlignedVec::<f32>::zeros(len);
            buffer.fill(1.5);
            let copy = buffer.clone();
            for found in [&buffer, &copy] {
                assert!(
                    found.as_ptr().addr().is_multiple_of(LINE),
                    "{len} of {}",
                    others.len()
                );
                assert_eq!(found[..], vec![1.5; len]);
            }
        }
    }
}
