//! Inner products and their like in single precision, on eight lanes so that the compiler can use vector registers.

const LANES: usize = 8;

#[inline]
pub(super) fn inner(a: &[f32], b: &[f32]) -> f32 {
    let (a8, a_rest) = a.as_chunks::<LANES>();
    let (b8, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a8.iter().zip(b8) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[inline]
pub(super) fn add_scaled(out: &mut [f32], scale: f32, x: &[f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out += scale * x;
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a rounded number is meant")]
pub(super) const fn to_f32(x: f64) -> f32 {
    x as f32
}
