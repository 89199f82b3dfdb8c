//! In which coordinates a symmetric matrix gets its noise.

use dp_mechanism::OffDiagonalNoise;

use crate::small::{read_symmetric, write_symmetric};

/// In which coordinates a symmetric matrix is released. Both have the sensitivity of the matrix in Frobenius norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SymmetricNoise {
    /// The upper triangle with off-diagonal entries times sqrt 2, an isometry: noise of variance `s^2` on the
    /// diagonal and `s^2 / 2` off it.
    #[default]
    Isometric,
    /// The upper triangle as it is, copied to the lower one after the release, as published: noise of variance `s^2` everywhere, at the
    /// same cost.
    Copied,
}

impl SymmetricNoise {
    /// The same for a sum of Kronecker products, whose integers are those of the triangle itself.
    pub(crate) const fn off_diagonal(self) -> OffDiagonalNoise {
        match self {
            Self::Isometric => OffDiagonalNoise::Isometric,
            Self::Copied => OffDiagonalNoise::Full,
        }
    }

    /// Writes the matrix with the given upper triangle.
    pub(crate) fn write(self, out: &mut [f64], matrix: &[f64], dim: usize) {
        match self {
            Self::Isometric => write_symmetric(out, matrix, dim, 1.0),
            Self::Copied => {
                let rows = matrix.chunks_exact(dim).enumerate();
                let entries = rows.flat_map(|(a, row)| &row[a..]);
                out.iter_mut().zip(entries).for_each(|(o, x)| *o = *x);
            }
        }
    }

    /// The full matrix behind released coordinates.
    pub(crate) fn read(self, values: &[f64], dim: usize) -> Vec<f64> {
        let mut matrix = read_symmetric(values, dim);
        if self == Self::Copied {
            for (at, x) in matrix.iter_mut().enumerate() {
                if at / dim != at % dim {
                    *x *= std::f64::consts::SQRT_2;
                }
            }
        }
        matrix
    }
}
