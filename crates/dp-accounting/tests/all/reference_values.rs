//! Values of the Gaussian privacy profile compared with 420-digit arithmetic.
//!
//! Both tables were printed by `tests/reference_values.py` (mpmath), which evaluates the definition
//! with enough digits that its cancellation does not matter, and uses bisection for epsilon. The
//! inputs are the doubles nearest to the literals; 25 digits are shown.

use dp_accounting::gdp::{delta, epsilon, log_delta, mu_for};
use dp_core::ApproxDp;

/// (mu, epsilon, delta)
const DELTAS: &[(f64, f64, f64)] = &[
    (0.001, 0.0, 0.0003989422637788382928655325),
    (0.001, 1e-06, 0.0003984426624712682143856167),
    (0.001, 0.001, 0.00008335713212520849354803517),
    (0.001, 0.005, 5.359547041057212790242018e-11),
    (0.001, 0.0367, 1.011893941634415411626522e-299),
    (0.01, 0.05, 5.481440200746872561400562e-10),
    (0.1, 0.1, 0.008751768145809594488225327),
    (0.1, 3.6, 7.009163868688692708742911e-286),
    (0.3, 0.01, 0.1148755390991997870564494),
    (0.5, 0.0, 0.1974126513658474484817076),
    (0.999, 0.3, 0.2928937597836328772695321),
    (1.0, 0.3, 0.2932848337287803190389056),
    (1.0, 0.5, 0.2384217081348766283181562),
    (1.0, 1.0, 0.1269367375066439458008296),
    (1.0, 10.0, 9.812705826846955949223311e-23),
    (1.0, 30.0, 4.709326318097522196981947e-193),
    (1.0, 37.0, 1.476469534442528114651416e-293),
    (2.0, 0.0, 0.6826894921370858971704651),
    (2.0, 5.0, 0.03228198475007282135176531),
    (2.0, 74.0, 2.198258673962920017644831e-285),
    (5.0, 12.4, 0.4307864917698386376860246),
    (5.0, 12.6, 0.4154035871048104081346318),
    (5.0, 190.0, 3.030240341751920706660909e-277),
    (10.0, 0.1, 0.9999993973310761939947096),
    (10.0, 60.0, 0.1368353803964612652227942),
    (10.0, 400.0, 2.496988668912653553612317e-269),
    (30.0, 450.0, 0.4867166506460162057257077),
    (30.0, 1500.0, 5.188392756401289239176233e-269),
    (100.0, 5100.0, 0.1562597389691098438411931),
    (100.0, 8600.0, 3.074665787189391762555118e-284),
];

/// (mu, delta, epsilon)
const EPSILONS: &[(f64, f64, f64)] = &[
    (0.001, 1e-05, 0.001938724969860109981196906),
    (0.001, 1e-300, 0.03676291669948786176557486),
    (0.01, 0.001, 0.009048072593038798017711586),
    (0.1, 1e-12, 0.647008125924982347645503),
    (0.5, 0.05, 0.5142582707117579355650224),
    (1.0, 0.1, 1.160333852791617192467186),
    (1.0, 1e-05, 4.377178095681224608553986),
    (1.0, 1e-100, 21.62750809364838220955564),
    (1.0, 1e-300, 37.44884791213910494034213),
    (3.0, 1e-06, 18.16344575907847482647159),
    (3.0, 0.5, 3.529275780931739902736857),
    (3.0, 0.86, 0.09401494817481713822647596),
    (10.0, 1e-09, 109.1955968818063246975424),
    (10.0, 1e-300, 420.0529959123811886602957),
    (30.0, 1e-05, 577.0119736880170126801652),
    (100.0, 1e-12, 5702.482015738906070016049),
];

#[test]
fn delta_is_right_to_the_last_digits() {
    let mut worst: f64 = 0.0;
    for &(mu, eps, expected) in DELTAS {
        let error = (delta(mu, eps) / expected - 1.0).abs();
        // the inputs are exact and nothing cancels: only a few roundings and those of libm remain
        assert!(error < 4e-15, "{mu} {eps}: {error:e}");
        worst = worst.max(error);
    }
    println!("worst relative error of delta: {worst:.2e}");
}

#[test]
fn log_delta_agrees_with_delta() {
    for &(mu, eps, expected) in DELTAS {
        let error = (log_delta(mu, eps) - expected.ln()).abs();
        assert!(
            error < 1e-14 + 4e-16 * expected.ln().abs(),
            "{mu} {eps}: {error:e}"
        );
    }
}

#[test]
fn epsilon_is_never_below_and_hardly_above() {
    let mut worst: f64 = 0.0;
    for &(mu, target, expected) in EPSILONS {
        let excess = epsilon(mu, target) / expected - 1.0;
        // the margin of 1e-14 in ln delta has the largest effect if delta is near its maximum: (3,
        // 0.86)
        assert!((0.0..2e-12).contains(&excess), "{mu} {target}: {excess:e}");
        worst = worst.max(excess);
    }
    println!("worst relative excess of epsilon: {worst:.2e}");
}

#[test]
fn mu_for_is_never_above_and_at_most_1e_12_below() {
    for &(mu, delta, epsilon) in EPSILONS {
        let found = mu_for(ApproxDp { epsilon, delta }).unwrap();
        let shortfall = 1.0 - found / mu;
        assert!(
            (0.0..1e-12).contains(&shortfall),
            "{mu} {delta}: {shortfall:e}"
        );
    }
}
