use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use super::*;
use crate::{ItemFeatures, ItemFeaturesBuilder};

fn features(n_features: usize) -> ItemFeatures {
    let mut builder = ItemFeaturesBuilder::new(4, &[n_features / 2, n_features / 2]).unwrap();
    let last = u32::try_from(n_features - 1).unwrap();
    for (item, feature, weight) in [
        (0, 0, 1.0),
        (0, 2, 2.0),
        (0, last, 1.0),
        (1, 2, 1.0),
        (2, last, 0.5),
        (2, last - 1, 1.5),
    ] {
        builder.push(item, feature, weight).unwrap();
    }
    builder.build()
}

fn encoders() -> Vec<Box<dyn PublicEncoder>> {
    let rng = &mut ChaCha20Rng::seed_from_u64(3);
    vec![
        Box::new(LinearEncoder::random(features(8).into(), 3, rng).unwrap()),
        Box::new(IdEncoder::random(4, 3, rng).unwrap()),
        Box::new(TwoLayerEncoder::random(features(8).into(), 3, rng).unwrap()),
    ]
}

/// `sum_j <g_j, v_j>`, whose gradient the vjp is.
fn objective(encoder: &dyn PublicEncoder, items: &[u32], g: &[f64]) -> f64 {
    let mut v = vec![0.0; g.len()];
    encoder.forward(items, &mut v).unwrap();
    v.iter().zip(g).map(|(v, g)| v * g).sum()
}

#[test]
fn gradients_are_those_of_differences() {
    for mut encoder in encoders() {
        let (items, dim) = ([0, 1, 2, 0, 3], encoder.dim());
        let g: Vec<f64> = (0..15).map(|k| f64::from(k * 7 % 5) - 1.7).collect();
        let mut gradient = SparseRows::new(dim);
        encoder.vjp(&items, &g, &mut gradient).unwrap();
        let mut dense = vec![0.0; encoder.parameters().len()];
        for (row, values) in gradient.iter() {
            dense[row as usize * dim..][..dim].copy_from_slice(values);
        }
        for (at, dense) in dense.iter().enumerate() {
            let keep = encoder.parameters()[at];
            let mut side = |step: f64| {
                encoder.parameters_mut()[at] = keep + step;
                objective(&*encoder, &items, &g)
            };
            // bilinear at most in one parameter: central differences are exact but for rounding
            let slope = (side(1e-3) - side(-1e-3)) / 2e-3;
            encoder.parameters_mut()[at] = keep;
            assert!((slope - dense).abs() < 1e-9, "{at}: {slope} {}", dense);
        }
    }
}

#[test]
fn two_layer_values_are_those_of_numpy() {
    // numpy: E = arange(8*2).reshape(8,2)/10; W_c column a as rows below; item 0 has weights 1, 2 in category 0 and 1 in category 1
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    let mut encoder = TwoLayerEncoder::random(features(8).into(), 2, rng).unwrap();
    let dense = [1.0, -1.0, 0.5, 2.0, 0.25, 0.0, -2.0, 1.0];
    let parameters = (0..16).map(|k| f64::from(k) / 10.0);
    let all: Vec<f64> = parameters.chain(dense).chain([0.1, 0.2]).collect();
    encoder.parameters_mut().copy_from_slice(&all);
    let mut v = [0.0; 6];
    encoder.forward(&[0, 1, 3], &mut v).unwrap();
    let expected = [-2.1, 2.166_666_666_666_666_5, 0.75, 0.8, 0.1, 0.2];
    for (v, e) in v.iter().zip(expected) {
        assert!((v - e).abs() < 1e-12, "{v} {e}");
    }
}

#[test]
fn rows_of_inactive_features_stay_bitwise_what_they_were() {
    let optimisers = [
        Optimiser::Sgd { rate: 0.1 },
        Optimiser::Momentum {
            rate: 0.1,
            decay: 0.9,
        },
        Optimiser::Adam { rate: 0.1 },
        Optimiser::Adagrad { rate: 0.1 },
    ];
    for optimiser in optimisers {
        let rng = &mut ChaCha20Rng::seed_from_u64(4);
        let mut encoder = TwoLayerEncoder::random(features(8).into(), 2, rng).unwrap();
        let mut state = OptimiserState::new(optimiser, 2).unwrap();
        let mut gradient = SparseRows::new(2);
        // first item 0 moves rows 0, 2, 7; then item 1 alone, which has feature 2 of category 0
        for (items, moved) in [([0_u32], &[0, 2, 7][..]), ([1], &[2])] {
            let before = encoder.parameters().to_vec();
            for _ in 0..3 {
                gradient.clear();
                encoder.vjp(&items, &[0.3, -0.2], &mut gradient).unwrap();
                state.step(&gradient, encoder.parameters_mut());
            }
            for row in 0..8 {
                let same = before[2 * row..2 * row + 2]
                    .iter()
                    .zip(&encoder.parameters()[2 * row..])
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert_eq!(same, !moved.contains(&row), "row {row}, {optimiser:?}");
            }
        }
    }
}

#[test]
fn work_and_memory_follow_the_active_features_alone() {
    // the same items among 8 and among 2,000,000 features touch as many rows
    let mut touched = Vec::new();
    for p in [8, 2_000_000] {
        let mut encoder = LinearEncoder::zeros(features(p).into(), 2).unwrap();
        let mut state = OptimiserState::new(Optimiser::Adam { rate: 0.1 }, 2).unwrap();
        let mut gradient = SparseRows::new(2);
        let g = [1.0; 8];
        encoder.vjp(&[0, 1, 2, 3], &g, &mut gradient).unwrap();
        state.step(&gradient, encoder.parameters_mut());
        touched.push((gradient.n_rows(), state.n_remembered()));
    }
    assert_eq!(touched, [(4, 4), (4, 4)]);
}

#[test]
fn optimisers_make_the_steps_of_numpy() {
    // g = 1, then -2, from 0 with rate .1; numpy, double precision
    let expected = [
        (Optimiser::Sgd { rate: 0.1 }, 0.1),
        (
            Optimiser::Momentum {
                rate: 0.1,
                decay: 0.5,
            },
            0.05,
        ),
        (Optimiser::Adagrad { rate: 0.1 }, -0.010_557_280_900_008_41),
        (Optimiser::Adam { rate: 0.1 }, -0.063_389_646_527_925_23),
    ];
    for (optimiser, value) in expected {
        let mut state = OptimiserState::new(optimiser, 1).unwrap();
        let mut parameter = [0.0];
        for g in [1.0, -2.0] {
            let mut gradient = SparseRows::new(1);
            gradient.add(0, 1.0, &[g]);
            state.step(&gradient, &mut parameter);
        }
        assert!(
            (parameter[0] - value).abs() < 1e-9,
            "{optimiser:?} {}",
            parameter[0]
        );
    }
}

#[test]
fn bad_settings_and_items_are_refused() {
    for rate in [0.0, -1.0, f64::NAN] {
        assert!(Optimiser::Adam { rate }.check().is_err());
    }
    assert!(
        Optimiser::Momentum {
            rate: 1.0,
            decay: 1.0
        }
        .check()
        .is_err()
    );
    for encoder in encoders() {
        assert!(encoder.forward(&[4], &mut [0.0; 3]).is_err());
        assert!(encoder.forward(&[0], &mut [0.0; 2]).is_err());
        assert!(encoder.jacobian(4, &mut Vec::new()).is_err());
        let mut gradient = SparseRows::new(3);
        assert!(encoder.vjp(&[0], &[0.0; 4], &mut gradient).is_err());
    }
    assert!(LinearEncoder::zeros(features(8).into(), 0).is_err());
}
