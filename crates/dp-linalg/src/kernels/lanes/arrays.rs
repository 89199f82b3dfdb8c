//! Vectors as arrays.

use super::Lanes;
use crate::kernels::Kernel;

/// Vectors as plain arrays, for any processor. Without fused multiply-add: lacking the instruction,
/// it would be a slow library call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain<T, const N: usize>([T; N]);

impl<T: Kernel, const N: usize> Plain<T, N> {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        let mut out = self;
        for (x, y) in out.0.iter_mut().zip(other.0) {
            *x = f(*x, y);
        }
        out
    }
}

impl<T: Kernel, const N: usize> Lanes for Plain<T, N> {
    type Scalar = T;
    const WIDTH: usize = N;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([T::default(); N])
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self([value; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller guarantees N elements; an array needs the alignment of its element.
        Self(unsafe { from.cast::<[T; N]>().read() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const T, n: usize) -> Self {
        let mut out = [T::default(); N];
        for (lane, slot) in out.iter_mut().enumerate().take(n) {
            // SAFETY: lane < n, and the caller guarantees n elements.
            *slot = unsafe { from.add(lane).read() };
        }
        Self(out)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller guarantees N elements.
        unsafe { to.cast::<[T; N]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, n: usize) {
        for (lane, value) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: lane < n, and the caller guarantees n elements.
            unsafe { to.add(lane).write(value) };
        }
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        self.zip(other, |x, y| x + y)
    }

    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        self.zip(other, |x, y| x - y)
    }

    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        self.zip(other, |x, y| x * y)
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        self.zip(a.zip(b, |x, y| x * y), |x, y| x + y)
    }

    #[inline(always)]
    unsafe fn minus_product(self, a: Self, b: Self) -> Self {
        self.zip(a.zip(b, |x, y| x * y), |x, y| x - y)
    }

    #[inline(always)]
    unsafe fn over(self, other: Self) -> Self {
        self.zip(other, |x, y| x / y)
    }

    #[inline(always)]
    unsafe fn root(self) -> Self {
        Self(self.0.map(T::root))
    }

    #[inline(always)]
    unsafe fn where_positive(self, then: Self, otherwise: Self) -> Self {
        let mut out = otherwise;
        for lane in 0..N {
            if self.0[lane] > T::default() {
                out.0[lane] = then.0[lane];
            }
        }
        out
    }

    #[inline(always)]
    unsafe fn sum(self) -> T {
        self.0.into_iter().fold(T::default(), |x, y| x + y)
    }

    #[inline(always)]
    unsafe fn load_single(from: *const f32, n: usize) -> Self {
        let mut out = [T::default(); N];
        for (lane, slot) in out.iter_mut().enumerate().take(n) {
            // SAFETY: lane < n, and the caller guarantees n elements.
            *slot = T::from_single(unsafe { from.add(lane).read() });
        }
        Self(out)
    }

    #[inline(always)]
    unsafe fn truncate_within(self, limit: T) -> Self {
        Self(self.0.map(|x| x.truncate_within(limit)))
    }

    #[inline(always)]
    unsafe fn upper_halves(self, other: Self) -> Self {
        let mut out = other;
        out.0[..N / 2].copy_from_slice(&self.0[N - N / 2..]);
        out
    }

    #[inline(always)]
    unsafe fn turn_halves<const BY: usize>(self) -> Self {
        let mut out = self;
        for half in out.0.chunks_exact_mut(N / 2) {
            half.rotate_left(BY % (N / 2));
        }
        out
    }
}
