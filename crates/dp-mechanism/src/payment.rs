//! Checks whether a spend covers a release.

use dp_accounting::{NightSpend, Spend};
use dp_core::{Adjacency, DpEvent, ParamError, Relation, ReplaceFactor};

use crate::{ClientSampling, Error, Grid, Result};

/// Rejects a spend for an adjacency that the bounds of this crate do not cover: (K22).
///
/// Contributions are bounded per user. Adding or removing one record changes `Z_u` into some
/// `Z_u'`, up to `2 D` away, whereas the account for add/remove is based on `D`. Replacing a record
/// is covered: the factors of a replaced user (2, or sqrt 2) are accounted for.
pub(crate) fn check_neighbours(spend: &Spend) -> Result<()> {
    check_adjacency(spend.adjacency(), spend.label())
}

fn check_adjacency(adjacency: Adjacency, label: &str) -> Result<()> {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("record-level-spend-accepted") {
        return Ok(());
    }
    match adjacency {
        Adjacency::AddRemoveUser | Adjacency::ReplaceUser | Adjacency::ReplaceRecord => Ok(()),
        Adjacency::AddRemoveRecord => Err(Error::WrongSpend {
            label: label.to_owned(),
            release: "contributions bounded per user: adding or removing one record can move them \
                      twice as far as adding or removing the user",
        }),
    }
}

/// Rejects a spend that does not cover a Gaussian release on `grid` of `n_draws` coordinates, over
/// a sample drawn by `sampling` or over all users.
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
    check_neighbours(spend)?;
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

/// Rejects a night spend whose noise differs from that of `grid` or whose number of draws differs.
pub(crate) fn check_night_spend(spend: &NightSpend, grid: &Grid, n_draws: usize) -> Result<()> {
    check_adjacency(spend.adjacency(), spend.label())?;
    let label = || spend.label().to_owned();
    let paid = spend.noise_multiplier()?;
    if paid > grid.noise_multiplier() {
        return Err(Error::SpendTooSmall {
            label: label(),
            paid,
            grid: grid.noise_multiplier(),
        });
    }
    let needed = n_draws as u64;
    if spend.n_draws() < needed {
        return Err(Error::DrawCount {
            label: label(),
            paid: spend.n_draws(),
            needed,
        });
    }
    Ok(())
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

/// Shards may only be merged if they were quantised on the same grid.
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

/// Rejects a spend that does not cover a release of `n_coordinates` with discrete Gaussian noise of
/// the grid's scale from at least one party: (K18), and for one coordinate (K19).
pub(crate) fn check_discrete_spend(
    spend: &Spend,
    sampling: Option<&ClientSampling>,
    grid: &Grid,
    n_coordinates: usize,
    n_draws: usize,
) -> Result<()> {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("spend-unchecked")
        || dp_core::mutants::active("discrete-spend-unchecked")
    {
        return Ok(());
    }
    check_neighbours(spend)?;
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

#[cfg(test)]
mod tests {
    use dp_accounting::PlannedRelease;
    use dp_core::ReplaceFactor;

    use super::*;
    use crate::test_support::{rebuilt, spends_of, table};
    use crate::{
        ExponentialMechanism, GramGrids, GramSums, NoiseSource, PoissonSampling, PrivateQuantile,
        ScoreChange, VectorSum, release_user_count,
    };

    const ALL: [Adjacency; 4] = [
        Adjacency::AddRemoveUser,
        Adjacency::ReplaceUser,
        Adjacency::AddRemoveRecord,
        Adjacency::ReplaceRecord,
    ];

    fn paid(event: &DpEvent, adjacency: Adjacency) -> Spend {
        let release = PlannedRelease::new("test", event.clone(), 9);
        spends_of(vec![release], adjacency).remove(0)
    }

    fn refuses_records<T>(adjacency: Adjacency, released: &Result<T>) {
        let refused = matches!(released, Err(Error::WrongSpend { release, .. })
            if release.contains("record"));
        assert_eq!(
            refused,
            adjacency == Adjacency::AddRemoveRecord,
            "{adjacency:?}"
        );
        assert!(released.is_ok() != refused, "{adjacency:?}");
    }

    #[test]
    fn a_spend_for_single_records_pays_for_no_bound_per_user() {
        let grid = Grid::new(2.0, 1.0).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(1);
        let users = table(20, 5, 4, 1);
        let data = rebuilt(&users, 0..users.n_users());
        let sampling = ClientSampling::from(PoissonSampling::new(0.5).unwrap());
        let gaussian = DpEvent::gaussian(2.0);
        for adjacency in ALL {
            let sum = || VectorSum::empty(3, grid).unwrap();
            let released = sum().release(paid(&gaussian, adjacency), noise);
            refuses_records(adjacency, &released);
            let counted = release_user_count(&data, paid(&gaussian, adjacency), noise);
            refuses_records(adjacency, &counted);
            let step = paid(&sampling.event(gaussian.clone()), adjacency);
            refuses_records(adjacency, &sampling.noise_multiplier(&step));
            let grids = GramGrids::new(2.0, 1.0, 2.0, 1.0).unwrap();
            let factors = [ReplaceFactor::SqrtTwo, ReplaceFactor::Two];
            let [a, b] = factors.map(|replace_factor| {
                let noise_multiplier = 2.0;
                let event = DpEvent::Gaussian {
                    noise_multiplier,
                    replace_factor,
                };
                paid(&event, adjacency)
            });
            let grams = GramSums::zero(1, 1, grids).release(a, b, noise);
            refuses_records(adjacency, &grams);
        }
    }

    #[test]
    fn nor_for_discrete_noise() {
        let grid = Grid::with_log2_sigma(2.0, 1.0, 6).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(1);
        let zcdp = DpEvent::Zcdp {
            rho: grid.zcdp_rho(),
            relation: Relation::AddRemove,
        };
        let exact = DpEvent::DiscreteGaussian {
            sigma: grid.sigma() as f64,
            sensitivity: u32::try_from(grid.l2_bound()).unwrap(),
        };
        for event in [zcdp, exact] {
            for adjacency in [Adjacency::AddRemoveUser, Adjacency::AddRemoveRecord] {
                let spend = paid(&event, adjacency);
                let sum = VectorSum::empty(1, grid).unwrap();
                refuses_records(adjacency, &sum.release_discrete(spend, noise));
            }
        }
    }

    #[test]
    fn nor_for_selections() {
        let noise = &mut NoiseSource::insecure_seeded(1);
        let users = table(20, 5, 4, 1);
        let data = rebuilt(&users, 0..users.n_users());
        for adjacency in ALL {
            let relation = adjacency.relation();
            let general = ScoreChange::General;
            let chooser = ExponentialMechanism::new(1.0, 1.0, general, relation).unwrap();
            let spend = paid(&chooser.event(), adjacency);
            refuses_records(adjacency, &chooser.select(&[1.0, 2.0], spend, noise));
            let median = PrivateQuantile::new(0.5, (0.0, 9.0), 10, 1.0, relation).unwrap();
            let spend = paid(&median.event(), adjacency);
            let released = median.release(&data, |user| user.len() as f64, spend, noise);
            refuses_records(adjacency, &released);
        }
    }
}
