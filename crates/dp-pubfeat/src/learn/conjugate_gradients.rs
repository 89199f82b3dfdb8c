//! Conjugate gradients with a preconditioner.

use crate::{Error, Result};

/// Solves `M x = b` for a positive definite `M` given by its product, starting at `x`; `precondition` overwrites a residual `r` by about
/// `M^-1 r`. Stops at a residual of `tolerance` times `b`'s norm, or after `most` steps, whichever is first. From `x = 0` what is found then is a regularised solution; from an older solution it is
/// between that and the new one.
pub(super) fn solve(
    mut product: impl FnMut(&[f64], &mut [f64]),
    precondition: impl Fn(&mut [f64]) -> Result<()>,
    b: &[f64],
    x: &mut [f64],
    (tolerance, most): (f64, usize),
) -> Result<()> {
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let goal = tolerance * tolerance * dot(b, b);
    let mut image = vec![0.0; b.len()];
    product(x, &mut image);
    let mut residual: Vec<f64> = b.iter().zip(&image).map(|(b, m)| b - m).collect();
    let mut z = residual.clone();
    precondition(&mut z)?;
    let mut direction = z.clone();
    let mut along = dot(&residual, &z);
    for _ in 0..most {
        if dot(&residual, &residual) <= goal {
            break;
        }
        product(&direction, &mut image);
        let curvature = dot(&direction, &image);
        if !(curvature > 0.0 && along.is_finite()) {
            return Err(Error::Diverged);
        }
        let step = along / curvature;
        x.iter_mut()
            .zip(&direction)
            .for_each(|(x, d)| *x += step * d);
        residual
            .iter_mut()
            .zip(&image)
            .for_each(|(r, m)| *r -= step * m);
        z.copy_from_slice(&residual);
        precondition(&mut z)?;
        let next = dot(&residual, &z);
        let keep = next / along;
        along = next;
        direction
            .iter_mut()
            .zip(&z)
            .for_each(|(d, z)| *d = z + keep * *d);
    }
    super::finite(x)
}
