//! The closed form of a linear encoder with sparse features: `KernelRidge` of dp-pubfeat without its kernel.

use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};
use rayon::prelude::*;

use crate::Result;

/// `K = X X^T + a I`, kept as `X`.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseKernel {
    /// Features of each item with their weights.
    pub(crate) rows: Vec<Vec<(u32, f64)>>,
    pub(crate) n_features: usize,
    /// `a`.
    pub(crate) own: f64,
}

impl SparseKernel {
    /// `out = K g`, shapes `(m, dim)`.
    fn apply(&self, dim: usize, g: &[f64], out: &mut [f64]) {
        let mut theta = vec![0.0; self.n_features * dim];
        for (row, g) in self.rows.iter().zip(g.chunks_exact(dim)) {
            for &(feature, weight) in row {
                let theta = &mut theta[feature as usize * dim..][..dim];
                theta.iter_mut().zip(g).for_each(|(t, g)| *t += weight * g);
            }
        }
        let each = out.par_chunks_exact_mut(dim).zip(g.par_chunks_exact(dim));
        each.zip(&self.rows).for_each(|((out, g), row)| {
            out.iter_mut().zip(g).for_each(|(o, g)| *o = self.own * g);
            for &(feature, weight) in row {
                let theta = &theta[feature as usize * dim..][..dim];
                out.iter_mut()
                    .zip(theta)
                    .for_each(|(o, t)| *o += weight * t);
            }
        });
    }

    fn diagonal(&self, item: usize) -> f64 {
        self.own + self.rows[item].iter().map(|(_, w)| w * w).sum::<f64>()
    }
}

/// Released sums: `A` of shape `(m, dim, dim)`, positive semidefinite, `b` of shape `(m, dim)`.
pub(crate) struct Normal {
    pub(crate) dim: usize,
    pub(crate) a: Vec<f64>,
    pub(crate) b: Vec<f64>,
}

impl Normal {
    fn multiply(&self, x: &[f64], out: &mut [f64]) {
        let d = self.dim;
        let items = self.a.chunks_exact(d * d).zip(x.chunks_exact(d));
        for ((a, x), out) in items.zip(out.chunks_exact_mut(d)) {
            for (row, out) in a.chunks_exact(d).zip(out) {
                *out = row.iter().zip(x).map(|(a, x)| a * x).sum();
            }
        }
    }

    /// `v = K A (A K A + l A + s^2 I)^-1 b`, by conjugate gradients from `dual`, preconditioned by items.
    pub(crate) fn solve(
        &self,
        kernel: &SparseKernel,
        l: f64,
        s2: f64,
        dual: &mut Vec<f64>,
    ) -> Result<Vec<f64>> {
        let (d, n) = (self.dim, self.b.len());
        let mut blocks = vec![0.0; self.a.len()];
        for (item, block) in blocks.chunks_exact_mut(d * d).enumerate() {
            let (a, own) = (&self.a[item * d * d..][..d * d], kernel.diagonal(item));
            for at in 0..d * d {
                let (i, j) = (at / d, at % d);
                let square: f64 = (0..d).map(|k| a[i * d + k] * a[k * d + j]).sum();
                block[at] = own * square + l * a[at] + if i == j { s2 } else { 0.0 };
            }
            cholesky_in_place(block, d)?;
        }
        let precondition = |r: &[f64]| -> Result<Vec<f64>> {
            let mut z = r.to_vec();
            for (block, z) in blocks.chunks_exact(d * d).zip(z.chunks_exact_mut(d)) {
                cholesky_solve_in_place(block, d, z)?;
            }
            Ok(z)
        };
        let (mut az, mut kaz) = (vec![0.0; n], vec![0.0; n]);
        let mut product = |z: &[f64], out: &mut [f64]| {
            self.multiply(z, &mut az);
            kernel.apply(d, &az, &mut kaz);
            self.multiply(&kaz, out);
            for ((out, z), a) in out.iter_mut().zip(z).zip(&az) {
                *out += l * a + s2 * z;
            }
        };
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        dual.resize(n, 0.0);
        let mut q = vec![0.0; n];
        product(dual, &mut q);
        let mut r: Vec<f64> = self.b.iter().zip(&q).map(|(b, q)| b - q).collect();
        let mut z = precondition(&r)?;
        let (mut p, mut rz, goal) = (
            z.clone(),
            dot(&r, &z),
            1e-10 * dot(&self.b, &precondition(&self.b)?),
        );
        for _ in 0..2000 {
            if rz <= goal {
                break;
            }
            product(&p, &mut q);
            let step = rz / dot(&p, &q);
            dual.iter_mut().zip(&p).for_each(|(x, p)| *x += step * p);
            r.iter_mut().zip(&q).for_each(|(r, q)| *r -= step * q);
            z = precondition(&r)?;
            let next = dot(&r, &z);
            p.iter_mut()
                .zip(&z)
                .for_each(|(p, z)| *p = z + next / rz * *p);
            rz = next;
        }
        self.multiply(dual, &mut q);
        let mut v = vec![0.0; n];
        kernel.apply(d, &q, &mut v);
        Ok(v)
    }
}
