//! The Renyi divergence of one event at one order.

use dp_core::{Adjacency, DpEvent};

use crate::engines::composition::Composition;
use crate::{RdpAccountant, Result};

/// Renyi divergence of `event` at `order`, the worse of the two directions, rounded up.
///
/// This is the only door through which the filters learn what an event costs in Renyi terms.
pub(super) fn rdp_of(event: &DpEvent, adjacency: Adjacency, order: f64) -> Result<f64> {
    let composition = Composition::of(event, adjacency)?;
    let divergence = RdpAccountant::divergences(&composition, &[order])?[0];
    Ok(dp_core::params::finite("rdp", divergence.next_up())?)
}

#[cfg(test)]
mod tests {
    use dp_core::Relation;

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
        assert!((rdp(&gaussian, 8.0) - 1.0).abs() < 1e-12);
        let both = DpEvent::Composed {
            events: vec![gaussian.clone().repeated(3), DpEvent::laplace(1.0)],
        };
        let sum = 3.0 + rdp(&DpEvent::laplace(1.0), 8.0);
        assert!((rdp(&both, 8.0) - sum).abs() < 1e-11);
        let replaced = rdp_of(&gaussian, Adjacency::ReplaceUser, 8.0).unwrap();
        assert!((replaced - 4.0).abs() < 1e-11);
    }

    #[test]
    fn unknown_costs_are_refused() {
        let failing = DpEvent::ApproxDp {
            epsilon: 1.0,
            delta: 1e-5,
            relation: Relation::AddRemove,
        };
        assert!(rdp_of(&DpEvent::NonPrivate, Adjacency::AddRemoveUser, 2.0).is_err());
        assert!(rdp_of(&failing, Adjacency::AddRemoveUser, 2.0).is_err());
    }
}
