//! Errors by alpha and user: not covered by the guarantee.

use std::path::Path;

use dp_page::Table;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::evaluate::shown;
use crate::federated::{Convergence, Figures, UserFigures, alpha_name, alpha_value};
use crate::output::{ByRound, ChartData, Headline, RoundLine, Seconds};
use crate::personal::{Inputs, Task};

/// What was measured on held-out rows, of the private runs, of the same without noise, and of the users' own choices.
pub(super) struct Measured<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) alphas: &'a [f64],
    pub(super) chosen: usize,
    pub(super) users: &'a [UserFigures],
    pub(super) held_out: &'a [UserFigures],
    pub(super) convergence: Option<&'a Convergence>,
}

/// Names of what users make of the released trajectory, or of their own rows alone.
const OWN: [(&str, &str); 2] = [
    ("own choice", "users' own choice (free)"),
    ("own ridge", "own ridge (free, local)"),
];

impl Measured<'_> {
    pub(super) fn json(&self, seconds: &Seconds) -> Value {
        let held_out = (!self.held_out.is_empty()).then(|| {
            json!({
                "n_users": self.held_out.len(),
                "by_alpha": self.by_alpha(self.held_out),
                "own_choice": self.own(self.held_out, 0),
                "own_ridge": self.own(self.held_out, 1),
            })
        });
        json!({
            "metric": self.inputs.metric(),
            "by_alpha": self.by_alpha(self.users),
            "own_choice": self.own(self.users, 0),
            "own_ridge": self.own(self.users, 1),
            "held_out": held_out,
            "seconds": seconds,
            "n_users": self.users.len() + self.held_out.len(),
            "n_rows": self.n_rows(),
        })
    }

    fn by_alpha(&self, users: &[UserFigures]) -> Vec<Value> {
        let n = self.alphas.len();
        let of = |(at, &alpha): (usize, &f64)| {
            json!({
                "alpha": alpha_value(alpha),
                "private": self.figures(users, at),
                "no_noise": self.figures(users, n + at),
            })
        };
        self.alphas.iter().enumerate().map(of).collect()
    }

    fn figures(&self, users: &[UserFigures], at: usize) -> Figures {
        let name = self.alphas.get(at % self.alphas.len()).copied();
        let name = name.map_or_else(String::new, alpha_name);
        Figures::over(self.inputs, users, at, name)
    }

    /// The users' own choice, or their own ridge; of regression.
    fn own(&self, users: &[UserFigures], which: usize) -> Option<Figures> {
        let (at, name) = (2 * self.alphas.len() + which, OWN[which].0);
        (self.inputs.task == Task::Regression)
            .then(|| Figures::over(self.inputs, users, at, name.to_owned()))
    }

    /// Users trained on, and those held out where there are some.
    fn kinds(&self) -> impl Iterator<Item = (&'static str, &[UserFigures])> {
        let held_out = Some(self.held_out).filter(|users| !users.is_empty());
        let held_out = held_out.map(|users| (" of new users", users));
        [("", self.users)].into_iter().chain(held_out)
    }

    /// Figures with noise and without, of each kind of users below a line with its name.
    pub(super) fn table(&self) -> Table {
        let rows = self.kinds().flat_map(|(kind, users)| {
            let lines = self.lines_of(users).into_iter().map(both);
            let lines = lines.map(|(name, figures)| {
                let words =
                    |figure: Option<f64>| figure.map_or_else(String::new, |f| shown(Some(f)));
                [name]
                    .into_iter()
                    .chain(figures.into_iter().map(words))
                    .collect()
            });
            let metric = format!("{}{kind}", self.inputs.metric());
            let head = vec![metric, "private".to_owned(), "no noise".to_owned()];
            [head].into_iter().chain(lines).collect::<Vec<_>>()
        });
        Table::new("", ["", "", ""], rows)
    }

    /// A line for every alpha, with noise and without, and for what users make of their own rows.
    fn lines_of(&self, users: &[UserFigures]) -> Vec<(String, Vec<Option<f64>>)> {
        let n = self.alphas.len();
        let figure = |at| self.figures(users, at).over_rows;
        let of_alpha = |at: usize| (self.name_of(at), [at, n + at].map(figure).into());
        let own = OWN.into_iter().enumerate();
        let own = own.filter_map(|(which, (_, name))| {
            Some((name.to_owned(), vec![self.own(users, which)?.over_rows]))
        });
        (0..n).map(of_alpha).chain(own).collect()
    }

    /// Of an alpha, by its place.
    fn name_of(&self, at: usize) -> String {
        let mark = if at == self.chosen { ", chosen" } else { "" };
        format!("alpha {}{mark}", alpha_name(self.alphas[at]))
    }

    /// The figure after rounds, of the chosen alpha and of the others; none where no round of any has one.
    pub(super) fn by_round(&self) -> Option<ByRound> {
        let of = self.convergence?;
        let line = |at: usize| {
            let (name, values) = (self.name_of(at), of.line(at)?.to_vec());
            Some(RoundLine { name, values })
        };
        let released = line(self.chosen)?;
        let others = (0..self.alphas.len()).filter(|&at| at != self.chosen);
        let others: Vec<RoundLine> = others.filter_map(line).collect();
        let any = released.has_figures() || others.iter().any(RoundLine::has_figures);
        any.then(|| ByRound {
            metric: format!("{} on held-out rows", self.inputs.metric()),
            name: released.name,
            rounds: of.rounds(),
            values: released.values,
            others,
        })
    }

    /// The figure of the chosen alpha.
    pub(super) fn headline(&self) -> Option<Headline> {
        let over = |at| self.figures(self.users, at).over_rows;
        over(self.chosen).map(|value| Headline {
            metric: format!("{} on held-out rows", self.inputs.metric()),
            value,
            non_private: over(self.alphas.len() + self.chosen),
        })
    }

    /// The tables as charts, one for each kind of users.
    pub(super) fn charts(&self) -> Vec<ChartData> {
        let metric = self.inputs.metric();
        let chart = |(kind, users)| ChartData {
            title: format!("{metric}{kind} on held-out rows, by alpha"),
            note: "alpha 0 learns alone, alpha inf is one model for all".to_owned(),
            series: ["private", "no noise"].map(str::to_owned).into(),
            rows: self.lines_of(users).into_iter().map(both).collect(),
        };
        self.kinds().map(chart).collect()
    }

    pub(super) fn n_rows(&self) -> usize {
        let users = self.users.iter().chain(self.held_out);
        users.map(|user| user.n_history + user.n_test).sum()
    }

    /// One line a user: errors in the metric of the report.
    pub(super) fn user_table(&self) -> Result<Vec<u8>> {
        let users = self.users.iter().map(|user| (user, "0"));
        let users = users.chain(self.held_out.iter().map(|user| (user, "1")));
        let write = || {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(self.heads())?;
            for (user, held_out) in users {
                let fixed = [
                    user.id.clone(),
                    held_out.to_owned(),
                    user.n_history.to_string(),
                    user.n_test.to_string(),
                ];
                let figure = |error: f64| format!("{:.6}", self.inputs.figure(error));
                let errors = user.errors.iter();
                let errors = errors.map(|error| error.map(figure).unwrap_or_default());
                writer.write_record(fixed.into_iter().chain(errors))?;
            }
            writer.into_inner().map_err(|e| e.into_error().into())
        };
        write().map_err(|e: csv::Error| Error::model(Path::new("internal-users.csv"), e))
    }

    fn heads(&self) -> Vec<String> {
        let metric = self.inputs.metric().to_lowercase();
        let alphas = self.alphas.iter().copied().map(alpha_value);
        let names: Vec<String> = alphas.map(|a| a.to_string().replace('"', "")).collect();
        let fixed = ["user", "held_out", "history_rows", "test_rows"].map(str::to_owned);
        let private = names.iter().map(|name| format!("{metric} alpha {name}"));
        let without = names
            .iter()
            .map(|name| format!("{metric} alpha {name} no noise"));
        let own = OWN.map(|(name, _)| format!("{metric} {name}"));
        let own = own
            .into_iter()
            .filter(|_| self.inputs.task == Task::Regression);
        let models = private.chain(without).chain(own);
        fixed.into_iter().chain(models).collect()
    }
}

/// A line with a place for the figure without noise.
fn both((name, mut figures): (String, Vec<Option<f64>>)) -> (String, Vec<Option<f64>>) {
    figures.resize(2, None);
    (name, figures)
}
