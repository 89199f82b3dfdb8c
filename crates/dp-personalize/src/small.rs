//! Vectors, and symmetric matrices in isometric coordinates.

use std::f64::consts::SQRT_2;

use dp_linalg::packed_len;

/// Inner product, with four partial sums.
pub(crate) fn inner(a: &[f64], b: &[f64]) -> f64 {
    let (fours, others) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = fours.remainder().iter().zip(others.remainder());
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    let mut sums = [0.0_f64; 4];
    for (a, b) in fours.zip(others) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

pub(crate) fn norm(a: &[f64]) -> f64 {
    inner(a, a).sqrt()
}

/// The norm of a row of features, with eight partial sums.
pub(crate) fn norm_of_row(x: &[f32]) -> f64 {
    let mut sums = [0.0_f64; 8];
    let eights = x.chunks_exact(8);
    let rest = eights.remainder().iter().zip(&mut sums);
    rest.for_each(|(&x, s)| *s = f64::from(x) * f64::from(x));
    for eight in eights {
        for (s, &x) in sums.iter_mut().zip(eight) {
            *s += f64::from(x) * f64::from(x);
        }
    }
    sums.iter().sum::<f64>().sqrt()
}

/// `min(1, bound / norm)`, and 0 if the norm is not finite: the factor of clipping.
pub(crate) fn clip_factor(norm: f64, bound: f64) -> f64 {
    if !norm.is_finite() {
        0.0
    } else if norm > bound {
        bound / norm
    } else {
        1.0
    }
}

/// Writes `scale` times the symmetric matrix with the upper triangle of `matrix` in coordinates
/// that preserve the Frobenius norm: the packed triangle with off-diagonal entries times sqrt 2.
pub(crate) fn write_symmetric(out: &mut [f64], matrix: &[f64], dim: usize, scale: f64) {
    let mut rest = out;
    for (a, row) in matrix.chunks_exact(dim).enumerate() {
        let upper = rest.split_at_mut(dim - a);
        for (out, x) in upper.0.iter_mut().zip(&row[a..]) {
            *out = SQRT_2 * x * scale;
        }
        upper.0[0] = row[a] * scale;
        rest = upper.1;
    }
}

/// The same for `w w^T`.
pub(crate) fn write_symmetric_square(out: &mut [f64], w: &[f64], scale: f64) {
    let pairs = (0..w.len()).flat_map(|a| (a..w.len()).map(move |b| (a, b)));
    for (out, (a, b)) in out.iter_mut().zip(pairs) {
        let twice = if a == b { 1.0 } else { SQRT_2 };
        *out = twice * w[a] * w[b] * scale;
    }
}

/// The transpose of a row-major matrix with `n_rows` rows.
pub(crate) fn transposed(matrix: &[f64], n_rows: usize) -> Vec<f64> {
    let n = matrix.len() / n_rows;
    (0..n)
        .flat_map(|a| matrix.iter().skip(a).step_by(n).copied())
        .collect()
}

/// The full matrix from released coordinates of [`write_symmetric`].
pub(crate) fn read_symmetric(values: &[f64], dim: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; dim * dim];
    let mut packed = values.iter().take(packed_len(dim));
    for a in 0..dim {
        for b in a..dim {
            let value = packed.next().copied().unwrap_or(0.0);
            let value = if a == b { value } else { value / SQRT_2 };
            matrix[a * dim + b] = value;
            matrix[b * dim + a] = value;
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_never_lengthens_and_zeroes_what_is_not_a_number() {
        for (norm, factor) in [
            (2.0, 0.5),
            (0.5, 1.0),
            (0.0, 1.0),
            (f64::NAN, 0.0),
            (f64::INFINITY, 0.0),
        ] {
            assert!((clip_factor(norm, 1.0) - factor).abs() < 1e-15);
        }
    }

    #[test]
    fn symmetric_coordinates_read_back() {
        // coordinates of [[1, 2], [2, 3]]
        let matrix = read_symmetric(&[1.0, 2.0 * SQRT_2, 3.0], 2);
        assert!(
            matrix
                .iter()
                .zip([1.0, 2.0, 2.0, 3.0])
                .all(|(a, b)| (a - b).abs() < 1e-15)
        );
    }
}
