//! Moments against 50 digits, and at extremes against bounds.

use super::*;
use crate::engines::loss::{FiniteLoss, MixtureLoss, Side};

/// Kind, two parameters, s, K(s): made by `tests/rdp_reference.py`.
const MOMENTS: [(&str, f64, f64, f64, f64); 118] = [
    ("laplace", 0.001, 0.0, 0.0001, 4.9988335832083893e-11),
    ("laplace", 0.001, 0.0, -0.03, -1.4545151282768613e-8),
    ("laplace", 0.001, 0.0, -0.5001, -1.2495834395375178e-7),
    ("laplace", 0.001, 0.0, -0.71, -1.0291569544086047e-7),
    ("laplace", 0.001, 0.0, -0.999, -4.993335416997771e-10),
    ("laplace", 0.001, 0.0, 3.7, 8.6920772103650677e-6),
    ("laplace", 0.7, 0.0, 0.0001, 1.9660379324805929e-5),
    ("laplace", 0.7, 0.0, -0.03, -0.0057305588113181379),
    ("laplace", 0.7, 0.0, -0.5001, -0.049895405523118705),
    ("laplace", 0.7, 0.0, -0.71, -0.04098275618442256),
    ("laplace", 0.7, 0.0, -0.999, -0.00019640038478735744),
    ("laplace", 0.7, 0.0, 3.7, 2.011528536190839),
    ("laplace", 40.0, 0.0, 0.0001, 0.0039000149976670418),
    ("laplace", 40.0, 0.0, -0.03, -1.168583803766621),
    ("laplace", 40.0, 0.0, -0.5001, -16.955474641643382),
    ("laplace", 40.0, 0.0, -0.71, -11.074989761895492),
    ("laplace", 40.0, 0.0, -0.999, -0.038998497662910491),
    ("laplace", 40.0, 0.0, 3.7, 147.41933080286675),
    ("bounded-range", 0.001, 0.0, 0.0001, 1.6668333055472219e-11),
    ("bounded-range", 0.001, 0.0, -0.03, -4.8499999238711684e-9),
    ("bounded-range", 0.001, 0.0, -0.5001, -4.1666664652777785e-8),
    ("bounded-range", 0.001, 0.0, -0.71, -3.4316666330248954e-8),
    ("bounded-range", 0.001, 0.0, -0.999, -1.6649999723054467e-10),
    ("bounded-range", 0.001, 0.0, 3.7, 2.8983316049624921e-6),
    ("bounded-range", 0.001, 0.0, 60.0, 0.00060992558712592085),
    ("bounded-range", 0.7, 0.0, 0.0001, 8.1015379470746975e-6),
    ("bounded-range", 0.7, 0.0, -0.03, -0.002358420262159508),
    ("bounded-range", 0.7, 0.0, -0.5001, -0.0203339403136806),
    ("bounded-range", 0.7, 0.0, -0.71, -0.016735031737367364),
    ("bounded-range", 0.7, 0.0, -0.999, -8.0927702441129438e-5),
    ("bounded-range", 0.7, 0.0, 3.7, 1.1453105989799011),
    ("bounded-range", 0.7, 0.0, 60.0, 37.890550457211641),
    ("bounded-range", 40.0, 0.0, 0.0001, 0.0038000199973337335),
    ("bounded-range", 40.0, 0.0, -0.03, -1.1381245962819125),
    ("bounded-range", 40.0, 0.0, -0.5001, -16.311117879220819),
    ("bounded-range", 40.0, 0.0, -0.71, -10.732499482860593),
    ("bounded-range", 40.0, 0.0, -0.999, -0.037997997329326957),
    ("bounded-range", 40.0, 0.0, 3.7, 145.87176829415074),
    ("bounded-range", 40.0, 0.0, 60.0, 2395.2042094544033),
    ("discrete-gaussian", 0.2, 1.0, 0.0001, 0.0012500000232914208),
    ("discrete-gaussian", 0.2, 1.0, -0.03, -0.37499780365398677),
    ("discrete-gaussian", 0.2, 1.0, -0.5001, -5.5568594914549378),
    ("discrete-gaussian", 0.2, 1.0, -0.71, -3.6197736524940668),
    ("discrete-gaussian", 0.2, 1.0, -0.999, -0.012499997670737828),
    ("discrete-gaussian", 0.2, 1.0, 3.7, 216.2567078972579),
    ("discrete-gaussian", 0.5, 3.0, 0.0001, 0.001800154809133205),
    ("discrete-gaussian", 0.5, 3.0, -0.03, -0.52600984299801417),
    ("discrete-gaussian", 0.5, 3.0, -0.5001, -4.5287693115209371),
    ("discrete-gaussian", 0.5, 3.0, -0.71, -3.7106831010452471),
    ("discrete-gaussian", 0.5, 3.0, -0.999, -0.01798451901597975),
    ("discrete-gaussian", 0.5, 3.0, 3.7, 313.01728822052973),
    ("discrete-gaussian", 7.0, 2.0, 0.0001, 4.0820408163265308e-6),
    ("discrete-gaussian", 7.0, 2.0, -0.03, -0.0011877551020408163),
    (
        "discrete-gaussian",
        7.0,
        2.0,
        -0.5001,
        -0.010204081224489796,
    ),
    ("discrete-gaussian", 7.0, 2.0, -0.71, -0.0084040816326530618),
    (
        "discrete-gaussian",
        7.0,
        2.0,
        -0.999,
        -4.0775510204081669e-5,
    ),
    ("discrete-gaussian", 7.0, 2.0, 3.7, 0.709795918367347),
    ("approx", 0.01, 1e-06, 0.0001, -9.9500004167908475e-7),
    ("approx", 0.01, 1e-06, -0.03, -2.4549890807830164e-6),
    ("approx", 0.01, 1e-06, -0.5001, -1.349994791701422e-5),
    ("approx", 0.01, 1e-06, -0.71, -1.1294950037687315e-5),
    ("approx", 0.01, 1e-06, -0.999, -1.0499500845861467e-6),
    ("approx", 0.01, 1e-06, 3.7, 0.00086824086549618694),
    ("approx", 3.0, 0.1, 0.0001, -0.10508896305140601),
    ("approx", 3.0, 0.1, -0.03, -0.18605078038593542),
    ("approx", 3.0, 0.1, -0.5001, -0.96080064167162373),
    ("approx", 3.0, 0.1, -0.71, -0.7742371480384436),
    ("approx", 3.0, 0.1, -0.999, -0.10807514576500957),
    ("approx", 3.0, 0.1, 3.7, 10.946052132779803),
    ("subset", 1.0, 0.01, 0.0001, 1.4002373501142814e-8),
    ("subset", 1.0, 0.01, -0.03, -4.0741528078759698e-6),
    ("subset", 1.0, 0.01, -0.5001, -3.4992842603109953e-5),
    ("subset", 1.0, 0.01, -0.71, -2.8821497658817325e-5),
    ("subset", 1.0, 0.01, -0.999, -1.3986955572659652e-7),
    ("subset", 1.0, 0.01, 3.7, 0.0024856271400278194),
    ("subset", 5.0, 0.85, 0.0001, 0.0010491180609422832),
    ("subset", 5.0, 0.85, -0.03, -0.29621647279875107),
    ("subset", 5.0, 0.85, -0.5001, -1.6650403104718633),
    ("subset", 5.0, 0.85, -0.71, -1.5261182894873761),
    ("subset", 5.0, 0.85, -0.999, -0.010468834326935474),
    ("subset", 5.0, 0.85, 3.7, 216.61116103136048),
    ("remove", 1.0, 0.01, 0.0001, 8.3820789197030584e-9),
    ("remove", 1.0, 0.01, -0.03, -2.4371888212537637e-6),
    ("remove", 1.0, 0.01, -0.5001, -2.0707809950987985e-5),
    ("remove", 1.0, 0.01, -0.71, -1.6972618748405801e-5),
    ("remove", 1.0, 0.01, -0.999, -8.1809724041979062e-8),
    ("remove", 1.0, 0.01, 3.7, 0.0016138350762268865),
    ("remove", 50.0, 1e-06, 0.0001, 2.0006000925435745e-20),
    ("remove", 50.0, 1e-06, -0.03, -5.8211641528164025e-18),
    ("remove", 50.0, 1e-06, -0.5001, -5.0009999303048634e-17),
    ("remove", 50.0, 1e-06, -0.71, -4.1188237070061027e-17),
    ("remove", 50.0, 1e-06, -0.999, -1.9983996516868781e-19),
    ("remove", 50.0, 1e-06, 3.7, 3.4786956965141816e-15),
    ("add", 1.0, 0.01, 0.0001, 8.189777345526336e-9),
    ("add", 1.0, 0.01, -0.03, -2.384606110060852e-6),
    ("add", 1.0, 0.01, -0.5001, -2.0707906015336375e-5),
    ("add", 1.0, 0.01, -0.71, -1.713878535003223e-5),
    ("add", 1.0, 0.01, -0.999, -8.3726394486249937e-8),
    ("add", 1.0, 0.01, 3.7, 0.0013195344441149667),
    ("add", 1.0, 0.01, 60.0, 0.15266655531212239),
    ("add", 0.4, 0.7, 0.0001, 7.9243623664818851e-5),
    ("add", 0.4, 0.7, -0.03, -0.023521813565753092),
    ("add", 0.4, 0.7, -0.5001, -0.28872581290760388),
    ("add", 0.4, 0.7, -0.71, -0.28620563160446471),
    ("add", 0.4, 0.7, -0.999, -0.001799267529554459),
    ("add", 0.4, 0.7, 3.7, 3.9099210536365277),
    ("replace", 1.0, 0.01, 0.0001, 2.2843416550102728e-8),
    ("replace", 1.0, 0.01, -0.03, -6.646615448867024e-6),
    ("replace", 1.0, 0.01, -0.5001, -5.7091501050815306e-5),
    ("replace", 1.0, 0.01, -0.71, -4.7022205775979532e-5),
    ("replace", 1.0, 0.01, -0.999, -2.2818271392259168e-7),
    ("replace", 1.0, 0.01, 3.7, 0.0040318196660960784),
    ("replace", 0.4, 0.7, 0.0001, 0.00028808172786259748),
    ("replace", 0.4, 0.7, -0.03, -0.083015283483783486),
    ("replace", 0.4, 0.7, -0.5001, -0.65126521078665003),
    ("replace", 0.4, 0.7, -0.71, -0.54759724505613794),
    ("replace", 0.4, 0.7, -0.999, -0.0028766261281516474),
    ("replace", 0.4, 0.7, 3.7, 57.122077139674825),
];

fn sampled(sigma: f64, q: f64, side: Side) -> Loss {
    Loss::Mixture(MixtureLoss {
        sigma,
        shifts: vec![0.0, 1.0],
        weights: vec![1.0 - q, q],
        side,
    })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole numbers in a table of f64"
)]
fn loss(kind: &str, a: f64, b: f64) -> Loss {
    match kind {
        "laplace" => Loss::Laplace { epsilon: a },
        "bounded-range" => Loss::BoundedRange { epsilon: a },
        "discrete-gaussian" => Loss::DiscreteGaussian {
            sigma: a,
            sensitivity: b as u64,
        },
        "approx" => Loss::Finite(FiniteLoss::approx_dp(a, b)),
        "subset" => Loss::WithoutReplacement { mu: a, q: b },
        "remove" => sampled(a, b, Side::Remove),
        "add" => sampled(a, b, Side::Add),
        "replace" => sampled(a, b, Side::Replace),
        other => panic!("{other}"),
    }
}

#[test]
fn moments_match_50_digits() {
    for (kind, a, b, s, expected) in MOMENTS {
        let loss = loss(kind, a, b);
        let found = loss.log_moment(s);
        let error = (found.log - expected).abs();
        let allowed = loss.log_moment_error(s, expected);
        assert!(
            error <= 2e-14 * expected.abs() + 1e-300,
            "{kind} {a} {b} {s}: {found:?} {expected}"
        );
        assert!(
            error <= allowed && allowed <= 1e-9 * expected.abs(),
            "{kind} {a} {b} {s}"
        );
        assert!(found.exact);
    }
}

/// Losses of every kind, mild and extreme.
fn many() -> Vec<Loss> {
    let mut out = vec![
        Loss::Gaussian { mu_squared: 0.3 },
        Loss::Laplace { epsilon: 2.0 },
        Loss::BoundedRange { epsilon: 2.0 },
        Loss::DiscreteGaussian {
            sigma: 0.7,
            sensitivity: 2,
        },
        Loss::Finite(FiniteLoss::discrete_laplace(0.4, 3)),
        Loss::WithoutReplacement { mu: 1.5, q: 0.1 },
        Loss::WithoutReplacement { mu: 300.0, q: 1e-4 },
    ];
    for side in [Side::Remove, Side::Add, Side::Replace] {
        for (sigma, q) in [
            (0.01, 1e-9),
            (0.05, 0.9),
            (1.0, 0.01),
            (7.0, 1e-6),
            (1e6, 0.4),
        ] {
            out.push(sampled(sigma, q, side));
        }
        for (epsilon, q) in [(0.01, 1e-6), (3.0, 0.2), (900.0, 0.01)] {
            out.push(Loss::SampledLaplace { epsilon, q, side });
        }
    }
    out
}

#[test]
fn moments_are_convex_and_vanish_at_0_and_minus_1() {
    for loss in many() {
        // K(0) = K(-1) = 0 and convexity: K(s)/s rises, and K is negative in between.
        let mut last = f64::NEG_INFINITY;
        for s in [
            -0.999, -0.6, -0.4, -1e-3, 1e-4, 0.5, 1.0, 7.3, 100.0, 1e4, 1e6,
        ] {
            let k = loss.log_moment(s).log;
            assert!(k.is_finite() && (k > 0.0) == (s > 0.0), "{loss:?} {s}: {k}");
            assert!(
                k / s > 0.0 && k / s >= last * (1.0 - 1e-12),
                "{loss:?} {s}: {k}"
            );
            last = k / s;
        }
        assert!(loss.max_finite() >= last * (1.0 - 1e-12), "{loss:?}");
    }
}

#[test]
fn exchanging_the_data_sets_reflects_the_moments() {
    // K of (P, Q) at s is K of (Q, P) at -1 - s.
    for (sigma, q) in [(0.3, 0.2), (1.0, 1e-3), (50.0, 0.7)] {
        for s in [-0.8, -0.3, 0.4, 12.0] {
            let one = sampled(sigma, q, Side::Remove).log_moment(s).log;
            let other = sampled(sigma, q, Side::Add).log_moment(-1.0 - s).log;
            assert!(
                (one / other - 1.0).abs() < 1e-13,
                "{sigma} {q} {s}: {one} {other}"
            );
        }
    }
}

#[test]
fn extreme_moments_of_sampling_stay_between_their_bounds() {
    for sigma in [0.01, 0.2, 1.0, 30.0, 1e6] {
        for q in [1e-9, 1e-3, 0.3, 0.99] {
            for s in [1e-4, 0.7, 20.0, 1e3, 1e5, 1e6] {
                let k = |side| sampled(sigma, q, side).log_moment(s).log * (1.0 + 1e-12);
                let gaussian = 0.5 * s * (s + 1.0) / (sigma * sigma);
                let (remove, add, replace) = (k(Side::Remove), k(Side::Add), k(Side::Replace));
                let certain = -s * libm::log1p(-q);
                let label = format!("{sigma} {q} {s}: {remove} {add} {replace}");
                assert!(add > 0.0 && add <= remove * (1.0 + 1e-9), "{label}");
                assert!(add <= certain * (1.0 + 1e-9), "{label}");
                // One component alone, and none sampled away.
                let alone = (s + 1.0) * libm::log(q) + gaussian;
                assert!(
                    remove >= alone - 1e-9 * alone.abs() && remove <= gaussian * (1.0 + 1e-9),
                    "{label}"
                );
                assert!(replace >= remove * (1.0 - 1e-9), "{label}");
                assert!(replace <= (remove + certain) * (1.0 + 1e-9), "{label}");
                assert!(replace <= 4.0 * gaussian * (1.0 + 1e-9), "{label}");
            }
        }
    }
}

#[test]
fn far_apart_mixtures_of_three_are_bounded_from_above() {
    // A step of the rule would have to be below 1e-5.
    let mixture = |side| {
        Loss::Mixture(MixtureLoss {
            sigma: 1e-4,
            shifts: vec![0.0, 1.0, 2.0],
            weights: vec![0.5, 0.3, 0.2],
            side,
        })
    };
    for s in [1e-3, 1.0, 50.0] {
        let [remove, add, replace] =
            [Side::Remove, Side::Add, Side::Replace].map(|side| mixture(side).log_moment(s));
        assert!(!remove.exact && !add.exact && !replace.exact);
        let largest = (s + 1.0) * libm::log(0.2) + 0.5 * s * (s + 1.0) * 4e8;
        assert!(remove.log >= largest * (1.0 - 1e-14) && remove.log <= 2.001e8 * s * (s + 1.0));
        assert!((add.log / (-s * libm::log(0.5)) - 1.0).abs() < 1e-12);
        assert!(replace.log >= remove.log);
    }
}
