//! Reference values from numpy, and from finite differences.

use std::sync::Arc;

use dp_core::InteractionsBuilder;
use dp_mechanism::{Grid, gram_contribution, vector_contribution};
use dp_pubfeat::{
    CollectiveFactorization, CollectiveParams, ConvexLoss, CurvatureContribution, EncoderGradients,
    FeatureKernel, ItemFeatures, ItemFeaturesBuilder, ItemStatistics, KernelRidge, Logistic,
    PooledStatistics, ProblemSetup, PublicEncoder, ResidualContribution, RidgeNoise, SparseKernel,
    SspContribution, StatisticsLearner, TwoLayerEncoder, ValueDescent, ValueDescentParams,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::support::{DIM, features, setup, table};

/// Three items, `d = 2`: matrices, right-hand sides, kernel with own share 1/4.
fn small(third: [f64; 4]) -> (ItemStatistics, FeatureKernel) {
    let mut matrices = vec![2.0, 0.5, 0.5, 1.0, 1.0, -0.3, -0.3, 0.5];
    matrices.extend(third);
    let rhs = vec![1.0, 0.5, -0.4, 0.2, 0.3, -0.1];
    let statistics = ItemStatistics::new(2, matrices, rhs, [0.1, 0.2]).unwrap();
    let kernel = FeatureKernel::new(&small_features(), 0.25);
    (statistics, kernel.unwrap())
}

fn small_features() -> ItemFeatures {
    let mut builder = ItemFeaturesBuilder::new(3, &[4]).unwrap();
    for (item, feature, x) in [
        (0, 0, 1.0),
        (0, 1, 1.0),
        (1, 1, 1.0),
        (1, 2, 2.0),
        (2, 3, 1.0),
    ] {
        builder.push(item, feature, x).unwrap();
    }
    builder.build()
}

const THIRD: [f64; 4] = [0.2, 0.0, 0.0, 0.1];

fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() < tolerance, "{found:?}\n{expected:?}");
    }
}

#[test]
fn closed_forms_are_those_of_numpy() {
    // numpy 2.4.6: kron(K, I) A solve(A K A + l A + s2 I, b) by LU
    let given = |ratio| RidgeNoise::Given { ratio };
    let cases = [
        (
            (given(0.3), 0.0, THIRD),
            [
                0.399_004_437_739_936_66,
                0.253_656_849_343_430_63,
                -0.258_506_131_346_184_55,
                0.226_445_666_284_966,
                0.099_221_789_883_268_49,
                -0.017_400_204_708_290_69,
            ],
        ),
        (
            (given(0.05), 0.2, THIRD),
            [
                0.376_767_858_605_147_05,
                0.247_896_629_734_934_15,
                -0.273_550_915_010_324_75,
                0.205_424_250_741_915_23,
                0.286_516_853_932_584_25,
                -0.070_539_419_087_136_93,
            ],
        ),
        // s_A = .1, s_b = .2: t^2 = .193394, s^2 = .221832
        (
            (RidgeNoise::Estimated { floor: 0.01 }, 0.0, THIRD),
            [
                0.406_490_481_668_580_15,
                0.260_665_740_601_327_86,
                -0.274_151_307_281_345_35,
                0.226_978_189_310_398_32,
                0.131_128_557_409_224_72,
                -0.023_388_189_331_961_06,
            ],
        ),
        // the third matrix is indefinite: its positive semidefinite part is used
        (
            (given(0.3), 0.0, [-0.2, 0.3, 0.3, 0.1]),
            [
                0.399_004_437_739_936_66,
                0.253_656_849_343_430_63,
                -0.258_506_131_346_184_55,
                0.226_445_666_284_965_8,
                0.016_871_390_053_775_45,
                0.027_298_482_544_465_58,
            ],
        ),
    ];
    for ((noise, l2_penalty, third), expected) in cases {
        let (statistics, kernel) = small(third);
        let mut ridge = KernelRidge::new(kernel, 2, noise, l2_penalty).unwrap();
        ridge.learn(&statistics).unwrap();
        close(&ridge.item_vectors().unwrap(), &expected, 1e-8);
        // again, starting at the solution: the same result
        ridge.learn(&statistics).unwrap();
        close(&ridge.item_vectors().unwrap(), &expected, 1e-8);
    }
}

#[test]
fn a_sparse_kernel_gives_the_vectors_of_the_dense_one() {
    let features = crate::support::features();
    let dense = FeatureKernel::new(&features, 0.2).unwrap();
    let sparse = SparseKernel::of_features(&features, 0.2).unwrap();
    let (mut matrices, mut rhs) = (Vec::new(), Vec::new());
    for item in 0..features.n_items() {
        let x = item as f64;
        matrices.extend([2.0 + x, 0.3, 0.3, 1.0 + (item % 3) as f64]);
        rhs.extend([x.sin(), (2.0 * x).cos()]);
    }
    let statistics = ItemStatistics::new(2, matrices, rhs, [0.1, 0.5]).unwrap();
    let noise = RidgeNoise::Estimated { floor: 0.01 };
    let mut one = KernelRidge::new(dense, 2, noise, 0.1).unwrap();
    let mut two = KernelRidge::new(sparse, 2, noise, 0.1).unwrap();
    one.learn(&statistics).unwrap();
    two.learn(&statistics).unwrap();
    close(
        &two.item_vectors().unwrap(),
        &one.item_vectors().unwrap(),
        1e-8,
    );
    assert!(two.with_tolerance(1.0).is_err());
}

/// Rotated coordinates compared with a separate matrix for every item, which is checked against
/// numpy above.
#[test]
fn one_matrix_for_all_items_gives_the_vectors_of_as_many_matrices() {
    let features = crate::support::features();
    let m = features.n_items();
    // one direction is negative and counts as 0
    let matrix = vec![1.5, 0.4, -0.2, 0.4, 0.8, 0.1, -0.2, 0.1, -0.3];
    let factors: Vec<f64> = (0..m).map(|j| 3.0 * (j % 5) as f64).collect();
    let rhs: Vec<f64> = (0..3 * m).map(|at| (1.7 * at as f64).sin()).collect();
    let matrices = factors
        .iter()
        .flat_map(|f| matrix.iter().map(move |c| f * c));
    let written = ItemStatistics::new(3, matrices.collect(), rhs.clone(), [0.0, 0.4]).unwrap();
    let pooled = PooledStatistics::new(3, factors, matrix, rhs, 0.4).unwrap();
    for noise in [
        RidgeNoise::FromRelease { item_norm: 0.8 },
        RidgeNoise::Given { ratio: 0.5 },
    ] {
        let kernel = SparseKernel::of_features(&features, 0.2).unwrap();
        let mut one = KernelRidge::new(kernel, 3, noise, 0.3).unwrap();
        let mut two = one.clone();
        one.learn(&written).unwrap();
        for _ in 0..2 {
            // the second time starting at the solution
            two.learn_pooled(&pooled).unwrap();
            close(
                &two.item_vectors().unwrap(),
                &one.item_vectors().unwrap(),
                1e-7,
            );
            close(two.coefficients(), one.coefficients(), 1e-7);
        }
    }
}

#[test]
fn items_that_explain_their_features_too_are_those_of_numpy() {
    // numpy: three times phi = solve(g V^T V + l I, g X^T V), v_j = solve(psd(A_j) + g Phi^T Phi + l I, b_j + g Phi^T x_j)
    let (statistics, _) = small([-0.2, 0.3, 0.3, 0.1]);
    let settings = CollectiveParams {
        feature_weight: 0.7,
        l2_penalty: 0.3,
        n_sweeps: 3,
    };
    let first = vec![0.1, -0.2, 0.3, 0.1, -0.2, 0.4];
    let features = Arc::new(small_features());
    let made = |first: &[f64], settings| {
        CollectiveFactorization::new(features.clone(), 2, first.to_vec(), settings)
    };
    let mut learner = made(&first, settings).unwrap();
    learner.learn(&statistics).unwrap();
    let expected = [
        0.6422180053926155,
        -0.012495565030601787,
        0.25392390866174724,
        1.0531087829415913,
        0.2992911413048953,
        -0.13391580037590983,
    ];
    close(&learner.item_vectors().unwrap(), &expected, 1e-12);
    let wrong: [fn(&mut CollectiveParams); 3] = [
        |p| p.feature_weight = 0.0,
        |p| p.l2_penalty = f64::NAN,
        |p| p.n_sweeps = 0,
    ];
    for change in wrong {
        let mut settings = settings;
        change(&mut settings);
        assert!(made(&first, settings).is_err());
    }
    assert!(made(&first[1..], settings).is_err());
    assert!(made(&[f64::NAN; 6], settings).is_err());
}

#[test]
fn descent_in_values_makes_the_steps_of_numpy() {
    // numpy: five steps of v - h (K (A v - b) + .1 v), h = 1 / (1.05 * 2.1683663... + .1)
    let (statistics, kernel) = small(THIRD);
    let params = ValueDescentParams {
        l2_penalty: 0.1,
        ..ValueDescentParams::new(5)
    };
    let mut descent = ValueDescent::new(kernel, 2, params).unwrap();
    descent.learn(&statistics).unwrap();
    let expected = [
        0.401_151_517_236_748,
        0.264_878_805_052_398_64,
        -0.295_854_725_012_401_5,
        0.228_323_249_831_222,
        0.281_920_341_696_935_97,
        -0.098_256_261_393_197_37,
    ];
    close(&descent.item_vectors().unwrap(), &expected, 1e-4);
}

#[test]
#[ignore = "heavy: part of CI"]
fn heavy_raw_matrices_run_away_and_say_so() {
    let (mut statistics, kernel) = small([-2.0, 0.0, 0.0, -1.0]);
    let mut params = ValueDescentParams::new(100_000);
    params.project_psd = false;
    let mut raw = ValueDescent::new(kernel.clone(), 2, params).unwrap();
    assert!(matches!(
        raw.learn(&statistics),
        Err(dp_pubfeat::Error::Diverged)
    ));
    params.project_psd = true;
    let mut projected = ValueDescent::new(kernel, 2, params).unwrap();
    projected.learn(&statistics).unwrap();
    statistics.project_psd().unwrap();
    assert!(statistics.matrix(2).iter().all(|a| *a == 0.0));
}

/// One user with two items.
fn one_user() -> dp_core::Interactions {
    let mut builder = InteractionsBuilder::new(3).with_feature_dim(2);
    builder.set_features(0, &[1.5, -2.0]).unwrap(); // norm 2.5, shortened to 2
    builder.push(0, 1, 3.0).unwrap();
    builder.push(0, 2, -9.0).unwrap(); // clipped to 4
    builder.build().0
}

fn two_by_two() -> ProblemSetup {
    ProblemSetup {
        user_norm: 2.0,
        label_norm: 3.0,
        ..ProblemSetup::new(2, 4.0)
    }
}

#[test]
fn a_user_adds_what_equation_5_says() {
    let (data, setup) = (one_user(), two_by_two());
    let contribution = SspContribution::new(&setup);
    let grids = contribution.grids(1.0, 1.0).unwrap();
    let one = gram_contribution(&grids, &contribution, data.user(0)).unwrap();
    // u = (1.2, -1.6), w = 1/sqrt 2; labels 3, -4 have weighted norm 3.5355 > 3: times .848528
    let w = 0.5_f64.sqrt();
    let unit = grids.matrix().step();
    for record in 0..2 {
        let x = &one.factors[2 * record..][..2];
        close(
            &[(x[0] * x[0]) as f64 * unit, (x[0] * x[1]) as f64 * unit],
            &[w * 1.44, -w * 1.92],
            1e-5,
        );
        let b = (one.labels[record] * x[1]) as f64 * grids.rhs().step();
        close(
            &[b],
            &[w * [3.0, -4.0][record] * 0.848_528_137_4 * -1.6],
            1e-5,
        );
    }
    assert_eq!(one.items, [1, 2]);
}

#[test]
fn a_user_s_residuals_are_clipped_together() {
    let (data, setup) = (one_user(), two_by_two());
    let grid = Grid::new(1.0, 1.0).unwrap();
    let item_vectors = [9.0, 9.0, 1.0, 0.5, -1.0, 1.0];
    let contribution = ResidualContribution {
        setup: &setup,
        item_vectors: &item_vectors,
        bound: 1.0,
    };
    let found = vector_contribution(&grid, 6, &contribution, data.user(0));
    let values: Vec<f64> = found.iter().map(|&(_, z)| z as f64 * grid.step()).collect();
    // e = (3 - .4, -4 + 2.8) = (2.6, -1.2), ||u|| sqrt(sum w^2 e^2) = 4.0497: divided by it
    let scale = 0.5_f64.sqrt() / 4.049_691_346_263_317;
    let expected = [2.6 * 1.2, 2.6 * -1.6, -1.2 * 1.2, -1.2 * -1.6].map(|x| x * scale);
    close(&values, &expected, 1e-6);
    assert_eq!(
        found.iter().map(|&(at, _)| at).collect::<Vec<_>>(),
        [2, 3, 4, 5]
    );
}

#[test]
fn a_user_s_curvature_and_slope_are_those_of_the_loss() {
    let (data, setup) = (one_user(), two_by_two());
    let item_vectors = [9.0, 9.0, 1.0, 0.5, -1.0, 40.0];
    let contribution = CurvatureContribution::new(&setup, &Logistic, &item_vectors, 10.0).unwrap();
    let grids = contribution.grids(1.0, 1.0).unwrap();
    let one = gram_contribution(&grids, &contribution, data.user(0)).unwrap();
    // scores 1.2 - .8 = .4 and -65.2: curvatures .2402607 and, flat, 1/64 of 1/4
    let (w, second) = (0.5_f64.sqrt(), [Logistic.second(0.4, 1.0), 1.0 / 256.0]);
    let first = [Logistic.first(0.4, 1.0), Logistic.first(-65.2, -1.0)];
    for record in 0..2 {
        let x = &one.factors[2 * record..][..2];
        let h = (x[0] * x[0]) as f64 * grids.matrix().step();
        close(&[h], &[w * second[record] * 1.44], 2e-5);
        let g = (one.labels[record] * x[0]) as f64 * grids.rhs().step();
        close(&[g], &[w * first[record] * 1.2], 2e-5);
    }
}

#[test]
fn gradients_of_private_sgd_are_slopes_of_the_user_s_loss() {
    let setup = setup();
    let rng = &mut ChaCha20Rng::seed_from_u64(2);
    let mut encoder = TwoLayerEncoder::random(features(), DIM, rng).unwrap();
    let data = table(8, None);
    let row = data.expose().user(5);
    let n = encoder.parameters().len();
    let gradient = |encoder: &TwoLayerEncoder, norm: f64| {
        let grid = Grid::new(1.0, norm).unwrap();
        let contribution = EncoderGradients::new(&setup, encoder, norm).unwrap();
        let mut dense = vec![0.0; n];
        for (at, z) in vector_contribution(&grid, n, &contribution, row) {
            dense[at] = z as f64 * grid.step();
        }
        dense
    };
    let found = gradient(&encoder, 50.0);
    // sum_j w (<u, v_j> - y)^2 / 2 with u shortened to norm 1, y clipped to 1, w = 1/sqrt(items)
    let norm = row
        .features()
        .iter()
        .map(|x| x * x)
        .sum::<f32>()
        .sqrt()
        .max(1.0);
    let u: Vec<f64> = row
        .features()
        .iter()
        .map(|&x| f64::from(x / norm))
        .collect();
    let loss = |encoder: &TwoLayerEncoder| -> f64 {
        let mut v = vec![0.0; row.len() * DIM];
        encoder.forward(row.items(), &mut v).unwrap();
        let each = v.chunks_exact(DIM).zip(row.values()).map(|(v, &y)| {
            let score: f64 = u.iter().zip(v).map(|(u, v)| u * v).sum();
            0.5 * (score - f64::from(y)).powi(2)
        });
        each.sum::<f64>() / (row.len() as f64).sqrt()
    };
    for (at, found) in found.iter().enumerate() {
        let keep = encoder.parameters()[at];
        let mut side = |h: f64| {
            encoder.parameters_mut()[at] = keep + h;
            loss(&encoder)
        };
        let slope = (side(1e-4) - side(-1e-4)) / 2e-4;
        encoder.parameters_mut()[at] = keep;
        assert!((found - slope).abs() < 1e-6, "{at}: {} {slope}", found);
    }
    let norm = |g: &[f64]| g.iter().map(|g| g * g).sum::<f64>().sqrt();
    let clipped = gradient(&encoder, 0.05);
    assert!(norm(&found) > 0.1 && (norm(&clipped) - 0.05).abs() < 1e-5);
}
