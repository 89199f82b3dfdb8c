use crate::kernels::{InstructionSet, Kernel, Scores};
use crate::{GramAccumulator, Result, ScoredItem, gram, packed, score};

/// The element types of the kernels: `f32` and `f64`. Sealed.
#[allow(
    private_bounds,
    reason = "the private supertrait holds the kernels and seals the trait"
)]
pub trait Real: Compiled {}

impl Real for f32 {}
impl Real for f64 {}

/// What the generic functions of this crate do: compiled here for each type, and not again in every
/// crate that calls them.
pub(crate) trait Compiled: Kernel {
    fn sweep_rows(
        gram: &mut GramAccumulator<Self>,
        rows: &[Self],
        n: usize,
        labels: Option<&[Self]>,
    );

    fn sweep_gathered(
        gram: &mut GramAccumulator<Self>,
        factors: &[Self],
        indices: &[u32],
        weights: Option<&[Self]>,
        labels: Option<&[Self]>,
    );

    fn factor(isa: InstructionSet, a: &mut [Self], dim: usize) -> Result<()>;

    fn solve(isa: InstructionSet, u: &[Self], dim: usize, rhs: &mut [Self]) -> Result<()>;

    fn scores(isa: InstructionSet, factors: &[Self], vector: &[Self], out: &mut [Self]);

    fn top_k_each(
        factors: &[Self],
        queries: &[(&[Self], &[u32])],
        k: usize,
    ) -> Result<Vec<Vec<ScoredItem<Self>>>>;
}

macro_rules! compiled {
    ($scalar:ty) => {
        impl Compiled for $scalar {
            fn sweep_rows(
                gram: &mut GramAccumulator<Self>,
                rows: &[Self],
                n: usize,
                labels: Option<&[Self]>,
            ) {
                gram::sweep_rows(gram, rows, n, labels);
            }

            fn sweep_gathered(
                gram: &mut GramAccumulator<Self>,
                factors: &[Self],
                indices: &[u32],
                weights: Option<&[Self]>,
                labels: Option<&[Self]>,
            ) {
                gram::sweep_gathered(gram, factors, indices, weights, labels);
            }

            fn factor(isa: InstructionSet, a: &mut [Self], dim: usize) -> Result<()> {
                packed::factor(isa, a, dim)
            }

            fn solve(isa: InstructionSet, u: &[Self], dim: usize, rhs: &mut [Self]) -> Result<()> {
                packed::solve(isa, u, dim, rhs)
            }

            fn scores(isa: InstructionSet, factors: &[Self], vector: &[Self], out: &mut [Self]) {
                Self::run(isa, Scores::new(factors, vector, out));
            }

            fn top_k_each(
                factors: &[Self],
                queries: &[(&[Self], &[u32])],
                k: usize,
            ) -> Result<Vec<Vec<ScoredItem<Self>>>> {
                score::best_each(factors, queries, k)
            }
        }
    };
}

compiled!(f32);
compiled!(f64);
