//! Settings of the workflows on ratings: train, tune, audit, evaluate and recommend.

use std::path::{Path, PathBuf};

use dp_core::{ApproxDp, Scratch, params};
use dp_data::{ColumnRole, RatingsColumns, RatingsFormat, TableSource};
use dp_mechanism::NoiseSource;
use dp_multitask::FactorizationParams;

use crate::columns::refuse_shared;
use crate::error::{Error, Result};
use crate::output::folder_of;

use super::{LedgerSettings, Range, Settings, Shapes, choices, settings};

choices! {
    /// How the item factors are trained.
    enum Method {
        /// The default: [`Pooled`](Self::Pooled), which for ratings learns only item biases if
        /// released statistics show too little signal for taste factors.
        Auto = "auto",
        /// One noisy matrix for all items.
        Pooled = "pooled",
        /// One noisy matrix for each item.
        Adadpals = "adadpals",
        /// With public features of items.
        AmSsp = "am-ssp",
        /// For ratings: item biases alone, with the whole budget.
        Biases = "biases",
        /// For implicit feedback: item counts alone, with the whole budget.
        Popularity = "popularity",
    }

    /// Components of a score.
    enum ScoreModelName {
        /// An item bias in addition to the factors.
        Biased = "biased",
        /// The factors alone.
        Plain = "plain",
    }

    /// The meaning of a record.
    enum FeedbackKind {
        /// A value to predict.
        Explicit = "explicit",
        /// A positive.
        Implicit = "implicit",
    }

    /// The value by which items are ranked.
    enum RankBy {
        /// The predicted rating or score.
        Score = "score",
        /// The lower end of its 95 % interval.
        Lower = "lower",
    }

    /// What is held out.
    enum SplitKind {
        /// Ratings of every user.
        Ratings = "ratings",
        /// Users.
        Users = "users",
    }
}

settings! {
    /// A training run on ratings.
    struct TrainSettings {
        /// Ratings: a table with user, item and rating (csv, tsv, MovieLens, ...; gzip too)
        ratings: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// Method and guarantee.
        target: TargetSettings = flatten,
        /// What is in the file.
        input: InputSettings = flatten,
        /// Whether the records stay on disk.
        memory: MemorySettings = flatten,
        /// What records mean.
        feedback: FeedbackSettings = flatten,
        /// What is publicly known of items.
        features: FeatureSettings = flatten,
        /// What others know of them.
        prior: PriorSettings = flatten,
        /// Settings of the method.
        settings: FactorSettings = flatten,
        /// Where the privacy loss is recorded.
        ledger: LedgerSettings = flatten,
        /// Where an interrupted run goes on from.
        resume: ResumeSettings = flatten,
        /// What is held out.
        split: SplitSettings = flatten,
        /// What the run leaves behind.
        output: OutputSettings = flatten,
    }

    /// The method, and the required guarantee.
    struct TargetSettings {
        /// auto, pooled, adadpals, am-ssp (features), biases or popularity
        method: Method = { default: "auto" },
        /// The guarantee that it is to have.
        guarantee: GuaranteeSettings = flatten,
    }

    /// The required guarantee of a run.
    struct GuaranteeSettings {
        /// Privacy target epsilon (nats), for adding or removing one user
        epsilon: f64 = { value_name: "E", range: Range::above(0.0) },
        /// Privacy target delta; choose it well below one over the number of users
        delta: f64 = { value_name: "D", range: Range::open_unit() },
    }

    /// What is in the file of ratings.
    struct InputSettings under "Input" {
        /// Public catalogue of items, each once; ratings of other items are left out
        items: Option<PathBuf> = {
            value_name: "CATALOGUE",
            requires: ["ratings"],
            shapes: Shapes::ByContents,
        },
        /// Publish all item ids of the ratings instead of `items`
        item_ids_are_public: bool = { conflicts: ["items"] },
        /// Columns of the ratings.
        columns: RatingColumnSettings = flatten,
    }

    /// Records that do not fit into memory.
    struct MemorySettings under "Input" {
        /// Keep ratings on disk, about SIZE (4GB) of them in memory
        memory: Option<String> = { value_name: "SIZE", usual: "all in memory", shapes: Shapes::Nothing },
        /// Folder for ratings that are kept on disk
        scratch: Option<PathBuf> = { value_name: "DIR", usual: "the folder of the output", requires: ["memory"], shapes: Shapes::Nothing },
    }

    /// The meaning of the records.
    struct FeedbackSettings under "Feedback" {
        /// explicit (values to predict) or implicit (positive only)
        feedback: FeedbackKind = { value_name: "KIND", default: "explicit" },
        /// Implicit feedback: lowest rating that counts as positive
        min_rating: Option<f64> = { value_name: "X", usual: "all ratings" },
        /// What to hold out: ratings (default for explicit) or users (for implicit)
        split: Option<SplitKind> = { value_name: "WHAT", conflicts: ["no_split"] },
    }

    /// What is publicly known of items.
    struct FeatureSettings under "Features of items (with --method am-ssp)" {
        /// Columns of `items` to use
        feature_cols: Option<Vec<String>> = {
            value_name: "NAMES",
            delimiter: ',',
            usual: "all others, if none is of numbers",
        },
        /// Ignore feature values shared by fewer than N items
        min_items: Option<usize> = { value_name: "N", usual: "2", range: Range::from(1.0) },
    }

    /// Public item information.
    struct PriorSettings under "Public evidence" {
        /// Public numbers per item (from dp evidence), or the folder of an earlier model
        prior: Option<PathBuf> = { value_name: "FILE", shapes: Shapes::ByContents },
        /// Declare the model of `prior` public, if no ledger of this run paid for it
        prior_is_public: bool = { requires: ["prior"] },
        /// List of users who contribute without protection, an id a line
        opt_in: Option<PathBuf> = { value_name: "FILE", conflicts: ["prior"], shapes: Shapes::ByContents },
    }

    /// Settings of the method.
    struct FactorSettings under "Settings (public: never choose them by looking at the data)" {
        /// Item factors: a bias and DIM - 1 tastes
        dim: Option<usize> = { usual: "by rule, from released counts", range: Range::of(1.0, 256.0) },
        /// Ratings: users do not fit the two global effects (item bias, popularity)
        no_global_effects: bool = {},
        /// Rounds of alternating minimisation
        n_rounds: Option<usize> = {
            long: "steps",
            value_name: "ROUNDS",
            usual: "7",
            range: Range::of(1.0, 1000.0),
        },
        /// Weight n^-X of an item with n ratings; 0 releases no counts
        weight_exponent: Option<f64> = { value_name: "X", usual: "0.25", range: Range::of(0.0, 1e6) },
        /// Norm of the taste part of a user's factor, below 1
        clip_norm: Option<f64> = { value_name: "X", usual: "0.95", range: Range::open_unit() },
        /// Rating range: sets the centre and bound
        rating_range: Option<Vec<f64>> = {
            value_name: "LO,HI",
            delimiter: ',',
            usual: "learned",
            conflicts: ["label_center", "label_bound", "scale_share"],
        },
        /// Centre of the ratings, in rating units
        label_center: Option<f64> = { value_name: "X", usual: "3, or learned", range: Range::of(-1e6, 1e6) },
        /// Bound on ratings minus centre and user bias
        label_bound: Option<f64> = { value_name: "X", usual: "1, or learned", range: Range::of(1e-6, 1e6) },
        /// Share of the budget for learning centre and bound
        scale_share: Option<f64> = {
            value_name: "SHARE",
            usual: "0.01; 0 if known",
            range: Range::below_one(),
            conflicts: ["rating_range"],
        },
        /// Item ridge penalty, in units of its noise
        item_ridge_factor: Option<f64> = {
            long: "reg",
            value_name: "X",
            usual: "1",
            range: Range::of(1e-6, 1e6),
        },
        /// Implicit feedback: item biases (biased) or none (plain)
        score_model: Option<ScoreModelName> = { value_name: "MODEL", usual: "plain" },
        /// Implicit feedback: fraction of items to learn, by noisy counts; 1 is all of them
        head_fraction: Option<f64> = { value_name: "X", range: Range::up_to_one() },
        /// Share of the budget spent on item counts
        count_share: Option<f64> = { value_name: "SHARE", usual: "0.03", range: Range::open_unit() },
    }

    /// Resuming an interrupted run.
    struct ResumeSettings under "Ledger" {
        /// Continue the interrupted run into `out`, if there is one
        resume: bool = { requires: ["ledger"], conflicts: ["no_ledger"], shapes: Shapes::Nothing },
    }

    /// What is held out for the internal report.
    struct SplitSettings under "Held-out ratings (for the internal report)" {
        /// Seed of the 80/10/10 split of ratings into train, validation and test
        split_seed: u64 = { value_name: "N", default: "0", requires: ["ratings"] },
        /// Train on all ratings and report no accuracy
        no_split: bool = { requires: ["ratings"], conflicts: ["split_seed"] },
    }

    /// The output of a run.
    struct OutputSettings under "Output" {
        /// Folder of released files; private figures go to DIR-internal
        out: PathBuf = { value_name: "DIR", default: "dp-model", shapes: Shapes::Nothing },
        /// Replace the output folder, unless it holds a ledger or files not from a run
        force: bool = { shapes: Shapes::Nothing },
        /// Publish the list of releases with the model instead of keeping it internal
        publish_releases: bool = { shapes: Shapes::Nothing },
        /// Print what was measured on private data (not covered by the guarantee)
        show_internal: bool = { shapes: Shapes::Nothing },
        /// Which held-out metrics are released.
        metrics: MetricSettings = flatten,
        /// Exit with code 9 if a baseline is better; private without --release-metrics
        fail_if_worse: bool = { conflicts: ["no_split"], shapes: Shapes::Nothing },
        /// Reproducible noise for tests: NOT PRIVATE, and marked so; no `ledger`
        insecure_seed: Option<u64> = { value_name: "N", conflicts: ["ledger"] },
    }

    /// Which held-out metrics are released.
    struct MetricSettings under "Output" {
        /// Share of the budget for held-out metrics that may be published
        release_metrics: Option<f64> = {
            value_name: "X",
            usual: "none",
            conflicts: ["no_split"],
            range: Range::open_unit(),
        },
        /// Bound on a user's RMSE in released metrics
        metric_bound: Option<f64> = {
            value_name: "X",
            usual: "twice the label bound",
            requires: ["release_metrics"],
            range: Range::of(1e-6, 1e6),
        },
    }

    /// Several settings, trained and compared within one budget.
    struct TuneSettings {
        /// What all candidates have in common.
        train: TrainSettings = flatten,
        /// The candidates.
        choice: ChoiceSettings = flatten,
    }

    /// The candidates and how one is chosen.
    struct ChoiceSettings under "Candidates (each is trained and paid for)" {
        /// A candidate: settings that override the flags; repeatable
        candidates: Vec<String> = { long: "try", value_name: "dim=4,..." },
        /// Share of the budget spent on the comparison
        score_share: f64 = { value_name: "SHARE", default: "0.02", range: Range::open_unit() },
        /// Share of each user's ratings held out to compare candidates
        held_out_fraction: f64 = {
            long: "compare-on",
            value_name: "SHARE",
            default: "0.1",
            range: Range::open_unit(),
        },
    }

    /// The settings of one candidate.
    struct CandidateSettings {
        /// Its method
        method: Option<Method> = { usual: "that of the flags" },
        /// Its settings.
        settings: FactorSettings = flatten,
    }

    /// An audit: the run of a training, repeated many times with planted users.
    struct AuditSettings {
        /// Ratings to which the planted users are added, as for `dp train`
        ratings: Option<TableSource> = { positional: true, shapes: Shapes::Nothing, usual: "generated ratings" },
        /// Method and guarantee.
        target: TargetSettings = flatten,
        /// What is in the file.
        input: InputSettings = flatten,
        /// What records mean.
        feedback: FeedbackSettings = flatten,
        /// What is publicly known of items.
        features: FeatureSettings = flatten,
        /// What else is publicly known of them.
        prior: PriorSettings = flatten,
        /// Settings of the method.
        settings: FactorSettings = flatten,
        /// What is held out.
        split: SplitSettings = flatten,
        /// How much is tried.
        trials: TrialSettings = flatten,
    }

    /// An audit of a choice among candidates.
    struct AuditTuneSettings {
        /// What all candidates have in common, and how much is tried.
        audit: AuditSettings = flatten,
        /// The candidates.
        choice: ChoiceSettings = flatten,
    }

    /// The size of an audit.
    struct TrialSettings under "Trials" {
        /// Planted users; each joins a run by a coin flip
        n_canaries: Option<usize> = {
            long: "canaries",
            value_name: "N",
            usual: "200; in rows 30",
            range: Range::of(1.0, 1e4),
        },
        /// Training runs
        n_runs: usize = { long: "runs", value_name: "N", default: "24", range: Range::of(1.0, 1e4) },
        /// Confidence level of the empirical lower bound
        confidence: f64 = {
            value_name: "P",
            default: "0.999",
            range: Range { low: (0.5, false), high: (1.0, false) },
        },
        /// What is generated without ratings, and the coins that say who joins.
        generated: GeneratedSettings = flatten,
        /// Which held-out metrics the audited run releases.
        metrics: MetricSettings = flatten,
    }

    /// Generated data.
    struct GeneratedSettings {
        /// Seed of generated data (the noise is always fresh)
        data_seed: u64 = { value_name: "N", default: "1" },
    }

    /// An evaluation of a model on ratings it has not seen.
    struct EvaluateSettings {
        /// Ratings that `dp train` read; with `history`, newer ones
        ratings: PathBuf = { positional: true },
        /// Folder written by `dp train` or `dp tune`
        model: PathBuf = { value_name: "DIR" },
        /// Records to fold users in from; all of RATINGS is then test data
        history: Option<PathBuf> = { value_name: "FILE", conflicts: ["split_seed"] },
        /// Seed of the split, as given to `dp train`
        split_seed: Option<u64> = { value_name: "N", usual: "as in training" },
        /// Implicit feedback: lowest rating that counts as positive
        min_rating: Option<f64> = { value_name: "X", usual: "as in training" },
        /// Also train without privacy on the same records
        non_private: bool = {},
        /// Users to leave out, as given to `dp train`
        opt_in: Option<PathBuf> = { value_name: "FILE" },
        /// Columns under the header of the ratings.
        columns: RatingColumnSettings = flatten,
        /// Where the figures go.
        output: EvaluateOutputSettings = flatten,
    }

    /// Columns of the ratings.
    struct RatingColumnSettings under "Input" {
        /// Name of the user column
        user_col: Option<String> = { value_name: "NAME", usual: "`user`, `userId` or `user_id`", requires: ["ratings"] },
        /// Name of the item column
        item_col: Option<String> = { value_name: "NAME", usual: "`item`, `item_id`, `movieId`, ...", requires: ["ratings"] },
        /// Name of the rating column
        rating_col: Option<String> = { value_name: "NAME", usual: "`rating`", requires: ["ratings"] },
        /// Names of all columns, in order, if the file has no header
        header: Option<Vec<String>> = { value_name: "NAME,...", delimiter: ',', requires: ["ratings"] },
    }

    /// Destination of the results.
    struct EvaluateOutputSettings under "Output" {
        /// Print the figures (private) instead of saving them for dp report
        show_internal: bool = {},
        /// Save them as well as print them
        save: bool = {},
        /// Ledger that records this, if the run's internal files do not name it
        ledger: Option<PathBuf> = { value_name: "FILE" },
        /// Print the figures without recording that in a ledger
        no_ledger: bool = { conflicts: ["ledger"] },
    }

    /// Recommendations for one user or many.
    struct RecommendSettings {
        /// Folder written by `dp train`
        model: PathBuf = { value_name: "DIR" },
        /// Own ratings of one user, or with `user_col` of many: columns item and rating
        history: TableSource = { value_name: "FILE" },
        /// Recommend to every user of the history; the column of their ids
        user_col: Option<String> = { value_name: "NAME", usual: "one user" },
        /// Name of the item column
        item_col: Option<String> = { value_name: "NAME", usual: "`item`, `item_id`, `movieId`, ..." },
        /// Name of the rating column
        rating_col: Option<String> = { value_name: "NAME", usual: "`rating`" },
        /// Further items to rank, with the feature columns of the model's items
        items: Option<PathBuf> = { value_name: "FILE" },
        /// Implicit feedback: lowest rating that counts as positive
        min_rating: Option<f64> = { value_name: "X", usual: "as in training" },
        /// How many items to recommend
        count: usize = { short: 'k', value_name: "K", default: "10", range: Range::from(1.0) },
        /// score, or lower (lower end of the score's 95 % interval)
        rank_by: RankBy = { value_name: "WHAT", default: "score" },
    }
}

impl Method {
    /// The method that is trained under this name.
    pub(crate) const fn meant(self) -> Self {
        match self {
            Self::Auto => Self::Pooled,
            other => other,
        }
    }
}

impl MemorySettings {
    /// Disk storage for the records of a run that writes to `out`; none if they stay in memory.
    ///
    /// # Errors
    /// [`Error::Usage`] for an invalid size; [`Error::Param`] for one that is too small;
    /// [`Error::Write`] if files cannot be created in the folder.
    pub(crate) fn scratch(&self, out: &Path) -> Result<Option<Scratch>> {
        let Some(size) = &self.memory else {
            return Ok(None);
        };
        let bytes = bytes_of(size).ok_or_else(|| {
            Error::Usage(format!(
                "`memory` is {size}; expected a size such as 500MB or 4GB"
            ))
        })?;
        let mut above = folder_of(out).ancestors();
        let beside = above.find(|folder| folder.is_dir());
        let beside = beside.unwrap_or(Path::new("."));
        let folder = self.scratch.as_deref().unwrap_or(beside);
        match Scratch::new(folder, bytes) {
            Ok(scratch) => Ok(Some(scratch)),
            Err(dp_core::Error::Scratch(error)) => Err(Error::write(folder, error.kind.into())),
            Err(error) => Err(error.into()),
        }
    }
}

/// A number of bytes with its unit: `4GB`, `1.5 GB`, `500mb`, `65536`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "floats saturate"
)]
fn bytes_of(size: &str) -> Option<usize> {
    let size = size.trim().to_ascii_uppercase();
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: f64 = match &size[digits.len()..] {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        _ => return None,
    };
    let number: f64 = digits.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number * unit) as usize)
}

impl GuaranteeSettings {
    pub(crate) fn target(&self) -> Result<ApproxDp> {
        Ok(ApproxDp::target(self.epsilon, self.delta)?)
    }
}

impl RatingColumnSettings {
    /// The format that these settings describe; ratings are read if values are needed or their
    /// column is named.
    pub(crate) fn format(&self, needs_values: bool) -> Result<RatingsFormat> {
        let reads_values = needs_values || self.rating_col.is_some();
        let columns = [
            ("user_col", ColumnRole::User, self.user_col.as_ref()),
            ("item_col", ColumnRole::Item, self.item_col.as_ref()),
            ("rating_col", ColumnRole::Rating, self.rating_col.as_ref()),
        ];
        refuse_shared(&columns[..if reads_values { 3 } else { 2 }])?;
        let format = ratings_format(
            RatingsColumns {
                user: self.user_col.clone(),
                item: self.item_col.clone(),
                rating: self.rating_col.clone(),
            },
            self.header.as_deref(),
        );
        Ok(match reads_values {
            true => format,
            false => format.without_ratings(),
        })
    }
}

/// The format of ratings with these column names, which also apply to a file without a header.
pub(crate) fn ratings_format(columns: RatingsColumns, header: Option<&[String]>) -> RatingsFormat {
    let format = RatingsFormat::default().with_columns(columns);
    match header {
        Some(names) => format.with_names(names.to_vec()),
        None => format,
    }
}

impl FeedbackSettings {
    /// Whether the values of ratings matter, and not only that records exist.
    pub(crate) const fn needs_values(&self) -> bool {
        matches!(self.feedback, FeedbackKind::Explicit) || self.min_rating.is_some()
    }
}

impl FactorSettings {
    /// These settings where they are given, `params` otherwise.
    pub(crate) fn over(&self, mut params: FactorizationParams) -> FactorizationParams {
        params.dim = self.dim.or(params.dim);
        if let Some([low, high]) = self.rating_range.as_deref() {
            params = params.with_rating_range(*low, *high);
        }
        params.n_rounds = self.n_rounds.unwrap_or(params.n_rounds);
        for (setting, given) in [
            (&mut params.weight_exponent, self.weight_exponent),
            (&mut params.clip_norm, self.clip_norm),
            (&mut params.label_center, self.label_center),
            (&mut params.label_bound, self.label_bound),
            (&mut params.item_ridge_factor, self.item_ridge_factor),
            (&mut params.count_share, self.count_share),
            (&mut params.scale_share, self.scale_share()),
        ] {
            *setting = given.unwrap_or(*setting);
        }
        if let Some(fraction) = self.head_fraction {
            // 1 means all items; a requested head has no minimum size
            let is_all = (fraction - 1.0).abs() <= 0.0;
            params.head_fraction = (!is_all).then_some(fraction);
            params.least_head = 0;
        }
        params.global_effects &= !self.no_global_effects;
        params
    }

    /// The budget share for the scale of ratings if it is given, or follows from other settings.
    fn scale_share(&self) -> Option<f64> {
        let is_known = self.label_center.is_some() || self.label_bound.is_some();
        self.scale_share.or(is_known.then_some(0.0))
    }

    /// Refuses settings that `method` does not have, and kinds of records that it cannot learn
    /// from.
    pub(crate) fn check_method(&self, method: Method, feedback: FeedbackKind) -> Result<()> {
        let usage = |text: String| Err(Error::Usage(text));
        let given = match (method, feedback) {
            (Method::Biases, FeedbackKind::Implicit) => {
                return usage("`method` biases is for ratings: with `feedback` implicit use `method` popularity".to_owned());
            }
            (Method::Popularity, FeedbackKind::Explicit) => {
                return usage("`method` popularity needs `feedback` implicit: for ratings use `method` biases".to_owned());
            }
            (Method::Biases, _) if self.dim.is_some() => Some("dim"),
            (Method::Biases | Method::Adadpals, _) => {
                self.no_global_effects.then_some("no_global_effects")
            }
            (Method::Popularity, _) => {
                let all = self.shaping()?.into_iter();
                all.filter(|(_, value)| !value.is_null() && *value != false)
                    .map(|(name, _)| name)
                    .next()
            }
            _ => None,
        };
        match given {
            Some(name) => usage(format!(
                "`{name}` does not go with `method` {}",
                method.name()
            )),
            None => Ok(()),
        }
    }

    /// The given settings that co-occurrences of likes do not have.
    pub(crate) fn of_alternating_minimisation(&self) -> Vec<&'static str> {
        let all = [
            (self.weight_exponent.is_some(), "`weight_exponent`"),
            (self.clip_norm.is_some(), "`clip_norm`"),
            (self.item_ridge_factor.is_some(), "`item_ridge_factor`"),
        ];
        let given = all.into_iter().filter(|(given, _)| *given);
        given.map(|(_, name)| name).collect()
    }

    /// The first given setting that method `am-ssp` does not have.
    pub(crate) fn without_features(&self) -> Option<&'static str> {
        let own = [
            (self.weight_exponent.is_some(), "weight_exponent"),
            (self.item_ridge_factor.is_some(), "item_ridge_factor"),
            (self.count_share.is_some(), "count_share"),
            (self.rating_range.is_some(), "rating_range"),
            (self.scale_share.is_some(), "scale_share"),
            (self.no_global_effects, "no_global_effects"),
        ];
        let given = own
            .into_iter()
            .find_map(|(given, name)| given.then_some(name));
        given.or_else(|| self.of_lists())
    }

    /// The first given setting that only rounds of implicit feedback have.
    pub(crate) fn of_lists(&self) -> Option<&'static str> {
        [
            (self.score_model.is_some(), "score_model"),
            (self.head_fraction.is_some(), "head_fraction"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

impl AuditSettings {
    /// The audited training on these ratings.
    pub(crate) fn run_on(&self, ratings: impl Into<TableSource>) -> TrainSettings {
        TrainSettings {
            ratings: ratings.into(),
            target: self.target.clone(),
            input: self.input.clone(),
            memory: MemorySettings {
                memory: None,
                scratch: None,
            },
            feedback: self.feedback.clone(),
            features: self.features.clone(),
            prior: self.prior.clone(),
            settings: self.settings.clone(),
            ledger: LedgerSettings::none(),
            resume: ResumeSettings { resume: false },
            split: self.split.clone(),
            output: OutputSettings::nowhere().with_metrics(&self.trials.metrics),
        }
    }
}

impl AuditTuneSettings {
    /// The audited choice.
    pub(crate) fn run(&self) -> TuneSettings {
        TuneSettings {
            train: self.audit.run_on(PathBuf::new()),
            choice: self.choice.clone(),
        }
    }
}

impl MetricSettings {
    /// Settings of a run that releases no metrics.
    pub(crate) const fn none() -> Self {
        Self {
            release_metrics: None,
            metric_bound: None,
        }
    }

    /// The budget share for held-out metrics, if some are to be released.
    pub(crate) fn share(&self) -> Result<Option<f64>> {
        if let Some(bound) = self.metric_bound {
            params::finite_positive("metric_bound", bound)?;
        }
        let share = self.release_metrics;
        Ok(share
            .map(|share| params::open_unit("release_metrics", share))
            .transpose()?)
    }
}

impl OutputSettings {
    /// Settings of a run that releases nothing.
    pub(crate) fn nowhere() -> Self {
        Self {
            out: PathBuf::new(),
            force: false,
            publish_releases: false,
            show_internal: false,
            metrics: MetricSettings::none(),
            fail_if_worse: false,
            insecure_seed: None,
        }
    }

    /// The same for a run that releases these metrics.
    pub(crate) fn with_metrics(self, metrics: &MetricSettings) -> Self {
        Self {
            metrics: metrics.clone(),
            ..self
        }
    }

    /// Whether values computed from private data without payment are printed or determine the exit
    /// code.
    pub(crate) const fn reveals_internal(&self) -> bool {
        self.show_internal || self.fail_if_worse && self.metrics.release_metrics.is_none()
    }

    /// The noise of the run: from the operating system, unless it must be repeatable.
    pub(crate) fn noise(&self) -> NoiseSource {
        let seeded = self.insecure_seed.map(NoiseSource::insecure_seeded);
        seeded.unwrap_or_else(NoiseSource::operating_system)
    }
}
