//! Rows of linear regressions by the million.

use dp_linalg::PlainLoops;

use super::normals::NormalLanes;

/// Rows of one user, from a stream of normal numbers.
pub(super) struct NewRows<'a> {
    pub(super) normals: NormalLanes,
    /// Of each feature.
    pub(super) stddevs: &'a [f32],
    pub(super) label_noise: f32,
    /// The user's coefficients.
    pub(super) own: &'a [f32],
    /// To be written.
    pub(super) cells: &'a mut [f32],
}

impl PlainLoops for NewRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        self.normals.fill(self.cells);
        for row in self.cells.chunks_exact_mut(self.own.len() + 1) {
            let Some((y, x)) = row.split_last_mut() else {
                continue;
            };
            for (x, &stddev) in x.iter_mut().zip(self.stddevs) {
                *x *= stddev;
            }
            *y = self.label_noise * *y + inner(x, self.own);
        }
    }
}

/// Eight partial sums, so that the compiler can use vector registers.
#[inline(always)]
fn inner(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (a, b) in a8.iter().zip(b8) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use dp_linalg::with_vector_instructions;

    use super::*;

    const DIM: usize = 11;

    #[test]
    fn made_rows_do_not_change() {
        let own: [f32; DIM] = std::array::from_fn(|k| k as f32 - 4.5);
        let stddevs: [f32; DIM] = std::array::from_fn(|k| 1.0 / (k + 1) as f32);
        let mut cells = [0.0; 7 * (DIM + 1)];
        with_vector_instructions(NewRows {
            normals: NormalLanes::new(9),
            stddevs: &stddevs,
            label_noise: 0.25,
            own: &own,
            cells: &mut cells,
        });
        let sum = |h: u32, x: &f32| h.rotate_left(5).wrapping_add(x.to_bits());
        assert_eq!(cells.iter().fold(0, sum), 0xc52e_98b9);
    }
}
