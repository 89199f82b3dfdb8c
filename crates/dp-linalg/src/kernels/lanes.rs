//! One vector of numbers, for each instruction set.

use super::Kernel;

/// A vector of `WIDTH` numbers. All methods are `inline(always)`, so that they are compiled with
/// the instructions of the function that [`Kernel::run`] picked.
///
/// # Safety
/// Every method requires that the processor has the instructions of the implementing type, and
/// that pointers are valid for the number of elements stated. No alignment is required.
#[cfg_attr(
    not(feature = "dense"),
    allow(dead_code, reason = "some serve the dense algorithms only")
)]
pub(crate) trait Lanes: Copy {
    /// The element type.
    type Scalar: Kernel;
    /// Elements in a vector.
    const WIDTH: usize;
    /// Widest register tile, in vectors, that leaves room for the operands.
    const TILE_VECTORS: usize;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// `value` in every lane.
    unsafe fn splat(value: Self::Scalar) -> Self;
    /// Reads `WIDTH` elements.
    unsafe fn load(from: *const Self::Scalar) -> Self;
    /// Reads the first `n <= WIDTH` elements and touches no others; the remaining lanes are zero.
    unsafe fn load_first(from: *const Self::Scalar, n: usize) -> Self;
    /// Writes `WIDTH` elements.
    unsafe fn store(self, to: *mut Self::Scalar);
    /// Writes the first `n <= WIDTH` elements and touches no others.
    unsafe fn store_first(self, to: *mut Self::Scalar, n: usize);
    /// `self + other`.
    unsafe fn plus(self, other: Self) -> Self;
    /// `self - other`.
    unsafe fn minus(self, other: Self) -> Self;
    /// `self * other`.
    unsafe fn times(self, other: Self) -> Self;
    /// `self + a * b`, in one rounding where the processor can.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self - a * b`, in one rounding where the processor can.
    unsafe fn minus_product(self, a: Self, b: Self) -> Self;
    /// `self / other`.
    unsafe fn over(self, other: Self) -> Self;
    /// Square root of each lane.
    unsafe fn root(self) -> Self;
    /// The lanes of `then` where `self` is above zero, those of `otherwise` elsewhere (NaN too).
    unsafe fn where_positive(self, then: Self, otherwise: Self) -> Self;
    /// Sum of the lanes.
    unsafe fn sum(self) -> Self::Scalar;
    /// Reads the first `n <= WIDTH` numbers of single precision and touches no others; widens
    /// them exactly, and the remaining lanes are zero.
    unsafe fn load_single(from: *const f32, n: usize) -> Self;
    /// Each lane clamped to `[-limit, limit]` and rounded toward zero; NaN becomes zero.
    unsafe fn truncate_within(self, limit: Self::Scalar) -> Self;

    /// [`load_first`](Self::load_first), without a mask where the vector is whole.
    #[inline(always)]
    unsafe fn load_up_to(from: *const Self::Scalar, n: usize) -> Self {
        // SAFETY: passed on to the caller.
        unsafe {
            if n >= Self::WIDTH {
                Self::load(from)
            } else {
                Self::load_first(from, n)
            }
        }
    }

    /// [`store_first`](Self::store_first), without a mask where the vector is whole.
    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut Self::Scalar, n: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            if n >= Self::WIDTH {
                self.store(to);
            } else {
                self.store_first(to, n);
            }
        }
    }
}

/// Vectors as plain arrays, for any processor. No fused multiply-add: without the instruction it
/// would be a slow library call.
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
        // SAFETY: the caller vouches for N elements; an array needs the alignment of its element.
        Self(unsafe { from.cast::<[T; N]>().read() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const T, n: usize) -> Self {
        let mut out = [T::default(); N];
        for (lane, slot) in out.iter_mut().enumerate().take(n) {
            // SAFETY: lane < n, and the caller vouches for n elements.
            *slot = unsafe { from.add(lane).read() };
        }
        Self(out)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller vouches for N elements.
        unsafe { to.cast::<[T; N]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, n: usize) {
        for (lane, value) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: lane < n, and the caller vouches for n elements.
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
            // SAFETY: lane < n, and the caller vouches for n elements.
            *slot = T::from_single(unsafe { from.add(lane).read() });
        }
        Self(out)
    }

    #[inline(always)]
    unsafe fn truncate_within(self, limit: T) -> Self {
        Self(self.0.map(|x| x.truncate_within(limit)))
    }
}

/// Implements [`Lanes`] for a register type of the processor; the masked and the summing
/// operation differ between instruction sets and are given as expressions.
#[cfg(target_arch = "x86_64")]
macro_rules! register {
    (
        $vector:ty, $scalar:ty, $width:literal,
        $zero:ident $splat:ident $load:ident $store:ident $add:ident $sub:ident $mul:ident $fma:ident $fnma:ident
        $div:ident $sqrt:ident,
        |$condition:ident, $then:ident, $otherwise:ident| $select:expr,
        |$n:ident| $mask:expr,
        |$from:ident, $load_mask:ident| $load_first:expr,
        |$to:ident, $store_mask:ident, $value:ident| $store_first:expr,
        |$whole:ident| $sum:expr,
        |$single:ident, $single_n:ident| $load_single:expr,
        |$x:ident, $limit:ident| $truncate:expr
    ) => {
        // SAFETY of every block below: the trait's caller vouches for the instructions and for
        // the memory; masked loads and stores touch only the lanes of the mask.
        impl Lanes for $vector {
            type Scalar = $scalar;
            const WIDTH: usize = $width;
            const TILE_VECTORS: usize = 3;

            #[inline(always)]
            unsafe fn zero() -> Self {
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn splat(value: $scalar) -> Self {
                unsafe { $splat(value) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $scalar) -> Self {
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn load_first($from: *const $scalar, $n: usize) -> Self {
                unsafe {
                    let $load_mask = $mask;
                    $load_first
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $scalar) {
                unsafe { $store(to, self) }
            }

            #[inline(always)]
            unsafe fn store_first(self, $to: *mut $scalar, $n: usize) {
                let $value = self;
                unsafe {
                    let $store_mask = $mask;
                    $store_first
                }
            }

            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                unsafe { $add(self, other) }
            }

            #[inline(always)]
            unsafe fn minus(self, other: Self) -> Self {
                unsafe { $sub(self, other) }
            }

            #[inline(always)]
            unsafe fn times(self, other: Self) -> Self {
                unsafe { $mul(self, other) }
            }

            #[inline(always)]
            unsafe fn plus_product(self, a: Self, b: Self) -> Self {
                unsafe { $fma(a, b, self) }
            }

            #[inline(always)]
            unsafe fn minus_product(self, a: Self, b: Self) -> Self {
                unsafe { $fnma(a, b, self) }
            }

            #[inline(always)]
            unsafe fn over(self, other: Self) -> Self {
                unsafe { $div(self, other) }
            }

            #[inline(always)]
            unsafe fn root(self) -> Self {
                unsafe { $sqrt(self) }
            }

            #[inline(always)]
            unsafe fn where_positive(self, $then: Self, $otherwise: Self) -> Self {
                let $condition = self;
                unsafe { $select }
            }

            #[inline(always)]
            unsafe fn sum(self) -> $scalar {
                let $whole = self;
                unsafe { $sum }
            }

            #[inline(always)]
            unsafe fn load_single($single: *const f32, $single_n: usize) -> Self {
                unsafe { $load_single }
            }

            #[inline(always)]
            unsafe fn truncate_within(self, $limit: $scalar) -> Self {
                let $x = self;
                unsafe { $truncate }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Lanes;

    register!(
        __m512d, f64, 8,
        _mm512_setzero_pd _mm512_set1_pd _mm512_loadu_pd _mm512_storeu_pd
        _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_fmadd_pd _mm512_fnmadd_pd
        _mm512_div_pd _mm512_sqrt_pd,
        |condition, then, otherwise| {
            let above = _mm512_cmp_pd_mask::<_CMP_GT_OQ>(condition, Self::zero());
            _mm512_mask_blend_pd(above, otherwise, then)
        },
        |n| low_bits(n)[0],
        |from, mask| _mm512_maskz_loadu_pd(mask, from),
        |to, mask, value| _mm512_mask_storeu_pd(to, mask, value),
        |whole| _mm512_reduce_add_pd(whole),
        |from, n| {
            let [low, ..] = low_bits(n);
            _mm512_cvtps_pd(_mm512_castps512_ps256(_mm512_maskz_loadu_ps(low.into(), from)))
        },
        |x, limit| {
            let bound = _mm512_set1_pd(limit);
            let clamped = _mm512_max_pd(_mm512_min_pd(x, bound), _mm512_sub_pd(Self::zero(), bound));
            _mm512_maskz_roundscale_pd::<TOWARD_ZERO>(_mm512_cmp_pd_mask::<_CMP_ORD_Q>(x, x), clamped)
        }
    );

    register!(
        __m512, f32, 16,
        _mm512_setzero_ps _mm512_set1_ps _mm512_loadu_ps _mm512_storeu_ps
        _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_fmadd_ps _mm512_fnmadd_ps
        _mm512_div_ps _mm512_sqrt_ps,
        |condition, then, otherwise| {
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(condition, Self::zero());
            _mm512_mask_blend_ps(above, otherwise, then)
        },
        |n| {
            let [low, high, ..] = low_bits(n);
            __mmask16::from_le_bytes([low, high])
        },
        |from, mask| _mm512_maskz_loadu_ps(mask, from),
        |to, mask, value| _mm512_mask_storeu_ps(to, mask, value),
        |whole| _mm512_reduce_add_ps(whole),
        |from, n| Self::load_up_to(from, n),
        |x, limit| {
            let bound = _mm512_set1_ps(limit);
            let clamped = _mm512_max_ps(_mm512_min_ps(x, bound), _mm512_sub_ps(Self::zero(), bound));
            _mm512_maskz_roundscale_ps::<TOWARD_ZERO>(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x), clamped)
        }
    );

    register!(
        __m256d, f64, 4,
        _mm256_setzero_pd _mm256_set1_pd _mm256_loadu_pd _mm256_storeu_pd
        _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_fmadd_pd _mm256_fnmadd_pd
        _mm256_div_pd _mm256_sqrt_pd,
        |condition, then, otherwise| {
            let above = _mm256_cmp_pd::<_CMP_GT_OQ>(condition, Self::zero());
            _mm256_blendv_pd(otherwise, then, above)
        },
        |n| _mm256_loadu_si256(LOW_QUADS.as_ptr().add(4 - n).cast()),
        |from, mask| _mm256_maskload_pd(from, mask),
        |to, mask, value| _mm256_maskstore_pd(to, mask, value),
        |whole| {
            let mut lanes = [0.0; 4];
            whole.store(lanes.as_mut_ptr());
            (lanes[0] + lanes[2]) + (lanes[1] + lanes[3])
        },
        |from, n| {
            let mask = _mm_loadu_si128(LOW_WORDS.as_ptr().add(8 - n).cast());
            _mm256_cvtps_pd(_mm_maskload_ps(from, mask))
        },
        |x, limit| {
            let bound = _mm256_set1_pd(limit);
            let clamped = _mm256_max_pd(_mm256_min_pd(x, bound), _mm256_sub_pd(Self::zero(), bound));
            let rounded = _mm256_round_pd::<TOWARD_ZERO>(clamped);
            _mm256_and_pd(_mm256_cmp_pd::<_CMP_ORD_Q>(x, x), rounded)
        }
    );

    register!(
        __m256, f32, 8,
        _mm256_setzero_ps _mm256_set1_ps _mm256_loadu_ps _mm256_storeu_ps
        _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_fmadd_ps _mm256_fnmadd_ps
        _mm256_div_ps _mm256_sqrt_ps,
        |condition, then, otherwise| {
            let above = _mm256_cmp_ps::<_CMP_GT_OQ>(condition, Self::zero());
            _mm256_blendv_ps(otherwise, then, above)
        },
        |n| _mm256_loadu_si256(LOW_WORDS.as_ptr().add(8 - n).cast()),
        |from, mask| _mm256_maskload_ps(from, mask),
        |to, mask, value| _mm256_maskstore_ps(to, mask, value),
        |whole| {
            let mut lanes = [0.0; 8];
            whole.store(lanes.as_mut_ptr());
            let [a, b, c, d, e, f, g, h] = lanes;
            ((a + e) + (b + f)) + ((c + g) + (d + h))
        },
        |from, n| Self::load_up_to(from, n),
        |x, limit| {
            let bound = _mm256_set1_ps(limit);
            let clamped = _mm256_max_ps(_mm256_min_ps(x, bound), _mm256_sub_ps(Self::zero(), bound));
            let rounded = _mm256_round_ps::<TOWARD_ZERO>(clamped);
            _mm256_and_ps(_mm256_cmp_ps::<_CMP_ORD_Q>(x, x), rounded)
        }
    );

    /// Rounding mode of the round instructions: toward zero, no exceptions raised.
    const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

    /// Reading 4 entries from `4 - n` on gives a mask of the first n lanes.
    static LOW_QUADS: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
    /// Reading 8 entries from `8 - n` on gives a mask of the first n lanes.
    static LOW_WORDS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

    /// The n <= 16 lowest bits set, as bytes from the lowest on.
    #[inline(always)]
    fn low_bits(n: usize) -> [u8; 4] {
        debug_assert!(n <= 16);
        ((1_u32 << n) - 1).to_le_bytes()
    }
}
