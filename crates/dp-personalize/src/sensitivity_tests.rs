//! Releases of neighbouring data sets with the same noise: it cancels in integers, and the
//! difference is what one user can move.

use dp_accounting::{Budget, Ledger, Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor, UserSamples, UserSamplesBuilder};
use dp_mechanism::{
    GramGrids, GramSums, Grid, KroneckerContribution, KroneckerGrid, KroneckerSum, NoiseSource,
    OffDiagonalNoise, VectorContribution, VectorSum,
};

use crate::embedding::{SspUser, StepUsers};
use crate::init::{ProjectorSum, SamplePairs};
use crate::model_prior::N_MODEL_VOTES;
use crate::residual::Public;
use crate::user_prior::n_votes;
use crate::{
    ConvexLoss, DirectionMoments, DpGdEmbedding, LevelSums, ModelVotes, OwnLevel, PriorVotes,
    Provenance, ResidualEnergy, ResidualStep, RowUse, SingleModelParams, SingleModelStatistics,
    SspEmbedding, SspMatrix, SspRhs, Subspace, SubspaceGradients, SymmetricNoise, UserLevels,
    WeighedFit,
};

const DIM: usize = 3;
const ROWS: usize = 4;

/// Adversarial users: huge, tiny, aligned, not finite, empty.
fn users() -> Vec<Vec<([f32; DIM], f32)>> {
    let big = f32::MAX;
    let nan = f32::NAN;
    vec![
        vec![([1e30, -1e30, 1e30], 1e30); ROWS],
        vec![
            ([big, big, big], -big),
            ([big, 0.0, 0.0], big),
            ([1.0, 2.0, 3.0], 1.0),
        ],
        vec![([nan, 0.0, 0.0], 1.0), ([1.0, 1.0, 1.0], f32::INFINITY)],
        vec![],
        vec![([1.0, 0.0, 0.0], 1.0); ROWS],
        vec![
            ([1.0, 0.0, 0.0], 3.0),
            ([0.0, 2.0, 0.0], 1.0),
            ([0.0, 0.0, 3.0], 2.0),
            ([1.0, 1.0, 1.0], 9.0),
        ],
        vec![([0.0, 1.0, 0.0], -1.0); 3],
        vec![
            ([1e-30, 0.0, 1e-38], 1e-20),
            ([0.0, 1e-30, 0.0], 1e-20),
            ([1e-30, 1e-30, 0.0], 1.0),
        ],
        vec![
            ([0.3, -0.2, 0.9], 1.1),
            ([-0.7, 0.4, 0.1], -0.6),
            ([0.2, 0.8, -0.5], 0.3),
        ],
    ]
}

/// All users except `gone`.
fn samples(gone: Option<usize>) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(DIM, ROWS).unwrap().with_levels();
    for (user, rows) in (0..).zip(users()) {
        if gone == Some(user as usize) {
            continue;
        }
        builder.push(user, &[f32::NAN; DIM], 0.0).unwrap(); // known even without rows
        for (x, y) in rows {
            builder.push(user, &x, y).unwrap();
        }
        // the fourth user, who has no rows, has no level either
        let levels = [
            (1e38, 0.0),
            (-0.6, 0.8),
            (0.0, 1e38),
            (f32::NAN, 0.0),
            (1.0, 1.0),
        ];
        let (mean, deviation) = levels[user as usize % levels.len()];
        builder.set_level(user, mean, deviation);
    }
    builder.build().0
}

fn spends(requests: &[ReleaseRequest]) -> Vec<Spend> {
    let (target, adjacency) = (
        ApproxDp::target(2.0, 1e-5).unwrap(),
        Adjacency::AddRemoveUser,
    );
    let plan = Plan::calibrate(target, adjacency, requests).unwrap();
    let mut ledger = Ledger::in_memory("test", Budget::new(target, adjacency).unwrap()).unwrap();
    ledger.reserve(&plan).unwrap()
}

/// Exact squared norm of what each user alone moves, and of what replacing one user by another
/// moves.
fn check(shares: &[Vec<i128>], weights: &dyn Fn(usize) -> i128, bound: u64, replaced_squared: f64) {
    let bound_squared = i128::from(bound).pow(2);
    let square = |v: &[i128]| -> i128 {
        v.iter()
            .enumerate()
            .map(|(at, x)| weights(at) * x * x)
            .sum()
    };
    let mut reached = 0;
    for (i, a) in shares.iter().enumerate() {
        assert!(
            square(a) <= bound_squared,
            "user {i}: {} > {bound_squared}",
            square(a)
        );
        reached = reached.max(square(a));
        for b in shares {
            let between: Vec<i128> = a.iter().zip(b).map(|(a, b)| a - b).collect();
            assert!(square(&between) as f64 <= replaced_squared * bound_squared as f64);
        }
    }
    // some user comes close to the bound: it is not unnecessarily loose, and the test can fail
    assert!(
        reached as f64 > 0.2 * bound_squared as f64,
        "{reached} of {bound_squared}"
    );
}

fn vector_shares<C: VectorContribution>(
    n: usize,
    clip: f64,
    contribution: &C,
) -> (u64, Vec<Vec<i128>>) {
    let release = |data: &UserSamples| {
        let request = ReleaseRequest::new("x", 1.0, ReplaceFactor::Two, n as u64);
        let spend = spends(&[request]).remove(0);
        let grid = Grid::new(spend.noise_multiplier().unwrap(), clip).unwrap();
        let sum = VectorSum::accumulate(data.table(), n, grid, contribution).unwrap();
        let released = sum
            .release(spend, &mut NoiseSource::insecure_seeded(4))
            .unwrap();
        (grid.l2_bound(), released.integers().to_vec())
    };
    shares_of(release)
}

/// What each user moves, computed from releases of all users and of all but one.
fn shares_of(release: impl Fn(&UserSamples) -> (u64, Vec<i64>)) -> (u64, Vec<Vec<i128>>) {
    let (bound, whole) = release(&samples(None));
    let share = |user| {
        let part = release(&samples(Some(user))).1;
        whole
            .iter()
            .zip(part)
            .map(|(a, b)| i128::from(*a) - i128::from(b))
            .collect()
    };
    (bound, (0..users().len()).map(share).collect())
}

fn kronecker_shares<C: KroneckerContribution>(
    contribution: &C,
    clip_norm: f64,
    off_diagonal: OffDiagonalNoise,
) -> (u64, Vec<Vec<i128>>) {
    let (dim, rank) = contribution.shape();
    let side = dim * rank;
    let release = |data: &UserSamples| {
        let draws = KroneckerSum::draws(side);
        let request = ReleaseRequest::new("x", 1.0, ReplaceFactor::Two, draws);
        let spend = spends(&[request]).remove(0);
        let grid = KroneckerGrid::new(spend.noise_multiplier().unwrap(), clip_norm).unwrap();
        let sum = KroneckerSum::accumulate(data.table(), grid, contribution).unwrap();
        let noise = &mut NoiseSource::insecure_seeded(4);
        let released = sum.release(off_diagonal, spend, noise).unwrap();
        (grid.grid().l2_bound(), released.integers().to_vec())
    };
    shares_of(release)
}

/// The same for a symmetric matrix: off-diagonal positions represent two entries.
fn check_kronecker<C: KroneckerContribution>(
    contribution: &C,
    clip_norm: f64,
    off_diagonal: OffDiagonalNoise,
) {
    let (dim, rank) = contribution.shape();
    let side = dim * rank;
    let (bound, shares) = kronecker_shares(contribution, clip_norm, off_diagonal);
    let on = |a| dp_linalg::packed_index(side, a, a);
    let diagonal: Vec<usize> = (0..side).map(on).collect();
    let weight = |at: usize| if diagonal.contains(&at) { 1 } else { 2 };
    check(&shares, &weight, bound, 4.0);
}

fn check_vector<C: VectorContribution>(n: usize, clip: f64, contribution: &C) {
    let (bound, shares) = vector_shares(n, clip, contribution);
    check(&shares, &|_| 1, bound, 4.0);
}

fn plane() -> Subspace {
    Subspace::spanned_by(
        DIM,
        2,
        &[1.0, 0.2, 0.5, 1.0, 0.0, 0.3],
        Provenance::NonPrivate,
    )
    .unwrap()
}

fn step_users(batch: Option<(usize, usize)>, rows: [usize; 2]) -> StepUsers {
    StepUsers {
        batch,
        model_rows: RowUse::Quarter(rows[0]),
        embedding_rows: RowUse::Quarter(rows[1]),
    }
}

#[test]
fn algorithm_2_moves_by_one_bounded_share() {
    let plane = plane();
    for symmetric_noise in [SymmetricNoise::Isometric, SymmetricNoise::Copied] {
        for users in [StepUsers::ALL, step_users(None, [0, 1])] {
            for clip in [1e-4, 1.0] {
                let settings = SspEmbedding {
                    design_clip: clip,
                    label_clip: 2.0 * clip,
                    symmetric_noise,
                    ..SspEmbedding::section_6()
                };
                let user = SspUser {
                    settings: &settings,
                    subspace: &plane,
                    max_rows: ROWS,
                    users,
                    cache: None,
                };
                let (matrix, rhs) = (SspMatrix(user), SspRhs(user));
                let off_diagonal = symmetric_noise.off_diagonal();
                check_kronecker(&matrix, matrix.clip_norm(), off_diagonal);
                check_vector(6, rhs.clip_norm(), &rhs);
            }
        }
    }
}

#[test]
fn gradients_move_by_one_bounded_share_whatever_the_loss() {
    let plane = plane();
    for loss in [
        ConvexLoss::Squared,
        ConvexLoss::Logistic,
        ConvexLoss::Huber { threshold: 0.5 },
    ] {
        for gradient_clip in [1e-3, 0.3] {
            let settings = DpGdEmbedding {
                loss,
                gradient_clip,
                learning_rate: 1.0,
                l2_penalty: 0.1,
            };
            let gradients = SubspaceGradients::new(&settings, &plane, ROWS).unwrap();
            check_vector(7, 0.25_f64.hypot(1.0), &gradients);
        }
    }
}

#[test]
fn a_user_moves_nothing_in_the_batches_of_others() {
    let plane = plane();
    let settings = SspEmbedding::section_6();
    let moved = |share: &Vec<i128>| share.iter().any(|x| *x != 0);
    // by user: the batches whose matrix, and whose right-hand side, the user moves
    let mut moved_in = vec![[Vec::<usize>::new(), Vec::new()]; users().len()];
    for batch in 0..3 {
        let user = SspUser {
            settings: &settings,
            subspace: &plane,
            max_rows: ROWS,
            users: StepUsers {
                batch: Some((batch, 3)),
                ..StepUsers::ALL
            },
            cache: None,
        };
        let (matrix, rhs) = (SspMatrix(user), SspRhs(user));
        let kind = OffDiagonalNoise::Isometric;
        let (_, of_matrix) = kronecker_shares(&matrix, matrix.clip_norm(), kind);
        let (_, of_rhs) = vector_shares(6, rhs.clip_norm(), &rhs);
        for (found, shares) in moved_in.iter_mut().zip(of_matrix.iter().zip(&of_rhs)) {
            found[0].extend(moved(shares.0).then_some(batch));
            found[1].extend(moved(shares.1).then_some(batch));
        }
    }
    let (mut n_batches, mut n_moving) = (std::collections::BTreeSet::<usize>::new(), [0; 2]);
    for [matrix, rhs] in &moved_in {
        assert!(matrix.len() <= 1 && rhs.len() <= 1, "{moved_in:?}");
        // a label of 0 moves the matrix only, and a user without rows moves neither: never two
        // batches
        assert!(
            rhs.iter().all(|batch| matrix.contains(batch)),
            "{moved_in:?}"
        );
        n_batches.extend(matrix);
        n_moving[0] += matrix.len();
        n_moving[1] += rhs.len();
    }
    assert!(
        n_batches.len() > 1 && n_moving.iter().all(|&n| n >= 4),
        "{moved_in:?}"
    );
}

#[test]
fn algorithm_3_and_the_single_model_move_by_one_bounded_share() {
    for symmetric_noise in [SymmetricNoise::Isometric, SymmetricNoise::Copied] {
        let (n_features, max_rows, label_bound, rows) = (DIM, ROWS, 0.5, RowUse::All);
        let pairs = SamplePairs {
            n_features,
            max_rows,
            label_bound,
            symmetric_noise,
            rows,
        };
        check_vector(6, pairs.clip_norm(), &pairs);
    }
    let params = SingleModelParams::new(0.7, 2.0);
    let single = SingleModelStatistics {
        params,
        n_features: DIM,
        max_rows: ROWS,
    };
    check_vector(9, 2.0_f64.sqrt(), &single);
}

#[test]
fn levels_and_votes_move_by_one_bounded_share() {
    let sums = LevelSums { n_features: DIM };
    check_vector(3, LevelSums::clip_norm(), &sums);
    let spanned = |rank: usize, columns: &[f64]| {
        Subspace::spanned_by(DIM, rank, columns, Provenance::NonPrivate).unwrap()
    };
    let axis = spanned(1, &[1.0, 0.5, 0.0]);
    let plane = spanned(2, &[1.0, 0.0, 0.5, 1.0, 0.0, 0.3]);
    let levels = UserLevels {
        mean: 0.2,
        deviation: Some(0.4),
    };
    for (level, levels) in [
        (OwnLevel::Free, Some(levels)),
        (OwnLevel::Free, None),
        (OwnLevel::Near, None),
        (OwnLevel::None, None),
    ] {
        for (is_bounded, subspace) in [(true, &axis), (false, &axis), (true, &plane)] {
            let votes = PriorVotes {
                fit: WeighedFit::new(ConvexLoss::Squared, level).unwrap(),
                subspace,
                levels,
                is_bounded,
            };
            check_vector(n_votes(DIM, subspace.rank()), votes.clip_norm(), &votes);
        }
    }
}

/// A user may vote for one candidate alone, which reaches the bound.
#[test]
fn votes_on_fits_around_models_move_by_one_bounded_share() {
    let models: [&[f64]; 2] = [&[0.9, -0.4, 0.3], &[0.5, -0.4, 0.0]];
    for loss in [ConvexLoss::Squared, ConvexLoss::Logistic] {
        for level in [OwnLevel::Free, OwnLevel::Near, OwnLevel::None] {
            let fit = WeighedFit::new(loss, level).unwrap();
            for models in [&models[..], &models[..1]] {
                let votes = ModelVotes { fit, models };
                check_vector(N_MODEL_VOTES, ModelVotes::CLIP_NORM, &votes);
            }
        }
    }
}

#[test]
fn refinement_moves_by_one_bounded_share() {
    let moments = DirectionMoments {
        n_features: DIM,
        clip_norm: 0.5,
    };
    check_kronecker(&moments, 0.5, OffDiagonalNoise::Isometric);
    let axis = Subspace::spanned_by(DIM, 1, &[1.0, 0.5, 0.0], Provenance::NonPrivate).unwrap();
    let transform = [2.0, 0.0, 0.0, 0.1, 1.0, 0.0, 0.3, 0.2, 0.5];
    for transform in [None, Some(&transform[..])] {
        let public = Public {
            n_features: DIM,
            subspace: &axis,
            transform,
            basis: axis.basis(),
            cache: None,
        };
        for clip_norm in [1e-3, 0.5] {
            check_vector(1, 1.0, &ResidualEnergy { public, clip_norm });
            let step = ResidualStep {
                public,
                clip_norm,
                moment_weight: 0.25,
            };
            check_vector(
                ResidualStep::n_coordinates(DIM, 1),
                0.25_f64.hypot(1.0),
                &step,
            );
        }
    }
}

#[test]
fn projectors_move_by_one_and_by_root_two_when_replaced() {
    let sum = ProjectorSum::new(DIM);
    let release = |data: &UserSamples| {
        let mut paid = spends(&ProjectorSum::requests(DIM, 1.0));
        let (rhs, matrix) = (paid.pop().unwrap(), paid.pop().unwrap());
        let z = (
            matrix.noise_multiplier().unwrap(),
            rhs.noise_multiplier().unwrap(),
        );
        let grids = GramGrids::new(z.0, 1.0, z.1, 1.0).unwrap();
        let sums = GramSums::accumulate(data.table(), grids, &sum).unwrap();
        let released = sums
            .release(matrix, rhs, &mut NoiseSource::insecure_seeded(3))
            .unwrap();
        (grids.matrix().l2_bound(), released)
    };
    let (bound, whole) = release(&samples(None));
    let share = |user| {
        let part = release(&samples(Some(user))).1;
        assert_eq!(
            whole.rhs_integers(),
            part.rhs_integers(),
            "the empty part is empty"
        );
        let pairs = whole.matrix_integers().iter().zip(part.matrix_integers());
        pairs
            .map(|(a, b)| i128::from(*a) - i128::from(*b))
            .collect::<Vec<_>>()
    };
    let shares: Vec<_> = (0..users().len()).map(share).collect();
    // packed triangle of 3 by 3: positions 0, 3 and 5 are the diagonal, the others represent two
    // entries
    let twice = |at: usize| if matches!(at, 0 | 3 | 5) { 1 } else { 2 };
    check(&shares, &twice, bound, 2.0);
}
