//! The Renyi divergence of one event at one order.

use dp_core::{Adjacency, DpEvent};

use crate::composition::{Composition, Pair, Part};
use crate::loss::Loss;
use crate::rounding::{UpwardSum, count_up, mul_up};
use crate::{Error, Result};

/// Share of epsilon that covers the rounding of a Laplace divergence.
const MARGIN: f64 = 1e-14;

/// Renyi divergence of `event` at `order`, the worse of the two directions, rounded up.
///
/// This is the only door through which the filters learn what an event costs in Renyi terms.
pub(super) fn rdp_of(event: &DpEvent, adjacency: Adjacency, order: f64) -> Result<f64> {
    let composition = Composition::of(event, adjacency)?;
    let mut sum = UpwardSum::EMPTY.plus(mul_up(0.5 * order, composition.gaussian()));
    for (part, count) in composition.parts() {
        let single = match part {
            Part::Zcdp { rho } => mul_up(*rho, order),
            Part::Pair(Pair::Symmetric(Loss::Laplace { epsilon })) => laplace(*epsilon, order),
            _ => {
                return Err(Error::UnsupportedEvent {
                    event: "a mechanism without a known Renyi divergence",
                    accountant: "rdp filter",
                    adjacency,
                });
            }
        };
        sum = sum.plus(mul_up(single, count_up(*count)));
    }
    Ok(dp_core::params::finite("rdp", sum.total())?)
}

/// Laplace at distance over scale epsilon (Mironov, arXiv 1702.07476, Proposition 6), written so
/// that nothing overflows:
///
/// ```text
/// ε + ln(1 + (α-1)/(2α-1) (e^(-(2α-1) ε) - 1)) / (α-1)
/// ```
///
/// Two terms of size epsilon cancel where epsilon is small; the margin covers that, and
/// the bound α ε^2/2 of any ε-private mechanism (Bun, Steinke, arXiv 1605.02065, Prop. 1.4) takes over.
fn laplace(epsilon: f64, order: f64) -> f64 {
    let inner = (order - 1.0) / (2.0 * order - 1.0) * libm::expm1(-(2.0 * order - 1.0) * epsilon);
    let exact = epsilon + libm::log1p(inner) / (order - 1.0);
    let any = mul_up(mul_up(epsilon, epsilon), 0.5 * order);
    (exact + MARGIN * epsilon).min(any).min(epsilon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rdp(event: &DpEvent, order: f64) -> f64 {
        rdp_of(event, Adjacency::AddRemoveUser, order).unwrap()
    }

    #[test]
    fn laplace_is_the_published_formula() {
        // mpmath: log(a/(2a-1) exp((a-1) e) + (a-1)/(2a-1) exp(-a e)) / (a-1)
        for (z, order, expected) in [
            (1.0, 2.0, 0.619_123_629_998_592_88),
            (0.5, 32.0, 1.978_148_425_045_425_6),
            (1.0, 1.5, 0.512_883_511_294_508_6),
            (100.0, 2.0, 9.966_419_172_325_247_5e-5),
        ] {
            let found = rdp(&DpEvent::laplace(z), order);
            assert!(found >= expected * (1.0 - 1e-15), "{z} {order}: {found}");
            assert!(found <= expected * (1.0 + 1e-9), "{z} {order}: {found}");
        }
    }

    #[test]
    fn costs_add_and_replacement_doubles_the_distance() {
        let gaussian = DpEvent::gaussian(2.0);
        assert!((rdp(&gaussian, 8.0) - 1.0).abs() < 1e-15);
        let both = DpEvent::Composed {
            events: vec![gaussian.clone().repeated(3), DpEvent::laplace(1.0)],
        };
        let sum = 3.0 + rdp(&DpEvent::laplace(1.0), 8.0);
        assert!((rdp(&both, 8.0) - sum).abs() < 1e-14);
        let replaced = rdp_of(&gaussian, Adjacency::ReplaceUser, 8.0).unwrap();
        assert!((replaced - 4.0).abs() < 1e-14);
    }

    #[test]
    fn unknown_costs_are_refused() {
        let event = DpEvent::sampled_gaussian(1.0, 0.01);
        assert!(rdp_of(&DpEvent::NonPrivate, Adjacency::AddRemoveUser, 2.0).is_err());
        assert!(rdp_of(&event, Adjacency::AddRemoveUser, 2.0).is_err());
    }
}
