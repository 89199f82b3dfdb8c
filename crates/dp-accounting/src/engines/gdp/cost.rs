//! The cost of an event in mu^2.

use dp_core::{Adjacency, DpEvent, Gdp, ParamError, ReplaceFactor, params};

use crate::engines::rounding::{UpwardSum, count_up, div_up, mul_up, sqrt_up};
use crate::{Error, Result};

/// Returns mu^2 of an event under `adjacency`, rounded up.
///
/// ```text
/// Gaussian(z)      1/z^2, times 4 or 2 (the squared replace factor) under replacement
/// Composed(e..)    Σ mu^2(e)
/// Repeated(e, n)   n mu^2(e)
/// Tree(z, n)       ceil(log2(n + 1)) times Gaussian(z): the nodes of one participation
/// ```
///
/// Source: Dong, Roth, Su, arXiv 1905.02383, Theorem 2.7 and Corollary 3.3. Exact under full
/// adaptivity of the queries for noise multipliers fixed in advance; see [`crate::Ledger`] for
/// adaptive ones.
///
/// # Errors
/// [`Error::NonPrivateEvent`] if a part has no guarantee; [`Error::UnsupportedEvent`] if a part is
/// not Gaussian; [`Error::Param`] if a noise multiplier is not finite and positive or so small that
/// the cost is not finite, a count is 0, or the event is nested too deeply.
///
/// # Numerics
/// At most a few units in the last place above the true value; exact results stay exact.
///
/// # Examples
/// ```
/// use dp_accounting::gdp::mu_squared;
/// use dp_core::{Adjacency, DpEvent};
/// let event = DpEvent::gaussian(2.0).repeated(8);
/// assert_eq!(mu_squared(&event, Adjacency::AddRemoveUser)?, 2.0);
/// assert_eq!(mu_squared(&event, Adjacency::ReplaceUser)?, 8.0);
/// # Ok::<(), dp_accounting::Error>(())
/// ```
pub fn mu_squared(event: &DpEvent, adjacency: Adjacency) -> Result<f64> {
    event.check_depth()?;
    cost_of(event, adjacency)
}

/// The same for an event whose nesting depth has been checked.
fn cost_of(event: &DpEvent, adjacency: Adjacency) -> Result<f64> {
    let cost = match event {
        DpEvent::Gaussian {
            noise_multiplier,
            replace_factor,
        } => gaussian(*noise_multiplier, *replace_factor, adjacency)?,
        &DpEvent::TreeAggregation {
            noise_multiplier,
            n_steps,
        } => tree(noise_multiplier, n_steps, adjacency)?,
        DpEvent::Composed { events } => composed(events, adjacency)?,
        DpEvent::Repeated { event, count } => repeated(cost_of(event, adjacency)?, *count)?,
        DpEvent::NonPrivate => return Err(Error::NonPrivateEvent),
        DpEvent::Laplace { .. } => return not_gaussian("laplace", adjacency),
        DpEvent::DiscreteGaussian { .. } => return not_gaussian("discrete-gaussian", adjacency),
        DpEvent::DiscreteLaplace { .. } => return not_gaussian("discrete-laplace", adjacency),
        DpEvent::RandomizedResponse { .. } => {
            return not_gaussian("randomized-response", adjacency);
        }
        DpEvent::BoundedRange { .. } => return not_gaussian("bounded-range", adjacency),
        DpEvent::ApproxDp { .. } => return not_gaussian("approx-dp", adjacency),
        DpEvent::Zcdp { .. } => return not_gaussian("zcdp", adjacency),
        DpEvent::Rdp { .. } => return not_gaussian("rdp", adjacency),
        DpEvent::PoissonSampled { .. } => return not_gaussian("poisson-sampled", adjacency),
        DpEvent::SampledWithoutReplacement { .. } => {
            return not_gaussian("sampled-without-replacement", adjacency);
        }
        DpEvent::RandomAllocation { .. } => return not_gaussian("random-allocation", adjacency),
        DpEvent::MixtureOfGaussians { .. } => {
            return not_gaussian("mixture-of-gaussians", adjacency);
        }
        DpEvent::RepeatAndSelect { .. } => return not_gaussian("repeat-and-select", adjacency),
    };
    finite_cost(cost)
}

/// Adds up the costs of `events`, in order.
fn composed(events: &[DpEvent], adjacency: Adjacency) -> Result<f64> {
    if events.is_empty() {
        return Err(Error::NothingComposed);
    }
    let mut sum = UpwardSum::EMPTY;
    for event in events {
        sum = sum.plus(cost_of(event, adjacency)?);
    }
    Ok(sum.total())
}

/// One participation affects one node on each level of the tree.
fn tree(z: f64, n_steps: u64, adjacency: Adjacency) -> Result<f64> {
    if n_steps == 0 {
        return Err(zero_count("n_steps"));
    }
    let depth = f64::from(u64::BITS - n_steps.leading_zeros());
    Ok(mul_up(gaussian(z, ReplaceFactor::Two, adjacency)?, depth))
}

const fn not_gaussian(event: &'static str, adjacency: Adjacency) -> Result<f64> {
    Err(Error::UnsupportedEvent {
        event,
        accountant: "gdp",
        adjacency,
    })
}

fn zero_count(name: &'static str) -> Error {
    Error::Param(ParamError::new(name, 0.0, "a whole number, 1 or above"))
}

/// The cost of `event` run `count` times.
pub(crate) fn repeated_cost(event: &DpEvent, count: u64, adjacency: Adjacency) -> Result<f64> {
    repeated(mu_squared(event, adjacency)?, count)
}

fn repeated(one: f64, count: u64) -> Result<f64> {
    if count == 0 {
        return Err(zero_count("count"));
    }
    finite_cost(mul_up(one, count_up(count)))
}

fn gaussian(z: f64, factor: ReplaceFactor, adjacency: Adjacency) -> Result<f64> {
    let z = params::finite_positive("noise_multiplier", z)?;
    let mu = div_up(1.0, z);
    Ok(mul_up(
        mul_up(mu, mu),
        sensitivity_squared(factor, adjacency),
    ))
}

/// Square of the sensitivity relative to adding or removing one unit.
pub(crate) fn sensitivity_squared(factor: ReplaceFactor, adjacency: Adjacency) -> f64 {
    #[cfg(privacy_mutants)]
    if dp_core::mutants::active("replace-factor-missing") {
        return 1.0;
    }
    if adjacency.is_replace() {
        factor.squared()
    } else {
        1.0
    }
}

/// Rejects a cost that overflowed.
pub(crate) fn finite_cost(mu_squared: f64) -> Result<f64> {
    if mu_squared.is_finite() {
        return Ok(mu_squared);
    }
    Err(Error::Param(ParamError {
        name: "mu_squared",
        value: mu_squared,
        expected: "noise large enough for a finite cost",
    }))
}

/// The guarantee that corresponds to a cost, rounded up.
pub(crate) fn from_mu_squared(mu_squared: f64) -> Gdp {
    Gdp {
        mu: sqrt_up(mu_squared),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these costs are exact")]
mod tests {
    use super::*;

    const ALL: [Adjacency; 4] = [
        Adjacency::AddRemoveUser,
        Adjacency::ReplaceUser,
        Adjacency::AddRemoveRecord,
        Adjacency::ReplaceRecord,
    ];

    #[test]
    fn replacement_costs_its_own_factor() {
        let costs = |event: DpEvent| ALL.map(|a| mu_squared(&event, a).unwrap());
        assert_eq!(costs(DpEvent::gaussian(2.0)), [0.25, 1.0, 0.25, 1.0]);
        assert_eq!(costs(DpEvent::gaussian_psd(2.0)), [0.25, 0.5, 0.25, 0.5]);
    }

    #[test]
    fn nested_events_add_and_multiply() {
        let inner = DpEvent::composed(vec![DpEvent::gaussian(1.0), DpEvent::gaussian_psd(2.0)]);
        let event = DpEvent::composed(vec![inner.repeated(4).repeated(2), DpEvent::gaussian(4.0)]);
        assert_eq!(mu_squared(&event, ALL[0]).unwrap(), 8.0 * 1.25 + 0.0625);
        assert_eq!(mu_squared(&event, ALL[1]).unwrap(), 8.0 * 4.5 + 0.25);
    }

    #[test]
    fn bad_noise_is_refused_at_any_depth() {
        for z in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-200] {
            for event in [
                DpEvent::gaussian(z),
                DpEvent::gaussian(z).repeated(3),
                DpEvent::composed(vec![DpEvent::gaussian(1.0), DpEvent::gaussian(z)]),
            ] {
                assert!(
                    matches!(mu_squared(&event, ALL[0]), Err(Error::Param(_))),
                    "{z}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_guarantee_has_no_cost() {
        let event = DpEvent::composed(vec![DpEvent::NonPrivate]);
        assert!(matches!(
            mu_squared(&event, ALL[0]),
            Err(Error::NonPrivateEvent)
        ));
        assert!(matches!(
            mu_squared(&DpEvent::NonPrivate.repeated(1), ALL[0]),
            Err(Error::NonPrivateEvent)
        ));
        assert!(mu_squared(&DpEvent::gaussian(1.0).repeated(0), ALL[0]).is_err());
    }

    #[test]
    fn huge_noise_is_cheap_but_not_free() {
        assert!(mu_squared(&DpEvent::gaussian(1e300), ALL[0]).unwrap() > 0.0);
    }

    #[test]
    fn huge_counts_overflow_into_an_error() {
        let event = DpEvent::gaussian(1e-150).repeated(u64::MAX);
        assert!(matches!(mu_squared(&event, ALL[0]), Err(Error::Param(_))));
    }
}
