//! Sums of squares and their like, on sixteen lanes so that the compiler can use vector registers. All inlined, for
//! [`with_vector_instructions`](dp_linalg::with_vector_instructions).

const LANES: usize = 16;

/// The sum of `f` over the numbers.
#[inline(always)]
pub(crate) fn sum_of(v: &[f64], f: impl Fn(f64) -> f64) -> f64 {
    let (v16, rest) = v.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for v in v16 {
        for lane in 0..LANES {
            sums[lane] += f(v[lane]);
        }
    }
    let mut width = LANES / 2; // by halves: no long chain of additions
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest.iter().map(|&v| f(v)).sum::<f64>()
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a rounded number is meant")]
pub(crate) const fn to_f32(x: f64) -> f32 {
    x as f32
}
