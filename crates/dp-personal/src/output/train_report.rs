//! Output of a run of `dp train` or `dp tune`, and its summary on the screen.

use std::borrow::Cow;

use dp_accounting::Certificate;
use dp_data::Ratings;
use dp_multitask::{
    FactorModel, FactorizationParams, Feedback, Fitted, NoisyCounts, RatingScale, ScoreModel,
    TasteVotes,
};
use dp_page::{Table, short};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::release::{counted, internal_of, released_of, user_csv};
use super::statement::fact;
use super::{
    ByRound, HeldOutBy, InternalRun, Release, ReleasedRun, RunReport, Seconds, model_files,
};
use crate::error::Result;
use crate::evaluate::{Evaluation, Figures};
use crate::prior::PRIOR;
use crate::quality::{Quality, Scored};
use crate::report::Model;
use crate::settings::Method;
use crate::warnings;

/// Why a model has no learned taste factors, and what follows for its users.
pub(crate) const fn no_tastes(model: &FactorModel) -> &'static str {
    match model.scoring().n_effects {
        0 if model.scoring().unobserved_weight.is_some() => {
            "This model ranks items by popularity and has no taste factors, so every user gets the same ranking"
        }
        0 => {
            "Too little data for taste factors at this epsilon: only item biases were learned, so every user gets the same ranking"
        }
        _ => {
            "Too little data for taste factors at this epsilon: only item biases were learned, and users differ only in how much they follow them and like popular items"
        }
    }
}

/// The number of items with taste factors.
fn learned_items(model: &FactorModel) -> usize {
    let rows = model.item_factors().chunks_exact(model.dim());
    rows.filter(|row| row[1..].iter().any(|q| *q != 0.0))
        .count()
}

/// Settings of a run, for its report.
pub(crate) trait TrainSettings: Serialize {
    fn n_rounds(&self) -> usize;

    /// Whether a rule, not the operator, chose the dimension of the factors.
    fn dim_by_rule(&self) -> bool;

    /// How many of `n_items` items are learned, if not all of them.
    fn n_head(&self, _n_items: usize, _counts: Option<&NoisyCounts>) -> Option<usize> {
        None
    }

    /// The bound on labels, if they are ratings.
    fn label_bound(&self) -> Option<f64> {
        None
    }

    /// The assumed range of ratings.
    fn rating_range(&self) -> Option<[f64; 2]> {
        None
    }

    /// Whether `model` uses item counts instead of taste factors.
    fn ranks_by_popularity(&self, _model: &FactorModel) -> bool {
        false
    }

    /// The command that trained it.
    fn command(&self) -> &'static str {
        "train"
    }

    /// Name of the method that computed the factors.
    fn made_by(&self, method: Method) -> String {
        format!("{} rounds, method `{}`", self.n_rounds(), method.name())
    }

    /// Files of the model in addition to factors and catalogue: names and bytes.
    fn more_files(&self) -> Vec<(&'static str, Vec<u8>)> {
        Vec::new()
    }
}

impl TrainSettings for FactorizationParams {
    fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    fn dim_by_rule(&self) -> bool {
        self.dim.is_none()
    }

    fn n_head(&self, n_items: usize, counts: Option<&NoisyCounts>) -> Option<usize> {
        Self::n_head(self, n_items, counts)
    }

    fn label_bound(&self) -> Option<f64> {
        let is_rated = matches!(self.feedback, Feedback::Explicit);
        is_rated.then_some(self.label_bound)
    }

    fn rating_range(&self) -> Option<[f64; 2]> {
        let half = 2.0 * TrainSettings::label_bound(self)?;
        Some([self.label_center - half, self.label_center + half])
    }

    fn ranks_by_popularity(&self, model: &FactorModel) -> bool {
        // popularity is an item bias, and scores without biases have none
        let is_plain = |of: ScoreModel| of == ScoreModel::Plain;
        is_plain(self.score_model) && !is_plain(model.scoring().score_model)
    }
}

/// Model, certificate and released values of `dp train` or `dp tune`.
pub(crate) struct TrainRelease<'a, S = FactorizationParams> {
    pub(crate) fitted: &'a Fitted<FactorModel>,
    pub(crate) method: Method,
    pub(crate) params: &'a S,
    pub(crate) ratings: &'a Ratings,
    pub(crate) held_out: HeldOutBy,
    /// The comparison, if settings were chosen within the budget.
    pub(crate) comparison: Option<Comparison>,
    /// The prior of the items, if there was one.
    pub(crate) prior: Option<Vec<u8>>,
    /// All public inputs that determined the run, if it stored its release list.
    pub(crate) run: Option<&'a Value>,
}

impl<S: TrainSettings> Release for TrainRelease<'_, S> {
    fn certificate(&self) -> &Certificate {
        &self.fitted.certificate
    }

    fn files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let files = model_files(&self.fitted.model, self.ratings.catalogue())?;
        let prior = self.prior.clone().map(|bytes| (PRIOR, bytes));
        Ok(files
            .into_iter()
            .chain(self.params.more_files())
            .chain(prior)
            .collect())
    }

    fn command(&self) -> &'static str {
        match self.comparison {
            Some(_) => "tune",
            None => self.params.command(),
        }
    }

    fn model_line(&self) -> String {
        let model = &self.fitted.model;
        let plain = model.scoring().score_model == ScoreModel::Plain;
        let tastes = match model.n_tastes() {
            1 => "1 taste".to_owned(),
            n => format!("{n} tastes"),
        };
        let length = match (model.n_tastes(), model.scoring().n_effects) {
            _ if plain => tastes,
            (0, 0) => "item bias only".to_owned(),
            (_, 0) => format!("item bias and {tastes}"),
            (0, n) => format!("item bias and {n} global effects"),
            (_, n) => format!("item bias, {tastes} and {n} global effects"),
        };
        let (n_items, n_rounds) = (model.n_items(), self.params.n_rounds());
        let head = match self.params.n_head(n_items, model.counts()) {
            Some(n_head) => format!(" for the {n_head} with the largest noisy counts"),
            None => String::new(),
        };
        let head = match learned_items(model) {
            n if model.is_of_cooccurrences() && n < n_items => {
                format!(" for the {n} with the largest noisy counts")
            }
            _ => head,
        };
        let source = match model.is_of_cooccurrences() {
            true => ", from co-occurrences of likes",
            false => "",
        };
        if n_rounds == 0 {
            return format!("{n_items} items, ranked by their released counts");
        }
        if self.params.ranks_by_popularity(model) {
            return format!(
                "{n_items} items, ranked by popularity: released counts, refined in {n_rounds} rounds"
            );
        }
        format!(
            "{n_items} items, factors of length {} ({length}){head}{source}, {}",
            model.dim(),
            self.params.made_by(self.method)
        )
    }

    fn settings(&self) -> Value {
        let mut settings = json!(self.params);
        self.held_out.put(&mut settings);
        settings
    }

    fn public(&self) -> Option<&Value> {
        self.run
    }

    fn factors(&self) -> Option<Model<'_>> {
        let items = self.ratings.catalogue();
        Some((Cow::Borrowed(&self.fitted.model), Cow::Borrowed(items)))
    }

    fn run(&self) -> ReleasedRun {
        ReleasedRun {
            counts: self.fitted.model.counts().cloned(),
            comparison: self.comparison.clone(),
            rating_scale: self.fitted.model.scale().copied(),
            prior_votes: self.fitted.model.prior_votes().copied(),
            taste_votes: self.fitted.model.taste_votes().copied(),
            ..released_of(self)
        }
    }
}

/// All results of a run, with released and internal parts kept separate.
pub(crate) struct TrainReport<'a, S = FactorizationParams> {
    pub(crate) release: &'a TrainRelease<'a, S>,
    pub(crate) metrics: Evaluation,
    pub(crate) by_round: Option<ByRound>,
    pub(crate) seconds: Seconds,
}

impl<S> TrainReport<'_, S> {
    /// Whether users were held out, instead of ratings of every user.
    const fn is_of_lists(&self) -> bool {
        matches!(self.metrics.figures, Figures::Ranking(_))
    }
}

impl<S: TrainSettings> RunReport for TrainReport<'_, S> {
    fn release(&self) -> &impl Release {
        self.release
    }

    fn internal(&self) -> InternalRun {
        let table = self.release.ratings.interactions().expose();
        let summary = self.release.ratings.summary().expose();
        // a learned scale describes where most ratings are, not where they end
        let is_learnt = |scale: &RatingScale| scale.is_learnt();
        let is_learnt = self.release.fitted.model.scale().is_some_and(is_learnt);
        let ranged = self.release.params.rating_range().filter(|_| !is_learnt);
        let ranged = ranged.map(|[low, high]| {
            let ratings = table.users().flat_map(|row| row.values());
            let outside = ratings.filter(|y| warnings::is_outside(**y, [low, high]));
            (
                format!("ratings outside {low} to {high}"),
                outside.count() as u64,
            )
        });
        InternalRun {
            headline: self.metrics.headline(),
            metrics: self.metrics.figures(),
            by_round: self.by_round.clone(),
            recall_curve: self.metrics.recall_curve(),
            charts: self.metrics.charts(),
            data: counted([
                ("users", table.n_users()),
                ("ratings kept", table.n_records()),
                ("ratings read", summary.n_read),
                ("outside the catalogue", summary.n_outside_catalogue),
                ("NaN or infinite, left out", summary.dropped.not_finite),
                (
                    "repeated pairs, replaced by the later record",
                    summary.dropped.repeated,
                ),
            ])
            .into_iter()
            .chain(ranged)
            .collect(),
            ..internal_of(self.release, self.seconds)
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let release = self.release;
        let by_rule = release.params.dim_by_rule() && release.fitted.model.n_tastes() == 0;
        let reason = fact(
            "",
            format!(
                "{}. More users or a larger epsilon would allow them; --dim 3 learns two anyway, which may be mostly noise (dp tune can compare)",
                no_tastes(&release.fitted.model)
            ),
        );
        let comparison = release.comparison.as_ref();
        let scale = release.fitted.model.scale().map(scale_facts);
        let model = &release.fitted.model;
        let votes = votes_facts(model.prior_votes(), model.taste_votes());
        let counts = release.fitted.model.counts();
        let noise = counts.and_then(warnings::of_counts);
        let facts = by_rule.then_some(reason).into_iter();
        facts
            .chain(noise.map(|text| fact("warning", text)))
            .chain(votes)
            .chain(scale.into_iter().flatten())
            .chain(comparison.into_iter().flat_map(Comparison::facts))
            .collect()
    }

    fn quality(&self) -> Option<Cow<'_, Quality>> {
        Some(Cow::Borrowed(&self.metrics.quality))
    }

    /// A user's own means of every metric, by method.
    fn user_table(&self) -> Result<Option<Vec<u8>>> {
        let (quality, ratings) = (&self.metrics.quality, self.release.ratings);
        let all = || quality.scored.iter();
        let methods = |of: &'_ Scored| -> Vec<String> {
            let named = of.methods.iter();
            let name = of.metric.name();
            named
                .map(|(method, _)| format!("{name} {method}"))
                .collect()
        };
        let ids = ratings.user_ids().expose().iter().enumerate();
        let users: Vec<_> = ids
            .filter_map(|(user, id)| {
                let own = all().flat_map(|of| {
                    of.methods.iter().map(move |(_, users)| {
                        let mean = users.get(user)?.mean();
                        mean.map(|mean| of.metric.of(mean))
                    })
                });
                let own: Vec<Option<f64>> = own.collect();
                own.iter().any(Option::is_some).then(|| {
                    let history = quality.activity.get(user).copied().unwrap_or(0);
                    let whole = ratings.interactions().expose().user(user).len();
                    (id.as_str(), [history, whole - history.min(whole)], own)
                })
            })
            .collect();
        let rows = users.iter();
        let rows = rows.map(|(id, rows, own)| (*id, self.is_of_lists(), *rows, &own[..]));
        user_csv(all().flat_map(methods), rows, |value| value).map(Some)
    }

    fn table(&self) -> Table {
        let rows = self.metrics.rows().into_iter();
        let table = Table::new("", ["", ""], rows.map(|(name, value)| vec![name, value]));
        table.with_text([1])
    }

    fn objects(&self) -> (Value, Value) {
        let release = self.release;
        let table = release.ratings.interactions().expose();
        let comparison = release.comparison.as_ref();
        let comparison = comparison.map(|comparison| json!({ "comparison": comparison }));
        let object = json!({
            "method": release.method.name(),
            "dim": release.fitted.model.dim(),
            "steps": release.params.n_rounds(),
            "n_items": release.fitted.model.n_items(),
            "rating_scale": release.fitted.model.scale(),
            "prior_votes": release.fitted.model.prior_votes(),
            "taste_votes": release.fitted.model.taste_votes(),
            "released": comparison,
        });
        let internal = json!({
            "metrics": self.metrics.figures,
            "seconds": self.seconds,
            "n_users": table.n_users(),
            "n_ratings": table.n_records(),
        });
        (object, internal)
    }
}

/// Share of ratings far from their user's mean above which the report mentions that they are
/// clipped.
const MANY: f64 = 0.05;

/// The released outcomes of the users' votes on the taste factors of a prior and on learned ones.
pub(crate) fn votes_facts(
    of_prior: Option<&TasteVotes>,
    of_tastes: Option<&TasteVotes>,
) -> impl Iterator<Item = (String, String)> + use<> {
    let outcome = |votes: &TasteVotes, otherwise: &str| {
        let TasteVotes {
            sum,
            noise_stddev,
            needed,
            kept,
        } = votes;
        let outcome = if *kept { "kept" } else { otherwise };
        format!("{sum:.0} \u{b1} {noise_stddev:.0} ({outcome}; needs more than {needed:.0})")
    };
    let not_used = "not kept, its columns inform item biases";
    let of_prior = of_prior.map(|votes| {
        let outcome = outcome(votes, not_used);
        fact(
            "prior",
            format!("users voted on its taste factors: {outcome}"),
        )
    });
    let of_tastes = of_tastes.map(|votes| {
        let outcome = outcome(votes, "not kept");
        fact(
            "tastes",
            format!("users voted on the taste factors that were learned: {outcome}"),
        )
    });
    of_prior.into_iter().chain(of_tastes)
}

/// Facts about the released scale of ratings.
fn scale_facts(scale: &RatingScale) -> Vec<(String, String)> {
    let (center, unit) = (short(scale.center), short(scale.unit));
    let mut facts = Vec::new();
    let learnt = match (scale.center_is_learnt, scale.unit_is_learnt) {
        (true, true) => format!(
            "learned: mean rating {center}, standard deviation {unit} around each user's mean"
        ),
        (true, false) => format!("learned: mean rating {center}"),
        (false, true) => format!("learned: standard deviation {unit} around each user's mean"),
        (false, false) => String::new(),
    };
    if scale.is_learnt() {
        facts.push(fact("scale", learnt));
    }
    if scale.is_out_of_reach {
        let head = if facts.is_empty() { "scale" } else { "" };
        let text = "WARNING: most ratings are too large for any scale that can be learned (more than 4,096 from their user's mean, or means beyond \
                    131,072) and were clipped. Subtract a public constant from all of them, or divide by one, and train again";
        facts.push(fact(head, text.to_owned()));
    }
    if scale.has_long_tails {
        let text =
            "long-tailed distribution: amounts or counts train better on a logarithmic scale";
        facts.push(fact("", text.to_owned()));
    }
    if let Some([share, noise]) = scale
        .share_far
        .filter(|[share, noise]| share - 2.0 * noise > MANY)
    {
        let far = short(8_f64.sqrt() * scale.unit);
        let (share, noise) = (100.0 * share, 100.0 * noise);
        let head = if facts.is_empty() { "scale" } else { "" };
        let text = format!(
            "about {share:.0} % of the ratings (noise {noise:.0}) are more than {far} from their user's mean and are clipped"
        );
        facts.push(fact(head, text));
    }
    facts
}

/// The candidates of `dp tune` and the values released about them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Comparison {
    /// The candidates as given.
    pub(crate) candidates: Vec<String>,
    /// Released scores; the smallest is the best.
    pub(crate) scores: Vec<f64>,
    /// Noise in each of them.
    pub(crate) noise_stddev: f64,
    /// Index of the chosen one, from 0.
    pub(crate) chosen: usize,
}

impl Comparison {
    /// Names and values for the terminal, one per candidate.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let scored = self.candidates.iter().zip(&self.scores).enumerate();
        let mut facts: Vec<_> = scored
            .map(|(at, (name, score))| {
                let head = if at == 0 { "candidates" } else { "" };
                let mark = if at == self.chosen { "  <- chosen" } else { "" };
                fact(head, format!("{name}: {score:+.1}{mark}"))
            })
            .collect();
        let noise = self.noise_stddev;
        let words = format!(
            "excess loss of each candidate, released with noise of standard deviation {noise:.1}"
        );
        facts.push(fact("", words));
        facts
    }
}
