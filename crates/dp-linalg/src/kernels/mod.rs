//! Vector kernels: the only module with unsafe code.
//!
//! Three ideas keep the unsafe part small. [`Lanes`] defines a small set of vector operations,
//! implemented for AVX-512, AVX2 with FMA, and plain arrays. An [`Operation`] is written once,
//! generic over `Lanes`. [`Kernel::run`] selects the widest instruction set that the processor
//! supports and compiles the operation for it. The safe constructor of an operation asserts which
//! memory its pointers may access, so the functions exported from here are all safe.
#![allow(
    unsafe_code,
    reason = "vector intrinsics and pointer sweeps; every block states why it is sound"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "arrays of registers are walked side by side within constant bounds"
)]

mod batched;
mod combine;
mod dispatch;
mod factor;
mod gram;
mod kronecker;
mod lanes;
mod products;
mod rows;
#[cfg(feature = "dense")]
mod spectral;
mod vector;

pub use batched::Across;
pub(crate) use batched::BatchedSolve;
pub(crate) use batched::{BatchedPairs, BatchedProducts, BatchedSum, LowerProducts};
pub(crate) use batched::{Interleave, SETS, Separate};
pub(crate) use combine::{RowSum, RowsTimes};
pub(crate) use dispatch::{InstructionSet, Kernel};
pub use dispatch::{PlainLoops, vector_instructions, with_vector_instructions};
pub(crate) use factor::Factor;
pub(crate) use factor::Solve;
pub(crate) use gram::{GramUpdate, WeightedSum, turned_len, unturn};
pub(crate) use kronecker::{HOME, KroneckerUpdate};
pub(crate) use products::Scores;
pub(crate) use products::{PairProducts, RowProducts, RowScores, SumOfSquares};
pub(crate) use rows::Gather;
pub(crate) use rows::{ChosenRows, RowSource, Rows};
pub(crate) use rows::{Prefetch, Upcoming, fetch_lines};
#[cfg(feature = "dense")]
pub(crate) use spectral::{LaneSystems, PsdSolve};
pub(crate) use vector::GatheredSum;
pub(crate) use vector::{AddVector, Quantise, ScaledCopy, SquareParts};
pub(crate) use vector::{GatherIntegers, SquaredNorms};
pub(crate) use vector::{IntegerRows, Widen};
