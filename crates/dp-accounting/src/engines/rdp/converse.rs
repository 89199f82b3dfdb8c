//! Lower bounds that follow from moments of order between 0 and 1.
//!
//! A minimum is at most any geometric mean, so for s in (0, 1]
//!
//! ```text
//! 1 - δ(ε) = E[min(1, e^(ε - L)); L finite] <= E[e^(s (ε - L)); L finite] = e^(sε + K(-s))
//! ```
//!
//! with L drawn under P and K(-s) = ln `E_P`[e^{-sL}] = -s `D_(1-s)`(P‖Q). If the composed losses
//! are those of a mechanism that fits the events, no bound below this can be true: the gap to the
//! upper bounds is the loss of the conversion from Renyi divergences. It closes as delta approaches
//! 1.

use super::search::minimum_on;
use crate::engines::composition::Composition;
use crate::engines::loss::{Direction, Loss};

/// Values of s that are tried.
const POINTS: [f64; 15] = [
    1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.07, 0.15, 0.3, 0.5, 0.7, 0.9,
];

/// Relative error allowed for in moments of negative order.
const MOMENT_ERROR: f64 = 1e-9;

/// A lower bound on the delta of the composition at `epsilon`.
pub(super) fn delta(composition: &Composition, epsilon: f64) -> f64 {
    worst(composition, |losses| {
        // convex in s
        let log = |s: f64| s * epsilon + log_moment(losses, s);
        let log = minimum_on(&POINTS, Some(&[]), log).1;
        -libm::expm1(log + 1e-14 * (1.0 + log.abs()))
    })
}

/// A lower bound on the epsilon of the composition at `delta`.
pub(super) fn epsilon(composition: &Composition, delta: f64) -> f64 {
    let log_rest = libm::log1p(-delta) * (1.0 + 1e-14);
    worst(composition, |losses| {
        // The reciprocal of a concave function over a linear one, negative: a single minimum.
        let least = |s: f64| (log_moment(losses, s) - log_rest) / s;
        let epsilon = -minimum_on(&POINTS, Some(&[]), least).1;
        epsilon - 1e-14 * epsilon.abs()
    })
}

/// The larger of the directions, at least 0; 0 if no mechanism has the composed losses.
fn worst(composition: &Composition, one: impl Fn(&[(Loss, u64)]) -> f64) -> f64 {
    if !composition.is_attained() {
        return 0.0;
    }
    let of = |direction: &Direction| composition.losses(*direction).map_or(0.0, |l| one(&l));
    let found = composition.directions().iter().map(of);
    found.filter(|x| x.is_finite()).fold(0.0, f64::max)
}

/// An upper bound on K(-s).
fn log_moment(losses: &[(Loss, u64)], s: f64) -> f64 {
    let one = |(loss, count): &(Loss, u64)| {
        let log = loss.log_moment(-s).log;
        *count as f64 * (log + MOMENT_ERROR * log.abs())
    };
    losses.iter().map(one).sum()
}

#[cfg(test)]
mod tests {
    use dp_core::{Adjacency, DpEvent};

    use super::*;
    use crate::engines::gdp;

    fn composed(event: &DpEvent, count: u64, adjacency: Adjacency) -> Composition {
        let mut composition = Composition::new(adjacency);
        composition.add(event, count).unwrap();
        composition
    }

    /// The moment of order -t equals that of order t - 1 with the neighbours exchanged.
    #[test]
    fn moments_of_negative_order_agree_with_the_swapped_pair() {
        let events = [
            DpEvent::gaussian(3.0),
            DpEvent::laplace(0.2),
            DpEvent::laplace(300.0),
            DpEvent::discrete_gaussian(2.0, 3),
            DpEvent::discrete_laplace(0.7, 2),
            DpEvent::sampled_gaussian(0.3, 1e-6),
            DpEvent::sampled_gaussian(1.0, 0.01),
            DpEvent::sampled_gaussian(50.0, 0.99),
            DpEvent::laplace(0.3).poisson_sampled(1e-4),
            DpEvent::laplace(10.0).poisson_sampled(0.5),
            DpEvent::mixture_of_gaussians(0.7, [0.0, 1.0, 3.0], [0.5, 0.3, 0.2]),
        ];
        for event in events {
            let composition = composed(&event, 1, Adjacency::AddRemoveUser);
            let at = |direction, s| {
                let losses = composition.losses(direction).unwrap();
                losses[0].0.log_moment(s).log
            };
            for t in [1e-4, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9] {
                let (a, b) = (at(Direction::Remove, -t), at(Direction::Add, t - 1.0));
                let error = (a - b).abs() / a.abs();
                assert!(
                    a < 0.0 && error < 0.1 * MOMENT_ERROR,
                    "{event:?} {t}: {a} {b}"
                );
            }
        }
    }

    #[test]
    fn lower_ends_stay_below_the_closed_form_and_meet_it_where_delta_is_close_to_one() {
        for mu in [0.1, 1.0, 8.0] {
            let composition = composed(&DpEvent::gaussian(1.0 / mu), 1, Adjacency::AddRemoveUser);
            for epsilon_at in [0.0, 0.1, 1.0, 20.0] {
                let (found, exact) = (delta(&composition, epsilon_at), gdp::delta(mu, epsilon_at));
                assert!(found <= exact, "{mu} {epsilon_at}: {found} {exact}");
            }
            for delta_at in [1e-9, 0.01, 0.5, 0.999] {
                let found = epsilon(&composition, delta_at);
                let exact = gdp::epsilon(mu, delta_at);
                assert!(found <= exact, "{mu} {delta_at}: {found} {exact}");
            }
        }
        let many = composed(
            &DpEvent::sampled_gaussian(0.01, 0.5),
            1000,
            Adjacency::ReplaceUser,
        );
        assert!(1.0 - delta(&many, 1.0) < 1e-15);
    }
}
