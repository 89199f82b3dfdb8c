//! Vector kernels, the only place with unsafe code.
//!
//! Three ideas keep the unsafe part small. [`Lanes`] names the handful of vector operations and
//! implements them for AVX-512, AVX2 with FMA, and plain arrays. An [`Operation`] is written
//! once, generic over `Lanes`. [`Kernel::run`] picks the widest instruction set that the
//! processor has and compiles the operation for it. What an operation's pointers may touch is
//! asserted by its safe constructor, so the functions exported from here are all safe.
#![allow(
    unsafe_code,
    reason = "vector intrinsics and pointer sweeps; every block states why it is sound"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "arrays of registers are walked side by side within constant bounds"
)]

mod ahead;
mod beside;
mod beside_products;
mod beside_solve;
mod block;
mod combine;
mod dispatch;
mod factor;
mod gather;
mod gram;
mod integers;
mod kronecker;
mod lanes;
mod plain;
mod products;
#[cfg(feature = "dense")]
mod ql;
mod rows;
mod score;
mod solve;
#[cfg(feature = "dense")]
mod spectral;
mod sum;
#[cfg(feature = "dense")]
mod tridiagonal;
mod vector;
mod widen;

pub(crate) use ahead::{Ahead, Upcoming, fetch_lines};
pub use beside::Across;
pub(crate) use beside::{Interleave, SETS, Separate};
pub(crate) use beside_products::{LowerProducts, PairsBeside, ProductsBeside, SumBeside};
pub(crate) use beside_solve::SolveBeside;
pub(crate) use combine::{RowSum, RowsTimes};
pub(crate) use dispatch::{InstructionSet, Kernel};
pub(crate) use factor::Factor;
pub(crate) use gather::Gather;
pub(crate) use gram::{GramUpdate, WeightedSum, turned_len, unturn};
pub(crate) use integers::{GatherIntegers, SquaredNorms};
pub(crate) use kronecker::{HOME, KroneckerUpdate};
pub use plain::{PlainLoops, vector_instructions, with_vector_instructions};
pub(crate) use products::{PairProducts, RowProducts, RowScores, SumOfSquares};
pub(crate) use rows::{ChosenRows, RowSource, Rows};
pub(crate) use score::Scores;
pub(crate) use solve::Solve;
#[cfg(feature = "dense")]
pub(crate) use spectral::{LaneSystems, PsdSolve};
pub(crate) use sum::GatheredSum;
pub(crate) use vector::{AddVector, Quantise, ScaledCopy, SquareParts};
pub(crate) use widen::{IntegerRows, Widen};
