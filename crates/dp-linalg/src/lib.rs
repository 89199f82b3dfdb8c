#![doc = include_str!("../README.md")]

mod aligned;
mod batched;
#[cfg(feature = "dense")]
mod eigen;
mod error;
mod gram;
mod grid_sum;
mod kernels;
mod packed;
#[cfg(feature = "dense")]
mod psd;
mod real;
mod score;
mod strided;
#[cfg(test)]
mod test_numbers;

pub use aligned::AlignedVec;
pub use batched::{BatchedRows, batched_lower_product, batched_solve, separate};
#[cfg(feature = "dense")]
pub use eigen::{SymmetricEigen, symmetric_eigen};
pub use error::{Error, Result};
pub use gram::{
    GramAccumulator, INTEGER_LIMIT, KroneckerAccumulator, add_gathered_rows, integer_row,
    integer_squared_norms,
};
pub use grid_sum::GridSum;
pub use kernels::{Across, PlainLoops, vector_instructions, with_vector_instructions};
pub use packed::{cholesky_in_place, cholesky_solve_in_place};
pub use packed::{pack_symmetric, packed_index, packed_len, unpack_symmetric};
#[cfg(feature = "dense")]
pub use psd::{PsdBatchScratch, psd_part_plus_ridge_solve_batch};
#[cfg(feature = "dense")]
pub use psd::{PsdPath, PsdScratch, project_psd_in_place, psd_part_plus_ridge_solve};
pub use real::Real;
pub use score::{ItemRanking, ScoredItem, dot, score_rows, top_k, top_k_each};
pub use strided::{PaddedMatrix, WideRows};
pub use strided::{
    StridedRows, prefetch, row_products, row_scores, weighted_row_sum, write_outer_product,
};
