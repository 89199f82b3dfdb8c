//! Releases with what each unit added to them, for audits.

use dp_accounting::Spend;
use dp_core::{Interactions, Private};
use dp_mechanism::{
    Grid, PoissonSampling, ReleasedVector, VectorContribution, VectorSum, WatchedNoise,
    vector_contribution,
};
pub use dp_mechanism::{Observed, ObservedSums, Watch};

use crate::{Result, events};

/// Sums a vector of `n_coordinates` over a fresh Poisson sample of the rows, one of norm at most `clip_norm` each, and releases it. The watch is shown what a row adds if it is
/// drawn, and not which ones were.
pub(crate) fn sampled_vector<C: VectorContribution>(
    out: &mut WatchedNoise<'_>,
    (sampling, rows): (PoissonSampling, &Private<Interactions>),
    (n_coordinates, clip_norm): (usize, f64),
    contribution: &C,
    spend: Spend,
) -> Result<ReleasedVector> {
    let (label, multiplier) = (
        spend.label().to_owned(),
        events::noise_multiplier(spend.event())?,
    );
    let grid = Grid::new(multiplier, clip_norm)?;
    let sum = VectorSum::accumulate_sampled(
        sampling,
        rows,
        n_coordinates,
        grid,
        contribution,
        out.noise,
    )?;
    let released = sum.release(spend, out.noise)?;
    (out.watch)(Observed {
        labels: [&label; 2],
        noise_multipliers: [multiplier; 2],
        sums: ObservedSums::Vector {
            grid: &grid,
            released: &released,
            one_user: &|row| vector_contribution(&grid, n_coordinates, contribution, row),
        },
    });
    Ok(released)
}
