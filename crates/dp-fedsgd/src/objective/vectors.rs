//! Inner products and their like, on sixteen lanes so that the compiler can use vector registers. All inlined, for
//! [`with_vector_instructions`](dp_linalg::with_vector_instructions).

const LANES: usize = 16;

#[inline(always)]
pub(crate) fn inner(a: &[f32], b: &[f32]) -> f32 {
    let (a16, a_rest) = a.as_chunks::<LANES>();
    let (b16, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a16.iter().zip(b16) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    let mut width = LANES / 2; // by halves: no long chain of additions
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}

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
    sums.iter().sum::<f64>() + rest.iter().map(|&v| f(v)).sum::<f64>()
}

#[inline(always)]
pub(crate) fn add_scaled(out: &mut [f32], scale: f32, x: &[f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out += scale * x;
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a rounded number is meant")]
pub(crate) const fn to_f32(x: f64) -> f32 {
    x as f32
}
