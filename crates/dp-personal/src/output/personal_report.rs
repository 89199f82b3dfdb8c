//! Output of a run of `dp personalize`: released files, internal files, and its summary on the
//! screen.

use std::borrow::Cow;

use dp_accounting::Certificate;
use dp_page::Table;
use dp_personalize::{Fitted, Subspace, UserPrior};
use serde_json::{Value, json};

use super::model_file::{SUBSPACE, subspace_bytes};
use super::release::{counted, internal_of, user_csv};
use super::{ByRound, ChartData, Headline, InternalRun, Release, RunReport, Seconds};
use crate::error::Result;
use crate::evaluate::shown;
use crate::personal::{
    ClassFigures, Errors, Inputs, Intercept, MethodName, MethodSettings, UserErrors,
};
use crate::quality::{Metric, Quality, TestedUser};

type ClassFigure = fn(&ClassFigures) -> Option<f64>;

/// Class metrics that are reported in addition to the main metric.
pub(super) const CLASS_FIGURES: [(&str, ClassFigure); 5] = [
    ("AUC", |of| of.auc),
    ("AUC, mean of users", |of| of.mean_user_auc),
    ("log loss", |of| of.log_loss),
    ("recall of yes", |of| of.recall_yes),
    ("recall of no", |of| of.recall_no),
];

/// The released part of a run, complete before anything is measured on held-out rows.
pub(crate) struct PersonalRelease<'a> {
    pub(crate) fitted: &'a Fitted<Subspace>,
    pub(crate) inputs: &'a Inputs,
    pub(crate) by: SubspaceBy<'a>,
    /// All public inputs that determined the run.
    pub(crate) run: &'a Value,
}

/// How a subspace was learned.
pub(crate) enum SubspaceBy<'a> {
    Run(&'a MethodSettings),
    /// In a line, and for programs.
    Nights(String, Value),
}

impl SubspaceBy<'_> {
    fn words(&self) -> String {
        match self {
            Self::Run(settings) => {
                let method = serde_json::to_value(settings.method).unwrap_or_default();
                let method = method.as_str().unwrap_or_default();
                match settings.n_steps() {
                    0 => method.to_owned(),
                    1 => format!("{method}, 1 step"),
                    n => format!("{method}, {n} steps"),
                }
            }
            Self::Nights(words, _) => words.clone(),
        }
    }

    fn settings(&self) -> Value {
        match self {
            Self::Run(settings) => json!(settings),
            Self::Nights(_, settings) => settings.clone(),
        }
    }
}

impl Release for PersonalRelease<'_> {
    fn certificate(&self) -> &Certificate {
        &self.fitted.certificate
    }

    fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let subspace = subspace_bytes(&self.fitted.model, self.inputs)?;
        Ok(vec![(SUBSPACE, subspace)])
    }

    fn command(&self) -> &'static str {
        "personalize"
    }

    fn model_line(&self) -> String {
        let (rank, n) = (self.fitted.model.rank(), self.inputs.features.len());
        let level = match self.inputs.intercept {
            Intercept::Own if self.inputs.has_own_levels() && !self.inputs.has_level_prior() => {
                "one level per user (not shared: the target has no range)"
            }
            Intercept::Own => "one level per user",
            Intercept::Shared => "a constant feature",
            Intercept::None => "no intercept",
        };
        let sparse = match self.inputs.sparse {
            0 => String::new(),
            most => format!(" and up to {most} extra coefficients per user"),
        };
        format!(
            "{n} features and {level}, subspace of dimension {rank}{sparse}, {}",
            self.by.words()
        )
    }

    fn settings(&self) -> Value {
        json!({"method": self.by.settings(), "inputs": self.inputs})
    }

    fn public(&self) -> Option<&Value> {
        Some(self.run)
    }

    fn charts(&self) -> Vec<ChartData> {
        let model = &self.fitted.model;
        let mut shares: Vec<_> = self.inputs.names().zip(model.shares()).collect();
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let shares = shares.into_iter();
        let mut charts = vec![ChartData {
            title: "Features in the subspace".to_owned(),
            note: "share of each feature's direction that lies in the released subspace, from 0 to 1: the diagonal of U U^T; \
                   other noise and other users would give other shares"
                .to_owned(),
            series: vec!["share".to_owned()],
            rows: shares
                .map(|(name, share)| (name, vec![Some(share)]))
                .collect(),
            standard_errors: Vec::new(),
        }];
        if let Some(prior) = model.user_prior() {
            let unknown = match (prior.levels(), self.inputs.has_level_prior()) {
                (None, true) => "; users' levels do not stand out from the noise and are not used",
                _ => "",
            };
            charts.push(weight_chart(
                "Kinds of personal fits",
                format!(
                    "prior weights, which users' own rows then change, and not a finding about the data: noisy means over users \
                     of how likely their rows make each kind{unknown}"
                ),
                kinds(prior, model),
            ));
            charts.push(weight_chart(
                "Variance that features explain",
                "prior weights of the share of the variance within a user that the features explain, in fits that use features".to_owned(),
                pooled(prior.explained()),
            ));
            if let Some(levels) = prior.levels() {
                let mean = self.inputs.answer(levels.mean);
                charts.push(weight_chart(
                    "Variance between users",
                    format!(
                        "prior weights of the share of the variance of labels that lies between users (intraclass correlation); the \
                         mean level of users is {mean:.4}"
                    ),
                    pooled(prior.between()),
                ));
            }
        }
        charts
    }
}

/// Kinds of personal fits, in the order of the prior.
const PLAIN_KINDS: [&str; 3] = [
    "no features: the level alone",
    "own regression",
    "own regression, standardised features",
];
const SHARED_KINDS: [&str; 4] = [
    "shared subspace alone",
    "shared subspace 3 : 1 own",
    "shared subspace 10 : 1 own",
    "shared subspace 30 : 1 own",
];

/// Kinds of personal fits with their weights; one for each part of the subspace, and all for the whole.
fn kinds(prior: &UserPrior, model: &Subspace) -> Vec<(String, f64)> {
    let (plain, rest) = prior.kinds().split_at(PLAIN_KINDS.len());
    let (parts, whole) = rest.split_at(rest.len() - SHARED_KINDS.len());
    let names = PLAIN_KINDS
        .iter()
        .zip(plain)
        .chain(SHARED_KINDS.iter().zip(whole));
    let named = names.map(|(name, weight)| ((*name).to_owned(), *weight));
    let parts = parts.chunks_exact(SHARED_KINDS.len()).zip(model.parts());
    let of_part = parts.map(|(weights, rank)| {
        let name = format!("first {rank} of {} shared directions", model.rank());
        (name, weights.iter().sum())
    });
    named.chain(of_part).collect()
}

/// A chart of the weights of a prior.
pub(super) fn weight_chart(title: &str, note: String, bars: Vec<(String, f64)>) -> ChartData {
    // three digits, as many as a bar shows
    let rounded = |weight: f64| Some((1e3 * weight).round() / 1e3);
    let bars = bars.into_iter();
    ChartData {
        title: title.to_owned(),
        note,
        series: vec!["weight".to_owned()],
        rows: bars
            .map(|(name, weight)| (name, vec![rounded(weight)]))
            .collect(),
        standard_errors: Vec::new(),
    }
}

/// Weights of shares, in percent; those near 100 are pooled.
pub(super) fn pooled(weights: impl Iterator<Item = (f64, f64)>) -> Vec<(String, f64)> {
    let (mut bars, mut last) = (Vec::new(), 0.0);
    for (share, weight) in weights {
        if share > 0.998 {
            last += weight;
        } else {
            bars.push((format!("{:.0} %", 100.0 * share), weight));
        }
    }
    bars.push(("above 99 %".to_owned(), last));
    bars
}

/// All results of a run, with released and internal parts kept separate.
pub(crate) struct PersonalReport<'a> {
    pub(crate) release: &'a PersonalRelease<'a>,
    pub(crate) users: Vec<UserErrors>,
    /// Errors of personal fits in the subspaces after intermediate rounds.
    pub(crate) by_round: Option<ByRound>,
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

impl PersonalReport<'_> {
    fn errors(&self, held_out: bool) -> [Errors; 7] {
        Errors::of(self.release.inputs, &self.users, held_out)
    }

    /// Training users, and held-out users if there are any.
    fn kinds(&self) -> Vec<(&'static str, [Errors; 7])> {
        let mut kinds = vec![("", self.errors(false))];
        if self.users.iter().any(|user| user.held_out) {
            kinds.push((", held-out users", self.errors(true)));
        }
        kinds
    }

    fn n_rows(&self) -> usize {
        let rows = self.users.iter().map(|user| user.n_history + user.n_test);
        rows.sum()
    }
}

impl RunReport for PersonalReport<'_> {
    fn release(&self) -> &impl Release {
        self.release
    }

    fn internal(&self) -> InternalRun {
        let metric = self.release.inputs.metric();
        let kinds = self.kinds();
        let of = |method: MethodName| method.over_rows(&kinds.first()?.1);
        let series = ["users trained on", "users held out"].map(str::to_owned);
        let series: Vec<String> = series.into_iter().take(kinds.len()).collect();
        let chart = |title: String, note: &str, of: fn(&Errors) -> Option<f64>| {
            let rows = MethodName::ALL.iter().enumerate();
            let rows = rows.map(|(at, method)| {
                let figures = kinds.iter().map(|(_, errors)| of(&errors[at]));
                (method.words().to_owned(), figures.collect())
            });
            ChartData {
                title,
                note: note.to_owned(),
                series: series.clone(),
                rows: rows.collect(),
                standard_errors: Vec::new(),
            }
        };
        let held_out = self.users.iter().filter(|user| user.held_out);
        InternalRun {
            headline: of(MethodName::Private).map(|value| Headline {
                metric: format!("{metric} on held-out rows"),
                value,
                interval: self
                    .interval()
                    .map(|ends| self.release.inputs.interval(ends)),
                non_private: of(MethodName::NonPrivate),
            }),
            by_round: self.by_round.clone(),
            charts: vec![
                chart(
                    format!("{metric} on held-out rows, by method"),
                    "own methods use a user's rows alone; the random subspace is what a private one is worth that is nothing but noise",
                    |errors| errors.over_rows,
                ),
                chart(
                    format!("{metric} of the median user, by method"),
                    "on the held-out rows of each user",
                    |errors| errors.median_user,
                ),
            ],
            data: counted([
                ("users", self.users.len()),
                ("users held out", held_out.count()),
                ("rows kept", self.n_rows()),
                ("rows left out: NaN or infinite", self.n_left_out),
            ]),
            ..internal_of(self.release, self.seconds)
        }
    }

    /// For training users. The baselines learn from a user's own rows alone, or from all users'
    /// rows at the same budget.
    fn quality(&self) -> Option<Cow<'_, Quality>> {
        use MethodName::{OwnData, OwnMean, OwnRidge, Private, SingleModel};
        let methods = [Private, OwnMean, OwnData, OwnRidge, SingleModel];
        let places = methods.map(|method| MethodName::ALL.iter().position(|of| *of == method));
        let users = self.users.iter().filter(|user| !user.held_out);
        let users = users.map(|user| TestedUser {
            n_history: user.n_history,
            n_test: user.n_test,
            errors: places.map(|at| user.errors[at?]).to_vec(),
            scores: places.map(|at| at.map(|at| &user.scores[at])).to_vec(),
        });
        let names = methods.map(|method| method.words().to_owned());
        let users: Vec<_> = users.collect();
        let metrics = Metric::of_task(self.release.inputs.task);
        Some(Cow::Owned(Quality::of_rows(metrics, &names, &users)))
    }

    fn user_table(&self) -> Result<Option<Vec<u8>>> {
        let inputs = self.release.inputs;
        let metric = inputs.metric().to_lowercase();
        let names = MethodName::ALL.map(|method| format!("{metric} {}", method.name()));
        let users = self.users.iter().map(|user| {
            let rows = [user.n_history, user.n_test];
            (user.id.as_str(), user.held_out, rows, &user.errors[..])
        });
        user_csv(names, users, |error| inputs.figure(error)).map(Some)
    }

    fn table(&self) -> Table {
        let metric = self.release.inputs.metric();
        let kinds = self.kinds().into_iter();
        let rows = kinds.flat_map(|(users, errors)| {
            let of_all = errors.map(|error| {
                let name = format!("{metric} {}{users}", error.method.words());
                vec![name, shown(error.over_rows)]
            });
            let of_classes = CLASS_FIGURES.into_iter().flat_map(move |(name, figure)| {
                errors.into_iter().filter_map(move |error| {
                    let name = format!("{name} {}{users}", error.method.words());
                    Some(vec![name, shown(figure(error.classes.as_ref()?))])
                })
            });
            of_all.into_iter().chain(of_classes)
        });
        Table::new("", ["", ""], rows).with_text([1])
    }

    fn objects(&self) -> (Value, Value) {
        let (rank, n_features) = (
            self.release.fitted.model.rank(),
            self.release.inputs.features.len(),
        );
        let object = match &self.release.by {
            SubspaceBy::Run(settings) => json!({
                "method": settings.method,
                "rank": rank,
                "steps": settings.n_steps(),
                "n_features": n_features,
            }),
            SubspaceBy::Nights(_, settings) => {
                json!({"nights": settings, "rank": rank, "n_features": n_features})
            }
        };
        let internal = json!({
            "metric": self.release.inputs.metric(),
            "trained_on": self.errors(false),
            "held_out": self.errors(true),
            "seconds": self.seconds,
            "n_users": self.users.len(),
            "n_rows": self.n_rows(),
        });
        (object, internal)
    }
}
