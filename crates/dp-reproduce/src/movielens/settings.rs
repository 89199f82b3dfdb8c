//! Candidate settings by epsilon, found by random search on the validation part of MovieLens-1M
//! with exact accounting (mu = 1/4 for the published methods). Neither that search nor the
//! selection is charged.

use dp_core::ApproxDp;
use dp_multitask::{
    FactorizationParams, Feedback, GradientRounds, ImplicitFeedback, ItemGramian, ItemUpdate,
    ResidualBounds, ResidualRounds, ScoreModel, StepSize, UserPenalties,
};

use super::methods::Candidate;

/// Public centre of the ratings of the published methods.
const LABEL_CENTER: f64 = 3.5;

/// Common settings of the published methods.
#[derive(Clone, Copy)]
struct Plain {
    tastes: usize,
    n_rounds: usize,
    /// Growth of a round's budget.
    round_growth: f64,
    clip_norm: f64,
    /// Penalties of the user step.
    training: f64,
    fold_in: f64,
    label_bound: f64,
    init_stddev: f64,
}

/// Additional settings of Algorithm 1.
struct Ssp {
    /// Ridge in units of the noise.
    ridge: f64,
    l2_penalty: f64,
    matrix_share: f64,
}

/// Additional settings of Algorithm 2.
struct Steps {
    residual_bound: f64,
    rate: f64,
    damping: f64,
    radius: f64,
}

/// Settings of Algorithm 1 for lists.
struct Listed {
    tastes: usize,
    n_rounds: usize,
    /// Growth of a round's budget.
    round_growth: f64,
    clip_norm: f64,
    matrix_share: f64,
    /// Ridge in units of the noise.
    ridge: f64,
    l2_penalty: f64,
    /// Penalties of the user step.
    training: f64,
    fold_in: f64,
    /// Weights of unobserved items.
    training_unobserved: f64,
    fold_in_unobserved: f64,
    item_unobserved: f64,
    gramian_share: f64,
    /// Fraction of the items that are trained.
    head: f64,
    count_share: f64,
    /// Bound on the norm of a user's counts.
    count_clip_norm: f64,
}

/// Settings of the residual form in best mode.
struct Residuals {
    dim: usize,
    n_statistics_rounds: usize,
    n_rounds: usize,
    /// Growth of a round's budget.
    round_growth: f64,
    /// Ratio of successive bounds.
    ratio: f64,
    pull: f64,
    /// Ridge in units of the noise.
    ridge: f64,
    l2_penalty: f64,
    matrix_share: f64,
}

/// Settings for three epsilons, one per line below the names of the fields.
macro_rules! rows {
    ($of:ident $fields:tt $([ $($row:tt;)* ])*) => {
        [$( [$( rows!(@one $of $fields $row) ),*] ),*]
    };
    ($of:ident $fields:tt $more:ident $others:tt $([ $($row:tt $rest:tt;)* ])*) => {
        [$( [$( (rows!(@one $of $fields $row), rows!(@one $more $others $rest)) ),*] ),*]
    };
    (@one $of:ident { $($field:ident)* } ($($value:literal)*)) => {
        $of { $($field: $value),* }
    };
}

/// Settings of Algorithm 1, for epsilon 1, 5 and 20.
const SSP: [[(Plain, Ssp); 4]; 3] = rows! {
    Plain { tastes n_rounds round_growth clip_norm training fold_in label_bound init_stddev }
    Ssp { ridge l2_penalty matrix_share }
    [
        (1 5 1.5 0.33  0.16  0.21 0.39 0.49) (0.29  3.8 0.15);
        (2 5 2.0  0.3   6.1   0.2 0.65 0.14) ( 1.1 0.14 0.15);
        (1 5 1.5 0.37   6.5  0.19 0.55 0.15) ( 1.5  5.0 0.15);
        (2 3 1.5 0.29   1.0   5.6 0.37 0.18) ( 1.2 0.25 0.25);
    ]
    [
        (2 5 2.0 0.41 0.018 0.071 0.51  0.2) (0.28  1.5 0.25);
        (2 4 2.0 0.42  0.16   1.5 0.55 0.36) (0.14  2.1 0.25);
        (4 3 2.0 0.44   1.4   4.4 0.78 0.47) ( 1.0  0.2 0.15);
        (4 4 2.0 0.67   2.5  0.66 0.45 0.11) ( 1.0 0.29  0.4);
    ]
    [
        (8 6 2.0 0.31 0.056   8.6 0.54 0.41) (0.22 0.31 0.15);
        (4 6 2.0 0.42 0.058   2.1  0.7 0.52) (0.22 0.25 0.25);
        (4 5 2.0 0.49 0.038  22.0  1.1 0.54) ( 1.2 0.23 0.25);
        (8 4 2.0 0.31   2.1   3.7 0.82 0.13) (0.66 0.33 0.25);
    ]
};

/// Settings of Algorithm 2.
const STEPS: [[(Plain, Steps); 4]; 3] = rows! {
    Plain { tastes n_rounds round_growth clip_norm training fold_in label_bound init_stddev }
    Steps { residual_bound rate damping radius }
    [
        (2 16 1.0 0.41 0.067  1.8  1.1 0.12) (0.22 0.42  1.2  8.1);
        (2 16 1.0 0.35   1.7 0.09  1.3 0.22) (0.26 0.72  2.8 11.0);
        (4 12 1.0 0.39  0.25 14.0  1.1 0.23) (0.16 0.56 0.46  4.5);
        (4 12 1.0 0.27   1.0 11.0  1.6 0.33) (0.64  0.9  2.4  3.6);
    ]
    [
        (2 12 1.0 0.26 0.065 0.21  1.2 0.15) (0.35 0.78  1.0 11.0);
        (2 16 1.0 0.79  0.56 14.0  1.9 0.22) (0.51 0.46 0.37  5.3);
        (6  8 1.0 0.32  0.82  9.1  1.4 0.16) (0.28  0.7  2.8 11.0);
        (6 16 1.0 0.25   2.6  1.7  1.2 0.16) (0.19 0.33  1.8  6.5);
    ]
    [
        (6 12 1.0 0.31 0.025 28.0  1.3 0.17) (0.21 0.83  0.4 13.0);
        (6 16 1.0 0.56   1.7  9.6 0.89 0.16) ( 0.3 0.63 0.95  2.0);
        (8 16 1.3 0.66  0.27  3.7  1.4  0.2) (0.17  1.4  2.3  1.5);
        (8 16 1.3 0.76   2.6 0.97  1.0  0.3) (0.52 0.65 0.58  1.1);
    ]
};

/// Settings of Algorithm 1 for lists.
const LISTS: [[Listed; 3]; 3] = rows! {
    Listed { tastes n_rounds round_growth clip_norm matrix_share ridge l2_penalty training fold_in training_unobserved fold_in_unobserved item_unobserved gramian_share head count_share count_clip_norm }
    [
        ( 8 2 2.0 0.13 0.15  4.0 4.0 0.55 4.1 0.16 0.28  0.05 0.05  0.1  0.1  7.0);
        (12 3 3.0 0.11 0.05  3.6 2.2 0.99 1.1 0.33 0.24 0.031 0.05 0.15 0.03  5.0);
        (12 2 2.0 0.13 0.15  2.7 4.0 0.55 4.1 0.16 0.28  0.05 0.05 0.15 0.06  7.0);
    ]
    [
        (24 3 3.0  0.1  0.2 0.41 1.8 0.19 3.1  0.3 0.35  0.37 0.05 0.15 0.03  5.0);
        (24 3 1.5  0.1  0.1  0.6 1.8 0.15 2.9 0.27 0.34  0.37 0.05 0.15  0.1 10.0);
        (24 3 3.0  0.1 0.15  0.6 1.8 0.15 2.9 0.27 0.35  0.37 0.05 0.15  0.1  5.0);
    ]
    [
        (32 3 1.5  0.2  0.1  0.6 1.0 0.15 2.9 0.27 0.34  0.37 0.05  0.3 0.05 10.0);
        (32 3 2.0  0.3  0.2  0.4 0.5 0.19 3.1  0.3 0.35   0.2 0.05 0.25 0.03  7.0);
        (32 3 2.0  0.2  0.1  0.6 1.0 0.15 2.9 0.27 0.34  0.37 0.05  0.2 0.03 10.0);
    ]
};

/// Settings of the residual form in best mode.
const RESIDUALS: [[Residuals; 3]; 3] = rows! {
    Residuals { dim n_statistics_rounds n_rounds round_growth ratio pull ridge l2_penalty matrix_share }
    [
        (1 4 6 1.5  0.6  0.0 0.66  1.8 0.25);
        (1 4 6 1.5  0.8 0.25  1.0  1.2 0.35);
        (1 2 5 1.2  0.9  0.0  2.2  3.1 0.35);
    ]
    [
        (4 3 7 1.2 0.95  0.0  1.0 0.51 0.15);
        (5 4 8 1.2 0.95  0.0  1.3  3.6 0.35);
        (4 4 7 1.0 0.95  0.0  1.1  1.7 0.25);
    ]
    [
        (5 4 8 1.5 0.95  0.0 0.94  2.9 0.35);
        (5 4 8 1.2  0.9 0.25 0.84  2.3 0.25);
        (5 3 7 1.0  0.9  0.0 0.78  3.6 0.15);
    ]
};

/// A setting of a published method and its name in the table.
pub(in super::super) struct Published {
    pub(in super::super) label: String,
    pub(in super::super) settings: FactorizationParams,
}

/// The settings of `table` for a small, medium or large epsilon.
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
fn plain(row: Plain, target: ApproxDp) -> Published {
    Published {
        label: format!("{} tastes, {} rounds", row.tastes, row.n_rounds),
        settings: FactorizationParams {
            score_model: ScoreModel::Plain,
            dim: Some(row.tastes + 1),
            n_rounds: row.n_rounds,
            round_growth: row.round_growth,
            clip_norm: row.clip_norm,
            training_penalties: penalties(row.training),
            fold_in_penalties: Some(penalties(row.fold_in)),
            label_center: LABEL_CENTER,
            label_bound: row.label_bound,
            init_stddev: row.init_stddev,
            ..FactorizationParams::adadpals_for_target(target)
        },
    }
}

/// Algorithm 3 with Algorithm 1 as the item update: per-item Gramians, no biases.
pub(in super::super) fn published_ssp(target: ApproxDp) -> Vec<Published> {
    let of = |(common, own): &(Plain, Ssp)| {
        let mut of = plain(*common, target);
        of.settings.item_ridge_factor = own.ridge;
        of.settings.item_l2_penalty = own.l2_penalty;
        of.settings.matrix_share = own.matrix_share;
        of
    };
    at(&SSP, target).iter().map(of).collect()
}

/// Algorithm 3 with Algorithm 2: one noisy gradient step per round.
pub(super) fn published_steps(target: ApproxDp) -> Vec<Published> {
    let of = |(common, own): &(Plain, Steps)| {
        let (tastes, mut of) = (common.tastes, plain(*common, target));
        let curvature = of.settings.clip_norm.powi(2) / tastes as f64;
        let step_size = StepSize::Curvature {
            rate: own.rate,
            curvature,
            damping: own.damping,
        };
        of.settings.item_update = ItemUpdate::NoisyGd(GradientRounds {
            radius: own.radius,
            step_size,
            ..GradientRounds::new(own.residual_bound, tastes)
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

fn residual(row: &Residuals, target: ApproxDp) -> Candidate {
    let first = row.n_statistics_rounds;
    let (dim, on_residuals) = (row.dim, row.n_rounds - first);
    Candidate {
        label: format!("dim {dim}, {first} rounds and {on_residuals} on residuals"),
        settings: FactorizationParams {
            dim: Some(dim),
            n_rounds: row.n_rounds,
            round_growth: row.round_growth,
            item_ridge_factor: row.ridge,
            item_l2_penalty: row.l2_penalty,
            matrix_share: row.matrix_share,
            item_update: ItemUpdate::Residual(ResidualRounds {
                n_statistics_rounds: first,
                bounds: ResidualBounds::Geometric { ratio: row.ratio },
                pull: row.pull,
                ..ResidualRounds::new()
            }),
            ..FactorizationParams::adadpals_for_target(target)
        },
    }
}

/// Implicit feedback as in the paper: a separate matrix for each item, no biases, and only the
/// head.
pub(in super::super) fn published_lists(target: ApproxDp) -> Vec<Published> {
    let all = at(&LISTS, target).iter();
    all.map(|row| listed(row, target)).collect()
}

fn listed(row: &Listed, target: ApproxDp) -> Published {
    Published {
        label: format!(
            "{} tastes, {} rounds, {} % head",
            row.tastes,
            row.n_rounds,
            100.0 * row.head
        ),
        settings: FactorizationParams {
            score_model: ScoreModel::Plain,
            dim: Some(row.tastes + 1),
            n_rounds: row.n_rounds,
            round_growth: row.round_growth,
            weight_exponent: 0.25,
            head_fraction: Some(row.head),
            count_share: row.count_share,
            count_clip_norm: row.count_clip_norm,
            clip_norm: row.clip_norm,
            matrix_share: row.matrix_share,
            item_ridge_factor: row.ridge,
            item_l2_penalty: row.l2_penalty,
            training_penalties: penalties(row.training),
            fold_in_penalties: Some(penalties(row.fold_in)),
            feedback: Feedback::Implicit(ImplicitFeedback {
                training_unobserved_weight: row.training_unobserved,
                fold_in_unobserved_weight: row.fold_in_unobserved,
                item_unobserved_weight: row.item_unobserved,
                item_gramian: ItemGramian::PerItem,
                gramian_share: row.gramian_share,
            }),
            ..FactorizationParams::implicit_for_target(target)
        },
    }
}
