//! Whether a spend pays for a release.

use dp_accounting::Spend;
use dp_core::{DpEvent, ParamError, Relation, ReplaceFactor};

use crate::{ClientSampling, Error, Grid, Result};

/// Refuses a spend that does not pay for a Gaussian release on `grid` of `n_draws` coordinates,
/// over a sample drawn by `sampling` or over all users.
pub(crate) fn check_spend(
    spend: &Spend,
    sampling: Option<&ClientSampling>,
    grid: &Grid,
    n_draws: usize,
    psd: bool,
) -> Result<()> {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("spend-unchecked") {
        return Ok(());
    }
    #[cfg(privacy_mutants)]
    let psd = dp_core::mutants::pick("replace-factor-unchecked", psd, true);
    #[cfg(privacy_mutants)]
    let n_draws = dp_core::mutants::pick("draws-unchecked", n_draws, 0);
    let label = || spend.label().to_owned();
    let paid_for = match sampling {
        None => spend.event(),
        Some(sampling) => sampling.paid_inside(spend)?,
    };
    let &DpEvent::Gaussian {
        noise_multiplier: paid,
        replace_factor: factor,
    } = paid_for
    else {
        return Err(Error::WrongSpend {
            label: label(),
            release: "one Gaussian release",
        });
    };
    if factor == ReplaceFactor::SqrtTwo && !psd {
        return Err(Error::WrongSpend {
            label: label(),
            release: "a sum of contributions that need not be positive semidefinite",
        });
    }
    if paid > grid.noise_multiplier() {
        return Err(Error::SpendTooSmall {
            label: label(),
            paid,
            grid: grid.noise_multiplier(),
        });
    }
    check_draws(spend, n_draws)
}

fn check_draws(spend: &Spend, n_draws: usize) -> Result<()> {
    let needed = n_draws as u64;
    if spend.n_draws() < needed {
        return Err(Error::DrawCount {
            label: spend.label().to_owned(),
            paid: spend.n_draws(),
            needed,
        });
    }
    Ok(())
}

/// Shards may only be merged when they were quantised alike.
pub(crate) fn same_grid(a: &Grid, b: &Grid) -> Result<()> {
    if a == b {
        return Ok(());
    }
    Err(Error::Param(ParamError {
        name: "noise_multiplier",
        value: b.noise_multiplier(),
        expected: "the grid of the sum it is merged into",
    }))
}

/// Refuses a spend that does not pay for a release of `n_coordinates` with discrete Gaussian noise of
/// the grid's scale from at least one party: (K18), and for one coordinate (K19).
pub(crate) fn check_discrete_spend(
    spend: &Spend,
    sampling: Option<&ClientSampling>,
    grid: &Grid,
    n_coordinates: usize,
    n_draws: usize,
) -> Result<()> {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("spend-unchecked") {
        return Ok(());
    }
    let pays = match *spend.event() {
        DpEvent::Zcdp {
            rho,
            relation: Relation::AddRemove,
        } => rho >= grid.zcdp_rho(),
        DpEvent::DiscreteGaussian { sigma, sensitivity } => {
            n_coordinates == 1
                && sigma.to_bits() == (grid.sigma() as f64).to_bits()
                && u64::from(sensitivity) == grid.l2_bound()
        }
        _ => false,
    };
    if !pays || sampling.is_some() {
        return Err(Error::WrongSpend {
            label: spend.label().to_owned(),
            release: "discrete Gaussian noise of this scale on a sum of this bound and length",
        });
    }
    check_draws(spend, n_draws)
}
