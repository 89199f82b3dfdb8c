//! The files of `dp federate` at one epsilon, and its summary on the screen.

use std::borrow::Cow;
use std::path::Path;

use dp_accounting::Certificate;
use dp_fedsgd::SharedModel;
use dp_page::Table;
use dp_personalize::ModelPrior;
use serde_json::{Value, json};

use super::model_file::{SHARED, shared_bytes};
use super::personal_report::{CLASS_FIGURES, pooled, weight_chart};
use super::release::{counted, internal_of, user_csv};
use super::statement::fact;
use super::{ByRound, ChartData, Headline, InternalRun, Release, RoundLine, RunReport, Seconds};
use crate::error::{Error, Result};
use crate::evaluate::shown;
use crate::federated::{
    Convergence, DescribedItems, Figures, OWN_ROWS, RunSettings, UserFigures, alpha_name,
    alpha_value, users_choose,
};
use crate::personal::{ClassFigures, Inputs};
use crate::quality::{Metric, Outcome, Quality, TestedUser, Verdict};

/// The releases of a run.
pub(crate) struct FederatedRelease<'a> {
    pub(crate) certificate: Certificate,
    pub(crate) model: &'a SharedModel,
    /// The prior of users' own fits around it.
    pub(crate) prior: Option<&'a ModelPrior>,
    pub(crate) alphas: &'a [f64],
    /// Index of the chosen one.
    pub(crate) chosen: usize,
    pub(crate) inputs: &'a Inputs,
    /// For ratings: the data that users need to describe their own ratings.
    pub(crate) items: Option<&'a DescribedItems>,
    pub(crate) settings: &'a RunSettings,
    /// All public inputs that determined the run.
    pub(crate) run: &'a Value,
}

/// The rated items with their features, as used in training.
pub(crate) const ITEM_FEATURES: &str = "item-features.csv";

/// Names of users' personal models from the released trajectory, and from their own rows alone.
const OWN: [(&str, &str); 2] = [
    ("own choice", "users' own choice (free)"),
    ("own ridge", OWN_ROWS),
];
/// Index of the own choice on the run without noise, if users average over fits.
const OWN_WITHOUT_NOISE: usize = 2;
/// The mean of a user's labels, after all others.
const OWN_MEAN: &str = "own mean (free, local)";

impl FederatedRelease<'_> {
    fn alpha(&self) -> f64 {
        self.alphas[self.chosen]
    }

    /// All alphas, and the chosen one, in JSON form.
    fn alpha_values(&self) -> [Value; 2] {
        let alphas = self.alphas.iter().copied().map(alpha_value);
        [alphas.collect(), alpha_value(self.alpha())]
    }
}

impl Release for FederatedRelease<'_> {
    fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let shared = shared_bytes(
            self.model,
            (self.alpha(), self.prior),
            self.settings,
            self.inputs,
        )?;
        let mut files = vec![(SHARED, shared)];
        if let Some(items) = self.items {
            let failed = |e| Error::model(Path::new(ITEM_FEATURES), e);
            files.push((ITEM_FEATURES, items.csv().map_err(failed)?));
        }
        Ok(files)
    }

    fn command(&self) -> &'static str {
        "federate"
    }

    fn model_line(&self) -> String {
        let (n, rounds) = (self.inputs.features.len(), self.settings.n_rounds);
        let grid = match self.alphas.len() {
            1 => "the only alpha".to_owned(),
            n => format!("chosen from {n} within the budget"),
        };
        let alpha = alpha_name(self.alpha());
        format!("{n} features, alpha {alpha} ({grid}), {rounds} rounds per alpha")
    }

    fn settings(&self) -> Value {
        let [alphas, alpha] = self.alpha_values();
        json!({
            "alphas": alphas,
            "alpha": alpha,
            "rounds": self.settings,
            "inputs": self.inputs,
        })
    }

    fn public(&self) -> Option<&Value> {
        Some(self.run)
    }

    /// The shared coefficients; none at alpha 0, where nothing is shared. The prior of personal fits.
    fn charts(&self) -> Vec<ChartData> {
        let coefficients = self.inputs.names().zip(self.model.last());
        let shared = ChartData {
            title: "Shared coefficients".to_owned(),
            note: "the part of the model that all users share, for features as the models see them; each user adds a personal part, which stays with that user. They are where noisy gradient descent from zero is after the last round, not estimates of common effects, and have no standard errors".to_owned(),
            series: vec!["shared".to_owned()],
            rows: coefficients.map(|(name, w)| (name, vec![Some(*w)])).collect(),
            standard_errors: Vec::new(),
        };
        let is_shared = self.model.last().iter().any(|w| *w != 0.0);
        let shared = is_shared.then_some(shared);
        let prior = self.prior.into_iter().flat_map(prior_charts);
        shared.into_iter().chain(prior).collect()
    }
}

/// The prior weights of personal fits, as far as they can be told apart.
fn prior_charts(prior: &ModelPrior) -> [ChartData; 2] {
    let names = ["none of the shared model", "half of it", "all of it"].map(str::to_owned);
    [
        weight_chart(
            "Use of the shared model in personal fits",
            "prior weights, which users' own rows then change, and not a finding about the data: from noisy sums over users of how likely \
             their rows make each"
                .to_owned(),
            names
                .into_iter()
                .zip(prior.weights().iter().copied())
                .collect(),
        ),
        weight_chart(
            "Variance that a user's own part explains",
            "prior weights of the share of what the shared model leaves unexplained that a user's own coefficients explain, in fits that \
             have some; for classes of the variance of logits"
                .to_owned(),
            pooled(prior.explained()),
        ),
    ]
}

/// All results of a run, with released and internal parts kept separate.
pub(crate) struct FederatedReport<'a> {
    pub(crate) release: &'a FederatedRelease<'a>,
    /// Errors of the private runs, of the same runs without noise, and of the users' own choices.
    pub(crate) users: Vec<UserFigures>,
    /// The same for held-out users.
    pub(crate) held_out: Vec<UserFigures>,
    /// The error after rounds of the private runs.
    pub(crate) convergence: Option<&'a Convergence>,
    pub(crate) n_left_out: usize,
    pub(crate) seconds: Seconds,
}

impl FederatedReport<'_> {
    const fn inputs(&self) -> &Inputs {
        self.release.inputs
    }

    const fn alphas(&self) -> &[f64] {
        self.release.alphas
    }

    fn by_alpha(&self, users: &[UserFigures]) -> Vec<Value> {
        let n = self.alphas().len();
        let of = |(at, &alpha): (usize, &f64)| {
            json!({
                "alpha": alpha_value(alpha),
                "private": self.figures(users, at),
                "no_noise": self.figures(users, n + at),
            })
        };
        self.alphas().iter().enumerate().map(of).collect()
    }

    fn figures(&self, users: &[UserFigures], at: usize) -> Figures {
        let name = self.alphas().get(at % self.alphas().len()).copied();
        let name = name.map_or_else(String::new, alpha_name);
        Figures::over(self.inputs(), users, at, name)
    }

    /// The users' own choice, or a model from their own rows alone.
    fn own(&self, users: &[UserFigures], which: usize) -> Option<Figures> {
        let at = 2 * self.alphas().len() + which;
        let name = OWN.get(which).map_or("own choice, no noise", |own| own.0);
        let is_there = match which {
            OWN_WITHOUT_NOISE => self.inputs().users_weigh(),
            _ => users_choose(self.inputs()),
        };
        is_there.then(|| Figures::over(self.inputs(), users, at, name.to_owned()))
    }

    /// Training users, and held-out users if there are any.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &[UserFigures])> {
        let held_out = Some(&self.held_out[..]).filter(|users| !users.is_empty());
        let held_out = held_out.map(|users| (" of new users", users));
        [("", &self.users[..])].into_iter().chain(held_out)
    }

    /// A line for every alpha, with noise and without, and one for models trained only on each
    /// user's own rows.
    fn lines_of(&self, users: &[UserFigures]) -> Vec<FiguresLine> {
        let n = self.alphas().len();
        let of_alpha = |at: usize| FiguresLine {
            name: self.name_of(at),
            private: self.figures(users, at),
            no_noise: self.figures(users, n + at).over_rows,
        };
        let own = OWN.into_iter().enumerate();
        let own = own.filter_map(|(which, (_, name))| {
            let exact = (which == 0).then(|| self.own(users, OWN_WITHOUT_NOISE));
            Some(FiguresLine {
                name: name.to_owned(),
                private: self.own(users, which)?,
                no_noise: exact.flatten().and_then(|figures| figures.over_rows),
            })
        });
        (0..n).map(of_alpha).chain(own).collect()
    }

    /// Name of an alpha, by its index.
    fn name_of(&self, at: usize) -> String {
        let mark = if at == self.release.chosen {
            ", chosen"
        } else {
            ""
        };
        format!("alpha {}{mark}", alpha_name(self.alphas()[at]))
    }

    /// The metric after rounds, for the chosen alpha and the others; none if no round of any has
    /// one.
    fn by_round(&self) -> Option<ByRound> {
        let of = self.convergence?;
        let line = |at: usize| {
            let (name, values) = (self.name_of(at), of.line(at)?.to_vec());
            Some(RoundLine { name, values })
        };
        let released = line(self.release.chosen)?;
        let others = (0..self.alphas().len()).filter(|&at| at != self.release.chosen);
        let others: Vec<RoundLine> = others.filter_map(line).collect();
        let any = released.has_figures() || others.iter().any(RoundLine::has_figures);
        any.then(|| ByRound {
            metric: format!("{} on held-out rows", self.inputs().metric()),
            name: released.name,
            rounds: of.rounds(),
            values: released.values,
            others,
        })
    }

    /// The metric of users' personal models from the released model: their own choice if they
    /// average over fits, otherwise that of the chosen alpha.
    fn headline(&self) -> Option<Headline> {
        let over = |at| self.figures(&self.users, at).over_rows;
        let own = |which| self.own(&self.users, which)?.over_rows;
        let (value, non_private) = if self.inputs().users_weigh() {
            (own(0), own(OWN_WITHOUT_NOISE))
        } else {
            let chosen = self.release.chosen;
            (over(chosen), over(self.alphas().len() + chosen))
        };
        value.map(|value| Headline {
            metric: format!("{} on held-out rows", self.inputs().metric()),
            value,
            interval: self.interval().map(|ends| self.inputs().interval(ends)),
            non_private,
        })
    }

    /// Rows of class metrics: users' own choice, with and without noise, and own rows alone.
    fn class_lines(&self, users: &[UserFigures]) -> Vec<Vec<String>> {
        let own = |which| self.own(users, which)?.classes;
        let [chosen, alone, exact] = [own(0), own(1), own(OWN_WITHOUT_NOISE)];
        let shown_of = |of: Option<ClassFigures>, figure: fn(&ClassFigures) -> Option<f64>| {
            of.as_ref().map_or_else(String::new, |of| shown(figure(of)))
        };
        let lines = CLASS_FIGURES.into_iter().filter(|_| chosen.is_some());
        let lines = lines.flat_map(|(name, figure)| {
            let [choice, own] = OWN.map(|own| format!("{name}, {}", own.1));
            [
                vec![
                    choice,
                    shown_of(chosen, figure),
                    shown_of(exact, figure),
                    String::new(),
                ],
                vec![own, shown_of(alone, figure), String::new(), String::new()],
            ]
        });
        lines.collect()
    }

    /// The tables as charts, one for each kind of users.
    fn charts(&self) -> Vec<ChartData> {
        let metric = self.inputs().metric();
        let chart = |(kind, users)| ChartData {
            title: format!("{metric}{kind} on held-out rows, by alpha"),
            note: "alpha 0: each user learns alone; alpha inf: one model for all users".to_owned(),
            series: ["private", "no noise"].map(str::to_owned).into(),
            rows: (self.lines_of(users).into_iter())
                .map(|line| (line.name, vec![line.private.over_rows, line.no_noise]))
                .collect(),
            standard_errors: Vec::new(),
        };
        self.kinds().map(chart).collect()
    }

    fn n_rows(&self) -> usize {
        let users = self.users.iter().chain(&self.held_out);
        users.map(|user| user.n_history + user.n_test).sum()
    }

    /// Column names of a user's errors.
    fn heads(&self) -> Vec<String> {
        let (metric, alphas) = (self.inputs().metric().to_lowercase(), self.alphas());
        let alphas = alphas.iter().copied().map(alpha_value);
        let names: Vec<String> = alphas.map(|a| a.to_string().replace('"', "")).collect();
        let private = names.iter().map(|name| format!("{metric} alpha {name}"));
        let without = names
            .iter()
            .map(|name| format!("{metric} alpha {name} no noise"));
        let own = OWN.map(|(name, _)| format!("{metric} {name}"));
        let own = own.into_iter().filter(|_| users_choose(self.inputs()));
        let exact = self.inputs().users_weigh();
        let exact = exact.then(|| format!("{metric} own choice no noise"));
        let mean = users_choose(self.inputs()).then(|| format!("{metric} own mean"));
        let all = private.chain(without).chain(own).chain(exact);
        all.chain(mean).collect()
    }
}

impl RunReport for FederatedReport<'_> {
    fn release(&self) -> &impl Release {
        self.release
    }

    fn internal(&self) -> InternalRun {
        InternalRun {
            headline: self.headline(),
            by_round: self.by_round(),
            charts: self.charts(),
            data: counted([
                ("users", self.users.len()),
                ("users held out", self.held_out.len()),
                ("rows trained or tested on", self.n_rows()),
                ("rows left out: NaN or infinite", self.n_left_out),
            ]),
            ..internal_of(self.release, self.seconds)
        }
    }

    /// What a grid can be replaced by, if released metrics do not show that it was worth its budget.
    fn facts(&self) -> Vec<(String, String)> {
        let n_runs = self.alphas().iter().filter(|alpha| **alpha > 0.0).count();
        let run = self.release.run();
        let metrics = &self.release.certificate.metrics;
        let verdict = run.metric_release().and_then(|of| of.verdict(metrics));
        let is_better = |of: &Verdict| of.outcome == Outcome::Better;
        let text = format!(
            "the budget was divided among {n_runs} runs, and released metrics do not show that they beat own rows alone: a single alpha has the whole \
             budget, as with --alpha-grid inf --rounds 100"
        );
        let is_told = n_runs > 1 && verdict.is_some_and(|verdict| !is_better(&verdict));
        is_told.then(|| fact("", text)).into_iter().collect()
    }

    /// For training users, with their own choice if they average over fits, otherwise with the
    /// chosen alpha. The baselines are users' own means, models from their own rows alone, and the
    /// released model for all users if there is one.
    fn quality(&self) -> Option<Cow<'_, Quality>> {
        let (inputs, n) = (self.inputs(), self.alphas().len());
        let model = match inputs.users_weigh() {
            true => (2 * n, OWN[0].1.to_owned()),
            false => (self.release.chosen, self.name_of(self.release.chosen)),
        };
        let own = users_choose(inputs).then(|| (2 * n + 1, OWN[1].1.to_owned()));
        let alone = self.alphas().iter().position(|alpha| *alpha <= 0.0);
        let alone = alone.filter(|at| *at != model.0);
        let alone = alone.map(|at| (at, "alpha 0 (free, local)".to_owned()));
        let mean = users_choose(inputs).then(|| {
            let exact = usize::from(inputs.users_weigh());
            (2 * n + OWN.len() + exact, OWN_MEAN.to_owned())
        });
        let one = self.alphas().iter().position(|alpha| alpha.is_infinite());
        let one = one.filter(|at| *at != model.0);
        let one = one.map(|at| (at, format!("alpha {}", alpha_name(f64::INFINITY))));
        let methods = [Some(model), own, mean, alone, one].into_iter().flatten();
        let (places, names): (Vec<usize>, Vec<String>) = methods.unzip();
        let users = self.users.iter().map(|user| TestedUser {
            n_history: user.n_history,
            n_test: user.n_test,
            errors: places.iter().map(|&at| *user.errors.get(at)?).collect(),
            scores: places.iter().map(|&at| user.scores.get(at)).collect(),
        });
        let users: Vec<_> = users.collect();
        let metrics = Metric::of_task(inputs.task);
        let mut quality = Quality::of_rows(metrics, &names, &users);
        let others = (0..n).filter(|at| !places.contains(at));
        quality.others = others
            .flat_map(|at| {
                Figures::scored(inputs, &self.users, at, self.name_of(at)).rows("", None)
            })
            .collect();
        Some(Cow::Owned(quality))
    }

    fn user_table(&self) -> Result<Option<Vec<u8>>> {
        let users = self.users.iter().map(|user| (user, false));
        let users = users.chain(self.held_out.iter().map(|user| (user, true)));
        let users = users.map(|(user, held_out)| {
            let rows = [user.n_history, user.n_test];
            (user.id.as_str(), held_out, rows, &user.errors[..])
        });
        user_csv(self.heads(), users, |error| self.inputs().figure(error)).map(Some)
    }

    /// Metrics with and without noise, with a heading for each kind of users.
    fn table(&self) -> Table {
        let rows = self.kinds().flat_map(|(kind, users)| {
            let lines = self.lines_of(users).into_iter().map(FiguresLine::cells);
            let metric = format!("{}{kind}", self.inputs().metric());
            let heads = ["private", "no noise", "95 % interval, private"];
            let head = [metric].into_iter().chain(heads.map(str::to_owned));
            let head = head.collect();
            let classes = self.class_lines(users);
            [head]
                .into_iter()
                .chain(lines)
                .chain(classes)
                .collect::<Vec<_>>()
        });
        Table::new("", ["", "", "", ""], rows)
    }

    fn objects(&self) -> (Value, Value) {
        let [alphas, alpha] = self.release.alpha_values();
        let held_out = (!self.held_out.is_empty()).then(|| {
            json!({
                "n_users": self.held_out.len(),
                "by_alpha": self.by_alpha(&self.held_out),
                "own_choice": self.own(&self.held_out, 0),
                "own_ridge": self.own(&self.held_out, 1),
                "own_choice_no_noise": self.own(&self.held_out, OWN_WITHOUT_NOISE),
            })
        });
        let internal = json!({
            "metric": self.inputs().metric(),
            "by_alpha": self.by_alpha(&self.users),
            "own_choice": self.own(&self.users, 0),
            "own_ridge": self.own(&self.users, 1),
            "own_choice_no_noise": self.own(&self.users, OWN_WITHOUT_NOISE),
            "held_out": held_out,
            "seconds": self.seconds,
            "n_users": self.users.len() + self.held_out.len(),
            "n_rows": self.n_rows(),
        });
        let object = json!({
            "alphas": alphas,
            "alpha": alpha,
            "rounds": self.release.settings.n_rounds,
            "n_features": self.inputs().features.len(),
        });
        (object, internal)
    }
}

/// Metrics of one model on the test rows, with noise and without.
struct FiguresLine {
    name: String,
    private: Figures,
    no_noise: Option<f64>,
}

impl FiguresLine {
    /// Name, figure, figure without noise, and the interval of the former.
    fn cells(self) -> Vec<String> {
        let words = |figure: Option<f64>| figure.map_or_else(String::new, |f| shown(Some(f)));
        let interval = self.private.interval.map_or_else(String::new, |ends| {
            let [lower, upper] = ends.map(|end| shown(Some(end)));
            format!("{lower} to {upper}")
        });
        vec![
            self.name,
            words(self.private.over_rows),
            words(self.no_noise),
            interval,
        ]
    }
}
