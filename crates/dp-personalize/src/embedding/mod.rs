//! The private step of alternating minimisation: from personal models to a better subspace.

mod gd;
mod ssp_user;

use dp_core::SampleRows;
use dp_mechanism::OffDiagonalNoise;

use crate::small::{read_symmetric, write_symmetric};

pub use gd::ConvexLoss;
pub use gd::{DpGdEmbedding, GradientScratch, SubspaceGradients};
pub use ssp_user::SspEmbedding;
#[cfg(test)]
pub(crate) use ssp_user::SspUser;
pub use ssp_user::{SspMatrix, SspRhs, SspScratch};

/// Which of a user's rows a computation uses, determined by their order alone.
///
/// The proofs of Jain et al. 2021 require separate rows for every computation (Algorithm 1:
/// `m mod 4 = 0`, quarters); using all rows for everything has a small bias and far less variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowUse {
    /// All rows.
    All,
    /// Row `i` of at most `m` is in quarter `floor(4 i / m)`; this one of 0 to 3.
    Quarter(usize),
}

impl RowUse {
    /// Maximum number of rows used out of `max_rows`.
    #[must_use]
    pub fn most(self, max_rows: usize) -> usize {
        (0..max_rows)
            .filter(|&i| self.includes(i, max_rows))
            .count()
    }

    /// The rows that are used.
    pub(crate) fn of<'a>(
        self,
        rows: impl Iterator<Item = (&'a [f32], f32)>,
        max_rows: usize,
    ) -> impl Iterator<Item = (&'a [f32], f32)> {
        let used = rows
            .enumerate()
            .filter(move |(i, _)| self.includes(*i, max_rows));
        used.map(|(_, row)| row)
    }

    pub(crate) const fn includes(self, row: usize, max_rows: usize) -> bool {
        match self {
            Self::All => row < max_rows,
            Self::Quarter(quarter) => row < max_rows && 4 * row / max_rows == quarter,
        }
    }
}

/// The users of one step, and the rows it uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepUsers {
    /// The index of the batch and the number of batches; none for all users.
    pub(crate) batch: Option<(usize, usize)>,
    /// Rows to which personal models are fitted.
    pub(crate) model_rows: RowUse,
    /// Rows to which the embedding is fitted.
    pub(crate) embedding_rows: RowUse,
}

impl StepUsers {
    /// All users with all rows.
    pub(crate) const ALL: Self = Self {
        batch: None,
        model_rows: RowUse::All,
        embedding_rows: RowUse::All,
    };

    /// Whether the user takes part: a function of the user's own rows.
    pub(crate) fn include(self, rows: SampleRows<'_>) -> bool {
        self.batch.is_none_or(|(batch, n)| rows.batch(n) == batch)
    }
}

/// The coordinates in which a symmetric matrix is released. Both have the sensitivity of the matrix
/// in Frobenius norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SymmetricNoise {
    /// The upper triangle with off-diagonal entries times sqrt 2, an isometry: noise of variance
    /// `s^2` on the diagonal and `s^2 / 2` off the diagonal.
    #[default]
    Isometric,
    /// The upper triangle unchanged, copied to the lower one after the release, as published: noise
    /// of variance `s^2` everywhere, at the same cost.
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

    /// The full matrix from released coordinates.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_share_all_rows_out() {
        for max_rows in 1..14 {
            let sizes: Vec<_> = (0..4).map(|q| RowUse::Quarter(q).most(max_rows)).collect();
            assert_eq!(sizes.iter().sum::<usize>(), max_rows);
            assert_eq!(RowUse::All.most(max_rows), max_rows);
            assert!(sizes.iter().all(|&size| size <= max_rows.div_ceil(4)));
        }
    }
}
