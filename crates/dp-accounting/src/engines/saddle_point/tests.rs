//! Unit tests of the parts of the inversion.

use num_complex::Complex64;

use super::contour::{Aim, Losses, saddle_point};
use super::inversion::Inversion;
use super::nodes::{Demand, Nodes};
use super::tilted::{Tilted, ln_1p};
use super::windows::Windows;
use super::{Ask, SaddlePointAccountant, delta_over, ends_below, epsilon_over, stays_below, tail};
use crate::engines::accountant::Accountant;
use crate::engines::composition::Composition;
use crate::engines::gdp;
use crate::engines::loss::{Direction, Loss, MixtureLoss, Side};
use crate::engines::pld::PldAccountant;
use dp_core::{Adjacency, DpEvent};

fn sampled(sigma: f64, q: f64, side: Side) -> MixtureLoss {
    MixtureLoss {
        sigma,
        shifts: vec![0.0, 1.0],
        weights: vec![1.0 - q, q],
        side,
    }
}

const SIDES: [Side; 3] = [Side::Remove, Side::Add, Side::Replace];

fn tilted(loss: &Loss, c: f64, t: f64) -> Tilted {
    let demand = Demand {
        c,
        t,
        exponent: 40.0,
    };
    Tilted::new(loss, Some(&Nodes::of(loss, demand).unwrap()), c).unwrap()
}

/// ln E[e^{itL}] of the tilted loss with its mean taken out, from the grid of the inversion.
fn log_characteristic(one: &Tilted, t: f64) -> Complex64 {
    let mut sums = vec![Complex64::ZERO; 2];
    one.add_log_characteristic(t, 1.0, &mut sums);
    sums[1]
}

#[test]
fn laplace_nodes_have_the_closed_form_moments() {
    for epsilon in [1e-3, 0.5, 7.0] {
        let loss = Loss::Laplace { epsilon };
        for (c, t) in [(0.3, 0.0), (5.0, 2.0), (2.0, 60.0)] {
            let one = tilted(&loss, c, t);
            let z = Complex64::new(c, t);
            let half = z + 0.5;
            let exact = ((z * epsilon).exp() + (-(z + 1.0) * epsilon).exp()) * 0.5
                + (half * epsilon).sinh() / half * (0.5 * (-0.5 * epsilon).exp());
            let log = one.cumulants.log_mgf + log_characteristic(&one, t);
            let found = (log + Complex64::new(0.0, t * one.cumulants.mean)).exp();
            assert!(
                (found - exact).norm() < 1e-13 * exact.norm().max(1.0),
                "{epsilon} {c} {t}: {found} {exact}"
            );
        }
    }
}

/// The pair ((1-q) N(0) + q N(1), N(0)) has `E_P`[e^{L}] = `E_Q`[e^{2L}] = 1 + q^2 (e^{1/sigma^2} - 1),
/// and with the sides exchanged E[e^{-L}] = 1.
#[test]
fn sampled_gaussian_has_its_second_moment() {
    for (sigma, q) in [(1.0_f64, 0.01_f64), (0.3, 0.2), (20.0, 1e-6)] {
        let one = tilted(&Loss::Mixture(sampled(sigma, q, Side::Remove)), 1.0, 0.0);
        let exact = (q * q * (1.0 / (sigma * sigma)).exp_m1()).ln_1p();
        let found = one.cumulants.log_mgf;
        assert!(
            (found - exact).abs() < 1e-15 * exact.max(q),
            "{found} {exact}"
        );
    }
}

#[test]
fn rounding_of_the_log_moment_stays_within_its_bound() {
    // the same moment from nodes that are much finer than necessary
    for side in SIDES {
        for (sigma, q, c) in [(1.0, 1e-3, 4.0), (0.5, 0.1, 9.0), (5.0, 0.5, 30.0)] {
            let loss = Loss::Mixture(sampled(sigma, q, side));
            let (coarse, fine) = (tilted(&loss, c, 0.0), tilted(&loss, c, 40.0));
            let gap = (coarse.cumulants.log_mgf - fine.cumulants.log_mgf).abs();
            let allowed = 0.5 * f64::EPSILON * coarse.cumulants.rounding;
            assert!(gap <= allowed, "{side:?} {sigma}: {gap} {allowed}");
            assert!(allowed < 1e-12, "{side:?} {sigma}: {allowed}");
        }
    }
}

/// The logarithm of a number close to 0 keeps its digits: |1 + z|² - 1 has none left there.
#[test]
fn logarithms_are_exact_next_to_zero() {
    for distance in [1e-3, 1e-9, 1e-15_f64] {
        // 1 + z = d + i d, where d is the rounded sum of 1 and z.re
        let z = Complex64::new(-1.0 + distance, 1.0 - (1.0 - distance));
        let exact = Complex64::new(z.re + 1.0, z.im);
        let found = ln_1p(z);
        assert!((found.re - exact.norm().ln()).abs() < 1e-14, "{distance}");
        assert!((found.im - std::f64::consts::FRAC_PI_4).abs() < 1e-15);
        let small = Complex64::new(-0.5 * distance * distance, distance);
        // ln(1 + ix - x²/2) = ix + i x³/6 + O(x⁴)
        let found = ln_1p(small);
        assert!(found.re.abs() < distance.powi(4) && (found.im / distance - 1.0).abs() < 1e-5);
    }
}

/// Every kind of loss that has windows.
fn spread_out() -> Vec<Loss> {
    let mut all = vec![
        Loss::Laplace { epsilon: 1.5 },
        Loss::Laplace { epsilon: 6.0 },
        Loss::BoundedRange { epsilon: 0.8 },
    ];
    for side in SIDES {
        for (sigma, q) in [(1.0, 0.01), (0.6, 0.3), (3.0, 0.05)] {
            all.push(Loss::Mixture(sampled(sigma, q, side)));
        }
        for (epsilon, q) in [(1.0, 0.4), (2.5, 0.02), (2.0, 0.9)] {
            all.push(Loss::SampledLaplace { epsilon, q, side });
        }
    }
    all
}

#[test]
fn windows_bound_the_characteristic_function_from_each_t_on() {
    for loss in spread_out() {
        for c in [0.2, 3.0] {
            let log_mgf = tilted(&loss, c, 0.0).cumulants.log_mgf;
            let demand = Demand {
                c,
                t: 0.0,
                exponent: 40.0,
            };
            let windows = Windows::new(&loss, demand, log_mgf);
            let mut some = false;
            for t in [20.0, 60.0, 150.0] {
                let bound = windows.log_modulus_from(t);
                some |= bound < -1e-3;
                assert!(windows.log_rest() <= bound, "{loss:?} {t}");
                for u in [1.0, 1.1, 1.37, 1.9, 3.3] {
                    let actual = log_characteristic(&tilted(&loss, c, u * t), u * t).re;
                    assert!(actual <= bound, "{loss:?} {c} {t}: {actual} {bound}");
                }
            }
            assert!(some, "{loss:?} {c}: nothing was shown");
        }
    }
}

/// The mass outside the windows is that of the atoms, except for cells at the edge.
#[test]
fn windows_hold_nearly_all_that_is_no_atom() {
    for epsilon in [0.3, 1.0, 6.0] {
        let (loss, c) = (Loss::Laplace { epsilon }, 2.0);
        let log_mgf = tilted(&loss, c, 0.0).cumulants.log_mgf;
        let demand = Demand {
            c,
            t: 0.0,
            exponent: 40.0,
        };
        let rest = Windows::new(&loss, demand, log_mgf).log_rest().exp();
        let atoms = 0.5 * ((c * epsilon).exp() + (-(c + 1.0) * epsilon).exp());
        let share = atoms / log_mgf.exp();
        assert!(rest >= share * (1.0 - 1e-9), "{epsilon}: {rest} {share}");
        assert!(
            rest - share <= 0.1 * (1.0 - share),
            "{epsilon}: {rest} {share}"
        );
    }
}

#[test]
fn tail_is_at_least_what_it_bounds() {
    for (loss, count) in [
        (Loss::Mixture(sampled(1.0, 0.01, Side::Remove)), 1_000),
        (Loss::Mixture(sampled(1.0, 0.01, Side::Add)), 3_000),
        (Loss::Mixture(sampled(1.0, 0.01, Side::Replace)), 300),
        (Loss::Laplace { epsilon: 2.0 }, 250),
        (Loss::Laplace { epsilon: 0.5 }, 400),
    ] {
        let (c, t0) = match loss {
            Loss::Laplace { .. } => (0.3, 12.0),
            _ => (5.0, 12.0),
        };
        let losses = vec![(loss.clone(), count, tilted(&loss, c, t0))];
        let (steps, h) = (20_000, 0.01);
        let floor = tail::floor(&losses, c).unwrap();
        let bound = tail::bound(&losses, c, t0, h, floor).unwrap();
        let fine = tilted(&loss, c, t0 + h * f64::from(steps));
        let mut sums = vec![Complex64::ZERO; 21_200];
        fine.add_log_characteristic(h, count as f64, &mut sums);
        let sum: f64 = (1_201..21_200)
            .map(|k: u32| {
                let t = h * f64::from(k);
                h * sums[k as usize].re.exp() / (t * t)
            })
            .sum();
        assert!(sum <= bound, "{loss:?}: {sum} {bound}");
        let close = sum > 1e-3 * bound || matches!(loss, Loss::Laplace { .. });
        assert!(close, "{loss:?}: {sum} {bound}");
    }
}

/// The sum of two Gaussian losses is a Gaussian loss, which has a closed form: the sum, with all
/// its errors, must contain it at every epsilon near the one it was created for.
#[test]
fn bracket_contains_the_gaussian_profile() {
    for (mu_squared, epsilon) in [
        (1e-6, 0.003),
        (0.25, 1.0),
        (1.0, 0.0),
        (9.0, 20.0),
        (4.0, 60.0),
    ] {
        let losses = [(
            Loss::Gaussian {
                mu_squared: 0.5 * mu_squared,
            },
            2,
        )];
        let mut losses = Losses::new(&losses);
        let inversion = Inversion::new(&mut losses, epsilon, 1.0).unwrap();
        for shift in [-0.02, 0.0, 0.01] {
            let at = epsilon * (1.0 + shift);
            let exact = gdp::delta(mu_squared.sqrt(), at);
            let found = inversion.delta(at);
            let slack = 1e-13 * exact;
            assert!(
                found.lower <= exact + slack && exact <= found.upper + slack,
                "{mu_squared}"
            );
            assert!(
                found.upper - found.lower < 1e-10 * exact,
                "{mu_squared}: {found:?}"
            );
        }
    }
}

/// With too short a period the sum is larger than delta: the aliases are positive, and no larger
/// than their bound.
#[test]
fn aliases_only_add_and_are_bounded() {
    let losses = [(Loss::Gaussian { mu_squared: 1.0 }, 1)];
    let mut losses = Losses::new(&losses);
    let at = saddle_point(&mut losses, Aim::Epsilon(1.0), 1.0).unwrap();
    let s = at.c + 3.0;
    let above = (s, 0.5 * s * (s + 1.0));
    let exact = gdp::delta(1.0, 1.0);
    for width in [3.0, 5.0, 8.0] {
        let inversion = Inversion::with_period(&mut losses, &at, (width, -38.0), above).unwrap();
        let found = inversion.delta(1.0);
        let excess = found.value - exact;
        assert!(excess > 1e-9, "{width}: {excess}");
        assert!(found.value - found.lower >= excess, "{width}: {excess}");
    }
}

/// A direction is skipped only if it really stays below the known value, for epsilon and for delta.
#[test]
fn a_direction_is_skipped_only_below_what_is_known() {
    let epsilon = 1.0;
    for side in SIDES {
        let losses = [(Loss::Mixture(sampled(1.0, 0.01, side)), 1_000)];
        let inversion = Inversion::new(&mut Losses::new(&losses), epsilon, 1.0).unwrap();
        let delta = inversion.delta(epsilon).value;
        let below_delta = |known| stays_below(&losses, Ask::DeltaAt(epsilon), known);
        let below_epsilon = |known| stays_below(&losses, Ask::EpsilonAt(delta), known);
        for share in [0.0, 0.5, 0.999_999] {
            assert!(!below_delta(share * delta), "{side:?} {share}");
            assert!(!below_epsilon(share * epsilon), "{side:?} {share}");
        }
        // the Renyi bound that decides is looser than the true value, but not by that much
        assert!(below_delta(30.0 * delta), "{side:?}");
        assert!(below_epsilon(1.5 * epsilon), "{side:?}");
    }
}

/// Without the unit, n runs lose less than -n ln(1 - q). For small q, the logarithm of the rounded 1 - q differs
/// from that by far more than the margin.
#[test]
fn the_largest_loss_does_not_depend_on_the_rounding_of_one_minus_q() {
    for q in [3e-10_f64, 7e-10, 1.3e-9, 2.9e-8] {
        let losses = [(Loss::Mixture(sampled(1.0, q, Side::Add)), 5)];
        let losses = Losses::new(&losses);
        let largest = 5.0 * (q + 0.5 * q * q);
        assert!(ends_below(&losses, largest * (1.0 + 1e-11)), "{q}");
        assert!(!ends_below(&losses, largest * (1.0 - 1e-11)), "{q}");
    }
}

/// Which direction comes first decides only what is skipped.
#[test]
fn the_order_of_the_directions_does_not_change_the_answer() {
    let orders = [
        [Direction::Remove, Direction::Add],
        [Direction::Add, Direction::Remove],
    ];
    for (sigma, q, count) in [
        (1.0, 0.01, 1_000),
        (0.8, 0.01, 20),
        (2.0, 0.5, 100),
        (5.0, 1.0, 3),
    ] {
        let mut composition = Composition::new(Adjacency::AddRemoveUser);
        let event = DpEvent::sampled_gaussian(sigma, q);
        composition.add(&event, count).unwrap();
        let [first, second] = orders.map(|order| epsilon_over(&order, &composition, 1e-5).unwrap());
        assert!(first.lower <= second.upper && second.lower <= first.upper);
        assert!(
            (first.value - second.value).abs() <= 1e-7 * first.value,
            "{first:?} {second:?}"
        );
        let deltas = orders.map(|order| delta_over(&order, &composition, first.value).unwrap());
        for at in &deltas {
            // 1e-5 at this epsilon, whichever direction was skipped
            assert!(
                (at.value - 1e-5).abs() <= 1e-7 * 1e-5,
                "{sigma} {q} {count}: {deltas:?}"
            );
        }
    }
}

/// Few runs at small rates, whose loss is nearly discrete: the bracket is narrow, and it is
/// contained in that of privacy loss distributions.
#[test]
fn few_sampled_runs_agree_with_privacy_loss_distributions() {
    type Runs = &'static [(f64, f64, u64)];
    let cases: [(Adjacency, Runs); 5] = [
        (Adjacency::AddRemoveUser, &[(0.55, 1e-3, 2)]),
        (Adjacency::AddRemoveUser, &[(0.8, 0.01, 20)]),
        (Adjacency::AddRemoveUser, &[(0.6, 1e-3, 150)]),
        (
            Adjacency::AddRemoveUser,
            &[(0.7, 0.01, 3), (1.5, 0.2, 4), (0.9, 2e-3, 1)],
        ),
        (Adjacency::ReplaceUser, &[(3.0, 0.3, 6)]),
    ];
    for (adjacency, runs) in cases {
        let mut exact = SaddlePointAccountant::new(adjacency);
        let mut discretised = PldAccountant::quick(adjacency);
        for &(sigma, q, count) in runs {
            let event = DpEvent::sampled_gaussian(sigma, q);
            exact.compose(&event, count).unwrap();
            discretised.compose(&event, count).unwrap();
        }
        for delta in [1e-5, 1e-7] {
            let (a, b) = (
                exact.epsilon(delta).unwrap(),
                discretised.epsilon(delta).unwrap(),
            );
            let found = format!("{runs:?} {delta}: {a:?} {b:?}");
            assert!(a.upper - a.lower <= 1e-6 * a.upper, "{found}");
            assert!(b.lower <= a.upper && a.lower <= b.upper, "{found}");
        }
    }
}

/// For a loss that gives weight to far outcomes at a large c, only a part of the nodes is kept.
/// That part must not be used at a smaller c, where other outcomes matter. When it was, K(c) was 49
/// instead of 233,000, and the resulting saddle point did not exist.
#[test]
fn nodes_that_were_kept_give_the_same_cumulants_as_new_ones() {
    for (sigma, q, side, wide, c) in [
        (2.0, 1e-4, Side::Replace, 1_000.0, 500.0),
        (2.0, 1e-3, Side::Remove, 1_987.0, 993.0),
        (2.0, 0.1, Side::Add, 40.0, 3.0),
    ] {
        let losses = [(Loss::Mixture(sampled(sigma, q, side)), 2)];
        let mut kept = Losses::new(&losses);
        kept.tilted(wide, 0.0).unwrap();
        let kept = kept.tilted(c, 0.0).unwrap().total;
        let new = Losses::new(&losses).tilted(c, 0.0).unwrap().total;
        for (kept, new) in [(kept.log_mgf, new.log_mgf), (kept.mean, new.mean)] {
            assert!(
                (kept - new).abs() <= 1e-10 * (1.0 + new.abs()),
                "{side:?} sigma {sigma} q {q} c {c}: {kept} {new}"
            );
        }
    }
}
