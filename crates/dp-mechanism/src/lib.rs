#![doc = include_str!("../README.md")]

mod contribution;
mod error;
mod gram_sum;
mod grid;
#[cfg(privacy_mutants)]
mod mutants;
mod noise_source;
mod release;
mod sampler;
#[cfg(test)]
mod test_support;
mod vector_sum;

pub use contribution::{FactorBuffer, FactorContribution, SparseBuffer, VectorContribution};
pub use error::{Error, Result};
pub use gram_sum::{GramContribution, GramGrids, GramSums, gram_contribution};
pub use grid::Grid;
pub use noise_source::NoiseSource;
pub use release::{ReleasedGrams, ReleasedVector};
pub use sampler::{FlooredGaussian, TV_LOG2_PER_DRAW};
pub use vector_sum::{VectorSum, vector_contribution};
