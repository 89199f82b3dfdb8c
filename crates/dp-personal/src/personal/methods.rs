//! Errors of users, by method.

use dp_data::SplitUser;
use dp_personalize::ClassScores;
use serde::Serialize;

use super::inputs::{Inputs, Task};
use super::users::Personal;
use dp_data::SampleUser;

/// Methods by which a user could predict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// The mean of the user's labels, or their majority class.
    OwnMean,
    /// Least squares of smallest norm on the user's rows.
    OwnData,
    /// Ridge on the user's rows, with a penalty chosen as in the subspace.
    OwnRidge,
    /// The user's fit in a public random subspace: the value of a private subspace that is only
    /// noise.
    RandomSubspace,
    /// One private linear model for all users, at the same budget.
    SingleModel,
    /// The user's fit in the private subspace.
    Private,
    /// The user's fit in a subspace learned without privacy.
    NonPrivate,
}

impl MethodName {
    /// All methods, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::OwnMean,
        Self::OwnData,
        Self::OwnRidge,
        Self::RandomSubspace,
        Self::SingleModel,
        Self::Private,
        Self::NonPrivate,
    ];

    /// Name in tables of reproductions and headers of files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnMean => "own-mean",
            Self::OwnData => "own-data",
            Self::OwnRidge => "own-ridge",
            Self::RandomSubspace => "random-subspace",
            Self::SingleModel => "single-model",
            Self::Private => "private",
            Self::NonPrivate => "non-private",
        }
    }

    /// Name in reports.
    pub const fn words(self) -> &'static str {
        match self {
            Self::OwnMean => "own mean",
            Self::OwnData => "own data",
            Self::OwnRidge => "own data, ridge",
            Self::RandomSubspace => "own fit, random subspace",
            Self::SingleModel => "single private model",
            Self::Private => "private personalization",
            Self::NonPrivate => "non-private personalization",
        }
    }
}

/// One user's mean errors on their test rows, in the order of [`MethodName::ALL`]: private.
#[derive(Clone)]
pub struct UserErrors {
    /// The user's id.
    pub id: String,
    /// Whether the user was excluded from training.
    pub held_out: bool,
    /// Number of rows that the user's personal model is fitted to.
    pub n_history: usize,
    /// Number of rows that it is tested on.
    pub n_test: usize,
    /// None if a method has no model.
    pub errors: [Option<f64>; 7],
    /// For classes, the scores behind the errors.
    pub scores: [ClassScores; 7],
}

/// Metrics of scores for two classes: private.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ClassFigures {
    /// Area under the ROC curve over the test rows of all users.
    pub auc: Option<f64>,
    /// Its mean over users who have test rows of both classes.
    pub mean_user_auc: Option<f64>,
    /// Mean log loss over all test rows, in nats.
    pub log_loss: Option<f64>,
    /// Share of the rows above the threshold that are classified as such.
    pub recall_yes: Option<f64>,
    /// The same for the other rows.
    pub recall_no: Option<f64>,
}

impl ClassFigures {
    /// Metrics of the scores of these users; none if there are no scores, as for regression.
    pub fn of<'a>(users: impl Iterator<Item = &'a ClassScores>) -> Option<Self> {
        let (mut all, mut areas) = (ClassScores::default(), Vec::new());
        for scores in users {
            all.extend(scores);
            areas.extend(scores.auc());
        }
        let log_loss = Some(all.log_loss()?);
        let mean = areas.iter().sum::<f64>() / areas.len() as f64;
        Some(Self {
            auc: all.auc(),
            mean_user_auc: (!areas.is_empty()).then_some(mean),
            log_loss,
            recall_yes: all.recall(true),
            recall_no: all.recall(false),
        })
    }
}

/// The mean error of a model on a user's rows, and for classes the scores; none without rows.
pub fn scored(inputs: &Inputs, model: &Personal, rows: &SampleUser) -> (Option<f64>, ClassScores) {
    let (mut total, mut n, mut encoded) = (0.0, 0_usize, Vec::new());
    let mut scores = ClassScores::default();
    for (x, y) in rows.rows(inputs.features.len()) {
        inputs.encode(x, &mut encoded);
        let score = model.score(&encoded);
        total += inputs.error(score, y);
        n += 1;
        if inputs.task != Task::Regression {
            scores.push(score, inputs.label(y) > 0.0);
        }
    }
    ((n > 0).then(|| total / n as f64), scores)
}

/// One method's errors over all users of a kind: private.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Errors {
    /// The method.
    pub method: MethodName,
    /// RMSE or accuracy over all test rows.
    pub over_rows: Option<f64>,
    /// The same for the median user.
    pub median_user: Option<f64>,
    /// For classes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassFigures>,
}

impl MethodName {
    /// The error of this method over all rows.
    pub fn over_rows(self, errors: &[Errors]) -> Option<f64> {
        errors.iter().find(|of| of.method == self)?.over_rows
    }
}

impl UserErrors {
    /// Errors of a user who was not measured.
    pub fn none(user: &SplitUser, n_features: usize) -> Self {
        Self {
            id: user.test.id().to_owned(),
            held_out: user.held_out,
            n_history: user.history.rows(n_features).len(),
            n_test: user.test.rows(n_features).len(),
            errors: [None; 7],
            scores: Default::default(),
        }
    }
}

impl Errors {
    /// All methods over the users that are held out, or over those that are not.
    pub fn of(inputs: &Inputs, users: &[UserErrors], held_out: bool) -> [Self; 7] {
        let kept: Vec<_> = users
            .iter()
            .filter(|user| user.held_out == held_out && user.n_test > 0)
            .collect();
        let mut at = 0;
        MethodName::ALL.map(|method| {
            let mut each: Vec<f64> = kept.iter().filter_map(|user| user.errors[at]).collect();
            let weighted = kept
                .iter()
                .filter_map(|user| Some(user.errors[at]? * user.n_test as f64));
            let classes = ClassFigures::of(kept.iter().map(|user| &user.scores[at]));
            let (total, n): (f64, usize) =
                (weighted.sum(), kept.iter().map(|user| user.n_test).sum());
            at += 1;
            each.sort_by(f64::total_cmp);
            let whole = each.len() == kept.len() && !kept.is_empty();
            Self {
                method,
                over_rows: whole.then(|| inputs.figure(total / n as f64)),
                median_user: whole.then(|| inputs.figure(each[each.len() / 2])),
                classes: classes.filter(|_| whole),
            }
        })
    }
}
