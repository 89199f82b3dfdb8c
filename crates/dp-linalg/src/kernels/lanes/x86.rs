//! Vectors in the registers of x86-64.

use std::arch::x86_64::*;

use super::{Lanes, MOST_LANES};

/// Implements [`Lanes`] for a register type of the processor; the masked and the summing operations
/// differ between instruction sets and are given as expressions.
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
        |$x:ident, $limit:ident| $truncate:expr,
        |$low:ident, $high:ident| $upper_halves:expr,
        |$turned:ident, $by:ident| $turn_halves:expr
        $(, transpose: $transpose:path)?
    ) => {
        // SAFETY of every block below: the instructions and the memory are guaranteed by the
        // trait's caller; masked loads and stores access only the lanes of the mask.
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

            #[inline(always)]
            unsafe fn upper_halves(self, $high: Self) -> Self {
                let $low = self;
                unsafe { $upper_halves }
            }

            #[inline(always)]
            unsafe fn turn_halves<const $by: usize>(self) -> Self {
                let $turned = self;
                unsafe { $turn_halves }
            }

            $(
                #[inline(always)]
                unsafe fn transpose(block: &mut [Self; MOST_LANES]) {
                    unsafe { $transpose(block) }
                }
            )?
        }
    };
}

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
    },
    |low, high| _mm512_shuffle_f64x2::<UPPER_QUARTERS>(low, high),
    |whole, BY| _mm512_permutexvar_pd(_mm512_loadu_epi64(turned_quads(BY).as_ptr()), whole)
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
    },
    |low, high| _mm512_shuffle_f32x4::<UPPER_QUARTERS>(low, high),
    |whole, BY| _mm512_permutexvar_ps(_mm512_loadu_epi32(turned_words::<16>(BY).as_ptr()), whole),
    transpose: transpose_sixteen
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
    },
    |low, high| _mm256_permute2f128_pd::<UPPER_HALVES>(low, high),
    |whole, BY| if BY % 2 == 1 { _mm256_permute_pd::<SWAPPED_PAIRS>(whole) } else { whole }
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
    },
    |low, high| _mm256_permute2f128_ps::<UPPER_HALVES>(low, high),
    |whole, BY| _mm256_permutevar8x32_ps(whole, _mm256_loadu_si256(turned_words::<8>(BY).as_ptr().cast())),
    transpose: transpose_eight
);

/// For each run of 4 vectors: the 128-bit part q of vector j becomes lanes 4 q + j of the four.
macro_rules! transpose_fours {
    ($block:ident, $width:literal, $low:ident $high:ident $low_pairs:ident $high_pairs:ident $pairs:ident $singles:ident) => {
        for g in (0..$width).step_by(4) {
            let [a, b, c, d] = [$block[g], $block[g + 1], $block[g + 2], $block[g + 3]];
            let (ab, cd) = ($pairs($low(a, b)), $pairs($low(c, d)));
            let (ab_high, cd_high) = ($pairs($high(a, b)), $pairs($high(c, d)));
            $block[g] = $singles($low_pairs(ab, cd));
            $block[g + 1] = $singles($high_pairs(ab, cd));
            $block[g + 2] = $singles($low_pairs(ab_high, cd_high));
            $block[g + 3] = $singles($high_pairs(ab_high, cd_high));
        }
    };
}

/// # Safety
/// The processor supports AVX-512F.
#[inline(always)]
unsafe fn transpose_sixteen(block: &mut [__m512; 16]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        transpose_fours!(
            block, 16,
            _mm512_unpacklo_ps _mm512_unpackhi_ps _mm512_unpacklo_pd _mm512_unpackhi_pd
            _mm512_castps_pd _mm512_castpd_ps
        );
        for j in 0..4 {
            let [a, b, c, d] = [block[j], block[4 + j], block[8 + j], block[12 + j]];
            let even = [
                _mm512_shuffle_f32x4::<0x88>(a, b),
                _mm512_shuffle_f32x4::<0x88>(c, d),
            ];
            let odd = [
                _mm512_shuffle_f32x4::<0xdd>(a, b),
                _mm512_shuffle_f32x4::<0xdd>(c, d),
            ];
            block[j] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
            block[4 + j] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
            block[8 + j] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
            block[12 + j] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
        }
    }
}

/// # Safety
/// The processor supports AVX2.
#[inline(always)]
unsafe fn transpose_eight(block: &mut [__m256; 16]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        transpose_fours!(
            block, 8,
            _mm256_unpacklo_ps _mm256_unpackhi_ps _mm256_unpacklo_pd _mm256_unpackhi_pd
            _mm256_castps_pd _mm256_castpd_ps
        );
        for j in 0..4 {
            let (a, b) = (block[j], block[4 + j]);
            block[j] = _mm256_permute2f128_ps::<0x20>(a, b);
            block[4 + j] = _mm256_permute2f128_ps::<0x31>(a, b);
        }
    }
}

/// Rounding mode of the round instructions: toward zero, no exceptions raised.
const TOWARD_ZERO: i32 = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;

/// Quarters 2 and 3 of the first vector, then of the second.
const UPPER_QUARTERS: i32 = 0b11_10_11_10;
/// Half 1 of the first vector, then of the second.
const UPPER_HALVES: i32 = 0b0011_0001;
/// The lanes of each pair exchanged.
const SWAPPED_PAIRS: i32 = 0b0101;

/// The source lanes of N when both halves are rotated by `by`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "lanes are below 16"
)]
#[inline(always)]
fn turned_words<const N: usize>(by: usize) -> [i32; N] {
    std::array::from_fn(|lane| turned_lane(lane, by, N / 2) as i32)
}

/// [`turned_words`] for 8 lanes of 64 bits.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "lanes are below 16"
)]
#[inline(always)]
fn turned_quads(by: usize) -> [i64; 8] {
    std::array::from_fn(|lane| turned_lane(lane, by, 4) as i64)
}

#[inline(always)]
fn turned_lane(lane: usize, by: usize, half: usize) -> usize {
    lane / half * half + (lane + by) % half
}

/// Reading 4 entries starting at `4 - n` gives a mask of the first n lanes.
static LOW_QUADS: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
/// Reading 8 entries starting at `8 - n` gives a mask of the first n lanes.
static LOW_WORDS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// The n <= 16 lowest bits set, as bytes, lowest first.
#[inline(always)]
fn low_bits(n: usize) -> [u8; 4] {
    debug_assert!(n <= 16);
    ((1_u32 << n) - 1).to_le_bytes()
}
