//! Ridges of an own part, and their error on rows left out.

use super::own_rows::{OwnRows, inner};

/// The ridge of one penalty `r`, ready for any residuals of the shared part.
pub(super) enum Ridge {
    /// An infinite penalty: no own part.
    Nothing,
    /// `K^-1` of `K = X X^T + r m I`, row by row, and `r m`.
    Rows { inverse: Vec<f64>, level: f64 },
    /// `A^-1` of `A = X^T X + r m I`, row by row, and `1 - h_kk` of every row, `h_kk = x_k^T A^-1 x_k` and what an own level adds.
    Features {
        inverse: Vec<f64>,
        remainders: Vec<f64>,
    },
}

/// An own part and what it does on rows that it has not seen.
pub(super) struct RidgeFit {
    /// `theta`.
    pub(super) own_part: Vec<f64>,
    /// Mean squared error on the rows, each left out in its turn; infinite without rows.
    pub(super) left_out_error: f64,
}

impl Ridge {
    pub(super) const fn in_rows(inverse: Vec<f64>, level: f64) -> Self {
        Self::Rows { inverse, level }
    }

    pub(super) fn in_features(inverse: Vec<f64>, own: &OwnRows) -> Self {
        let most = 1.0 - own.leverage_of_level();
        let remainder = |x: &[f64]| most - inner(x, &times(&inverse, x));
        Self::Features {
            remainders: own.rows().map(remainder).collect(),
            inverse,
        }
    }

    /// The ridge on these residuals. The penalty `r m` stays that of all rows when one is left out.
    pub(super) fn fit(&self, own: &OwnRows, residuals: Vec<f64>) -> RidgeFit {
        let of_level = own.leverage_of_level();
        match self {
            Self::Nothing => RidgeFit {
                own_part: vec![0.0; own.n_features()],
                left_out_error: mean_square(residuals.iter().map(|r| r / (1.0 - of_level))),
            },
            Self::Rows { inverse, level } => {
                // a = K^-1 r: the ridge leaves r m a_k of row k, and 1 - h_kk = r m (K^-1)_kk
                let duals = times(inverse, &residuals);
                let diagonal = inverse.iter().step_by(residuals.len() + 1);
                let left_out = duals.iter().zip(diagonal);
                let left_out = left_out.map(|(a, k)| a / (k - of_level / level));
                RidgeFit {
                    own_part: own.combination(&duals),
                    left_out_error: mean_square(left_out),
                }
            }
            Self::Features {
                inverse,
                remainders,
            } => {
                let theta = times(inverse, &own.combination(&residuals));
                let left = own.scores(&theta).into_iter().zip(residuals);
                let left_out = left.zip(remainders).map(|((s, r), rest)| (r - s) / rest);
                RidgeFit {
                    left_out_error: mean_square(left_out),
                    own_part: theta,
                }
            }
        }
    }
}

/// A square matrix, row by row, times a vector.
fn times(matrix: &[f64], v: &[f64]) -> Vec<f64> {
    let lines = matrix.chunks_exact(v.len().max(1));
    lines.map(|line| inner(line, v)).collect()
}

fn mean_square(errors: impl ExactSizeIterator<Item = f64>) -> f64 {
    match errors.len() {
        0 => f64::INFINITY,
        n => errors.map(|e| e * e).sum::<f64>() / n as f64,
    }
}
