//! Settings to choose from, on the validation part, by epsilon: found by random search on the validation part of
//! MovieLens-1M at exact accounting (mu = 1/4 for the published methods). Neither that search nor the choice is charged.

use dp_core::ApproxDp;
use dp_multitask::{
    FactorizationParams, Feedback, GradientRounds, ImplicitFeedback, ItemGramian, ItemUpdate,
    ResidualBounds, ResidualRounds, ScoreModel, StepSize, UserPenalties,
};

use super::methods::Candidate;

/// Public centre of the ratings of the published methods.
const LABEL_CENTER: f64 = 3.5;

/// Of Algorithm 1, for epsilon 1, 5 and 20.
const SSP: [[Ssp; 4]; 3] = [
    [
        (
            (1, 5, [1.5, 0.33, 0.16, 0.21, 0.39, 0.49]),
            [0.29, 3.8, 0.15],
        ),
        ((2, 5, [2.0, 0.3, 6.1, 0.2, 0.65, 0.14]), [1.1, 0.14, 0.15]),
        ((1, 5, [1.5, 0.37, 6.5, 0.19, 0.55, 0.15]), [1.5, 5.0, 0.15]),
        ((2, 3, [1.5, 0.29, 1.0, 5.6, 0.37, 0.18]), [1.2, 0.25, 0.25]),
    ],
    [
        (
            (2, 5, [2.0, 0.41, 0.018, 0.071, 0.51, 0.2]),
            [0.28, 1.5, 0.25],
        ),
        (
            (2, 4, [2.0, 0.42, 0.16, 1.5, 0.55, 0.36]),
            [0.14, 2.1, 0.25],
        ),
        ((4, 3, [2.0, 0.44, 1.4, 4.4, 0.78, 0.47]), [1.0, 0.2, 0.15]),
        ((4, 4, [2.0, 0.67, 2.5, 0.66, 0.45, 0.11]), [1.0, 0.29, 0.4]),
    ],
    [
        (
            (8, 6, [2.0, 0.31, 0.056, 8.6, 0.54, 0.41]),
            [0.22, 0.31, 0.15],
        ),
        (
            (4, 6, [2.0, 0.42, 0.058, 2.1, 0.7, 0.52]),
            [0.22, 0.25, 0.25],
        ),
        (
            (4, 5, [2.0, 0.49, 0.038, 22.0, 1.1, 0.54]),
            [1.2, 0.23, 0.25],
        ),
        (
            (8, 4, [2.0, 0.31, 2.1, 3.7, 0.82, 0.13]),
            [0.66, 0.33, 0.25],
        ),
    ],
];

/// Of Algorithm 2.
const STEPS: [[Steps; 4]; 3] = [
    [
        (
            (2, 16, [1.0, 0.41, 0.067, 1.8, 1.1, 0.12]),
            [0.22, 0.42, 1.2, 8.1],
        ),
        (
            (2, 16, [1.0, 0.35, 1.7, 0.09, 1.3, 0.22]),
            [0.26, 0.72, 2.8, 11.0],
        ),
        (
            (4, 12, [1.0, 0.39, 0.25, 14.0, 1.1, 0.23]),
            [0.16, 0.56, 0.46, 4.5],
        ),
        (
            (4, 12, [1.0, 0.27, 1.0, 11.0, 1.6, 0.33]),
            [0.64, 0.9, 2.4, 3.6],
        ),
    ],
    [
        (
            (2, 12, [1.0, 0.26, 0.065, 0.21, 1.2, 0.15]),
            [0.35, 0.78, 1.0, 11.0],
        ),
        (
            (2, 16, [1.0, 0.79, 0.56, 14.0, 1.9, 0.22]),
            [0.51, 0.46, 0.37, 5.3],
        ),
        (
            (6, 8, [1.0, 0.32, 0.82, 9.1, 1.4, 0.16]),
            [0.28, 0.7, 2.8, 11.0],
        ),
        (
            (6, 16, [1.0, 0.25, 2.6, 1.7, 1.2, 0.16]),
            [0.19, 0.33, 1.8, 6.5],
        ),
    ],
    [
        (
            (6, 12, [1.0, 0.31, 0.025, 28.0, 1.3, 0.17]),
            [0.21, 0.83, 0.4, 13.0],
        ),
        (
            (6, 16, [1.0, 0.56, 1.7, 9.6, 0.89, 0.16]),
            [0.3, 0.63, 0.95, 2.0],
        ),
        (
            (8, 16, [1.3, 0.66, 0.27, 3.7, 1.4, 0.2]),
            [0.17, 1.4, 2.3, 1.5],
        ),
        (
            (8, 16, [1.3, 0.76, 2.6, 0.97, 1.0, 0.3]),
            [0.52, 0.65, 0.58, 1.1],
        ),
    ],
];

/// Of Algorithm 1 for lists.
const LISTS: [[Listed; 3]; 3] = [
    [
        (
            8,
            2,
            [
                2.0, 0.13, 0.15, 4.0, 4.0, 0.55, 4.1, 0.16, 0.28, 0.05, 0.05, 0.1, 0.1, 7.0,
            ],
        ),
        (
            12,
            3,
            [
                3.0, 0.11, 0.05, 3.6, 2.2, 0.99, 1.1, 0.33, 0.24, 0.031, 0.05, 0.15, 0.03, 5.0,
            ],
        ),
        (
            12,
            2,
            [
                2.0, 0.13, 0.15, 2.7, 4.0, 0.55, 4.1, 0.16, 0.28, 0.05, 0.05, 0.15, 0.06, 7.0,
            ],
        ),
    ],
    [
        (
            24,
            3,
            [
                3.0, 0.1, 0.2, 0.41, 1.8, 0.19, 3.1, 0.3, 0.35, 0.37, 0.05, 0.15, 0.03, 5.0,
            ],
        ),
        (
            24,
            3,
            [
                1.5, 0.1, 0.1, 0.6, 1.8, 0.15, 2.9, 0.27, 0.34, 0.37, 0.05, 0.15, 0.1, 10.0,
            ],
        ),
        (
            24,
            3,
            [
                3.0, 0.1, 0.15, 0.6, 1.8, 0.15, 2.9, 0.27, 0.35, 0.37, 0.05, 0.15, 0.1, 5.0,
            ],
        ),
    ],
    [
        (
            32,
            3,
            [
                1.5, 0.2, 0.1, 0.6, 1.0, 0.15, 2.9, 0.27, 0.34, 0.37, 0.05, 0.3, 0.05, 10.0,
            ],
        ),
        (
            32,
            3,
            [
                2.0, 0.3, 0.2, 0.4, 0.5, 0.19, 3.1, 0.3, 0.35, 0.2, 0.05, 0.25, 0.03, 7.0,
            ],
        ),
        (
            32,
            3,
            [
                2.0, 0.2, 0.1, 0.6, 1.0, 0.15, 2.9, 0.27, 0.34, 0.37, 0.05, 0.2, 0.03, 10.0,
            ],
        ),
    ],
];

/// Of the residual form in best mode.
const RESIDUALS: [[Residuals; 3]; 3] = [
    [
        (1, 4, 6, [1.5, 0.6, 0.0, 0.66, 1.8, 0.25]),
        (1, 4, 6, [1.5, 0.8, 0.25, 1.0, 1.2, 0.35]),
        (1, 2, 5, [1.2, 0.9, 0.0, 2.2, 3.1, 0.35]),
    ],
    [
        (4, 3, 7, [1.2, 0.95, 0.0, 1.0, 0.51, 0.15]),
        (5, 4, 8, [1.2, 0.95, 0.0, 1.3, 3.6, 0.35]),
        (4, 4, 7, [1.0, 0.95, 0.0, 1.1, 1.7, 0.25]),
    ],
    [
        (5, 4, 8, [1.5, 0.95, 0.0, 0.94, 2.9, 0.35]),
        (5, 4, 8, [1.2, 0.9, 0.25, 0.84, 2.3, 0.25]),
        (5, 3, 7, [1.0, 0.9, 0.0, 0.78, 3.6, 0.15]),
    ],
];

/// A setting of a published method and its name in the table.
pub(in super::super) struct Published {
    pub(in super::super) label: String,
    pub(in super::super) settings: FactorizationParams,
}

/// Tastes, rounds, and growth of a round's budget, clip norm, penalties of the user step (training, fold-in), label
/// bound, initial standard deviation.
type Plain = (usize, usize, [f64; 6]);

/// Ridge factor, constant ridge, share of the matrices.
type Ssp = (Plain, [f64; 3]);

/// Residual bound, rate, damping, radius.
type Steps = (Plain, [f64; 4]);

/// Length of factors, rounds of statistics, all rounds, and growth of a round's budget, ratio of the bounds, pull, ridge factor,
/// constant ridge, share of the matrices.
type Residuals = (usize, usize, usize, [f64; 6]);

/// Tastes, rounds, and growth of a round's budget, clip norm, share of the matrices, ridge factor, constant ridge,
/// penalties of the user step (training, fold-in), weights of the unobserved (training, fold-in, items), share of the
/// Gramian, fraction of the items in the head, share of the counts, norm of a user's votes.
type Listed = (usize, usize, [f64; 14]);

/// The settings of `table` for little, middle or much privacy loss.
fn at<T>(table: &[T; 3], target: ApproxDp) -> &T {
    match target.epsilon {
        epsilon if epsilon < 2.5 => &table[0],
        epsilon if epsilon < 10.0 => &table[1],
        _ => &table[2],
    }
}

fn penalties(factor: f64) -> UserPenalties {
    UserPenalties {
        offset: 1.0, // without biases there is no offset
        factor,
        factor_per_record: 0.0,
    }
}

/// The model of the paper: no biases, a public centre.
fn plain((tastes, n_rounds, more): Plain, target: ApproxDp) -> Published {
    let [
        round_growth,
        clip_norm,
        training,
        fold_in,
        label_bound,
        init_stddev,
    ] = more;
    Published {
        label: format!("{tastes} tastes, {n_rounds} rounds"),
        settings: FactorizationParams {
            score_model: ScoreModel::Plain,
            dim: Some(tastes + 1),
            n_rounds,
            round_growth,
            clip_norm,
            training_penalties: penalties(training),
            fold_in_penalties: penalties(fold_in),
            label_center: LABEL_CENTER,
            label_bound,
            init_stddev,
            ..FactorizationParams::adadpals_for_target(target)
        },
    }
}

/// Algorithm 3 with Algorithm 1 as the item update: per-item Gramians, no biases.
pub(in super::super) fn published_ssp(target: ApproxDp) -> Vec<Published> {
    let of = |&(common, [ridge, l2_penalty, matrix_share]): &Ssp| {
        let mut of = plain(common, target);
        of.settings.item_ridge_factor = ridge;
        of.settings.item_l2_penalty = l2_penalty;
        of.settings.matrix_share = matrix_share;
        of
    };
    at(&SSP, target).iter().map(of).collect()
}

/// Algorithm 3 with Algorithm 2: one noisy gradient step per round.
pub(super) fn published_steps(target: ApproxDp) -> Vec<Published> {
    let of = |&(common, [residual_bound, rate, damping, radius]): &Steps| {
        let (tastes, mut of) = (common.0, plain(common, target));
        let curvature = of.settings.clip_norm.powi(2) / tastes as f64;
        let step_size = StepSize::Curvature {
            rate,
            curvature,
            damping,
        };
        of.settings.item_update = ItemUpdate::NoisyGd(GradientRounds {
            radius,
            step_size,
            ..GradientRounds::new(residual_bound, tastes)
        });
        of
    };
    at(&STEPS, target).iter().map(of).collect()
}

/// The best mode's model and defaults, with later rounds on residuals.
pub(super) fn best_residual(target: ApproxDp) -> Vec<Candidate> {
    let all = at(&RESIDUALS, target).iter();
    all.map(|row| residual(row, target)).collect()
}

fn residual(&(dim, first, n_rounds, more): &Residuals, target: ApproxDp) -> Candidate {
    let [round_growth, ratio, pull, ridge, l2_penalty, matrix_share] = more;
    let on_residuals = n_rounds - first;
    Candidate {
        label: format!("dim {dim}, {first} rounds and {on_residuals} on residuals"),
        settings: FactorizationParams {
            dim: Some(dim),
            n_rounds,
            round_growth,
            item_ridge_factor: ridge,
            item_l2_penalty: l2_penalty,
            matrix_share,
            item_update: ItemUpdate::Residual(ResidualRounds {
                n_statistics_rounds: first,
                bounds: ResidualBounds::Geometric { ratio },
                pull,
                ..ResidualRounds::new()
            }),
            ..FactorizationParams::adadpals_for_target(target)
        },
    }
}

/// Implicit feedback as in the paper: each item's own matrix, no biases, and the head alone.
pub(in super::super) fn published_lists(target: ApproxDp) -> Vec<Published> {
    let all = at(&LISTS, target).iter();
    all.map(|row| listed(row, target)).collect()
}

fn listed(&(tastes, n_rounds, more): &Listed, target: ApproxDp) -> Published {
    let [
        round_growth,
        clip_norm,
        matrix_share,
        item_ridge_factor,
        item_l2_penalty,
        rest @ ..,
    ] = more;
    let [
        training,
        fold_in,
        a0_training,
        a0_fold_in,
        a0_items,
        gramian_share,
        head,
        count_share,
        count_clip_norm,
    ] = rest;
    Published {
        label: format!(
            "{tastes} tastes, {n_rounds} rounds, {} % head",
            100.0 * head
        ),
        settings: FactorizationParams {
            score_model: ScoreModel::Plain,
            dim: Some(tastes + 1),
            n_rounds,
            round_growth,
            weight_exponent: 0.25,
            head_fraction: Some(head),
            count_share,
            count_clip_norm,
            clip_norm,
            matrix_share,
            item_ridge_factor,
            item_l2_penalty,
            training_penalties: penalties(training),
            fold_in_penalties: penalties(fold_in),
            feedback: Feedback::Implicit(ImplicitFeedback {
                training_unobserved_weight: a0_training,
                fold_in_unobserved_weight: a0_fold_in,
                item_unobserved_weight: a0_items,
                item_gramian: ItemGramian::PerItem,
                gramian_share,
            }),
            ..FactorizationParams::implicit_for_target(target)
        },
    }
}
