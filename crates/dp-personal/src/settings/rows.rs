//! Settings of the workflows on labelled rows: personalize, federate and predict.

use std::path::PathBuf;

use dp_data::{SampleShares, TableSource};

use super::{
    GuaranteeSettings, LedgerSettings, OutputSettings, Range, ResumeSettings, Shapes,
    TrialSettings, choices, settings, words,
};
use crate::personal::{Intercept, Method as SubspaceMethod};
use crate::workers::Dealing;

choices! {
    /// The prediction task.
    enum TaskKind {
        /// A number, by squared loss.
        Regression = "regression",
        /// Whether a number is above the threshold, by logistic loss.
        Classification = "classification",
    }

    /// The format of a file.
    enum DataFormat {
        /// Rows of a table.
        Csv = "csv",
        /// LEAF JSON.
        Leaf = "leaf",
        /// Ratings of public items.
        Ratings = "ratings",
    }
}

choices! {
    /// The weights of the two classes of a user's rows.
    enum ClassWeight {
        /// All rows have equal weight: predictions are probabilities.
        None = "none",
        /// Both classes have equal weight, however many rows each has.
        Balanced = "balanced",
    }
}

words!(Intercept {
    Own = "own",
    Shared = "shared",
    None = "none",
});

words!(SubspaceMethod {
    Residual = "residual",
    Projectors = "projectors",
    Gradient = "gradient",
    Alternating = "alternating",
});

settings! {
    /// A shared subspace, learned from labelled rows.
    struct PersonalizeSettings {
        /// What is learned, and from what.
        run: PersonalRunSettings = flatten,
        /// Where the privacy loss is recorded.
        ledger: LedgerSettings = flatten,
        /// Whether an interrupted run goes on.
        resume: ResumeSettings = flatten,
        /// What is held out.
        held_out: PersonalHeldOutSettings = flatten,
        /// What the run leaves behind.
        output: OutputSettings = flatten,
    }

    /// Data and method for a shared subspace.
    struct PersonalRunSettings {
        /// Rows: a table (csv, tsv, ...; gzip too) with several rows per user
        data: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// Dimension of the shared subspace of users' coefficients
        rank: usize = { value_name: "K", range: Range::of(1.0, 256.0) },
        /// The guarantee that it is to have.
        guarantee: GuaranteeSettings = flatten,
        /// What is in the file.
        columns: ColumnSettings = flatten,
        /// Ranges that are known without the data.
        ranges: RangeSettings = flatten,
        /// What is fitted, and how.
        model: PersonalModelSettings = flatten,
    }

    /// The columns of the file.
    struct ColumnSettings under "Input" {
        /// Name of the user column
        user_col: Option<String> = { value_name: "NAME", usual: "`user`, `userId` or `user_id`" },
        /// Name of the column to predict
        target_col: Option<String> = { value_name: "NAME", usual: "`target`, `label` or `y`" },
        /// Names of the feature columns (tables of rows only)
        feature_cols: Option<Vec<String>> = { alias: "features", value_name: "NAME,...", delimiter: ',', usual: "all others" },
        /// Names of all columns, in order, if the file has no header
        header: Option<Vec<String>> = { value_name: "NAME,...", delimiter: ',' },
        /// Maximum rows per user; the rest are left out
        max_rows: usize = { value_name: "N", default: "256", range: Range::of(1.0, 65536.0) },
    }

    /// Public ranges.
    struct RangeSettings under "Ranges (public: never take them from the data)" {
        /// File `column,lower,upper`: values are clipped and mapped onto -1 to 1
        bounds: Option<PathBuf> = { value_name: "FILE", shapes: Shapes::ByContents },
        /// Range of the features that are not in `bounds`
        feature_range: Option<Vec<f64>> = { value_name: "LO,HI", delimiter: ',', usual: "values as they are" },
        /// Range of the target, if it is not in `bounds`
        target_range: Option<Vec<f64>> = { value_name: "LO,HI", delimiter: ',', usual: "values as they are" },
    }

    /// Settings of the model.
    struct PersonalModelSettings under "Settings (public: never choose them by looking at the data)" {
        /// regression or classification (target above threshold)
        task: TaskKind = { value_name: "TASK", default: "regression" },
        /// Classification: targets above this are positive
        threshold: Option<f64> = { value_name: "X", usual: "0.5" },
        /// own (means), shared (constant feature), none
        intercept: Option<Intercept> = { value_name: "WHERE", usual: "own; of classes: shared" },
        /// residual, projectors, gradient, alternating
        method: Option<SubspaceMethod> = { value_name: "METHOD", usual: "residual; classes gradient" },
        /// Steps after the first release
        n_steps: Option<usize> = { long: "steps", value_name: "N", usual: "residual 4, gradient 3, alternating 1" },
        /// Candidate ridge penalties of a user's fit in the subspace
        l2_penalty: Option<Vec<f64>> = { value_name: "X,...", delimiter: ',', usual: "weighed", range: Range::above(0.0) },
        /// Maximum extra coefficients per user outside the subspace
        sparse: Option<usize> = { value_name: "N", usual: "0" },
        /// With gradient: bound on the norm of a user's mean gradient
        gradient_clip: Option<f64> = { value_name: "X", usual: "1", range: Range::above(0.0) },
        /// With gradient: step size
        learning_rate: Option<f64> = { value_name: "X", usual: "1", range: Range::above(0.0) },
    }

    /// Held-out data for the internal report.
    struct PersonalHeldOutSettings under "Held-out rows (for the internal report)" {
        /// How much of it.
        shares: HeldOutShareSettings = flatten,
        /// Seed of the held-out rows and users
        split_seed: u64 = { value_name: "N", default: "0" },
        /// Train on all rows of all users and report no accuracy
        no_split: bool = { conflicts: ["test_share", "held_out_users", "split_seed"] },
    }

    /// Held-out shares.
    struct HeldOutShareSettings under "Held-out rows (for the internal report)" {
        /// Share of each user's rows held out to test
        test_share: f64 = { value_name: "SHARE", default: "0.2", range: Range::below_one() },
        /// Share of the users left out of training, who join later
        held_out_users: f64 = { value_name: "SHARE", default: "0", range: Range::below_one() },
    }

    /// A partly shared model, learned in rounds.
    struct FederateSettings {
        /// Rows: a table (csv, tsv, ...; gzip too), LEAF JSON, or with `items` ratings
        data: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// Privacy target epsilon (nats), add or remove one user; several: explore only
        epsilon: Vec<f64> = { value_name: "E,...", delimiter: ',', range: Range::above(0.0) },
        /// Privacy target delta; choose it well below one over the number of users
        delta: f64 = { value_name: "D", range: Range::open_unit() },
        /// What is learned, and how.
        run: FederatedRunSettings = flatten,
        /// Where the privacy loss is recorded.
        ledger: LedgerSettings = flatten,
        /// Whether an interrupted run goes on.
        resume: ResumeSettings = flatten,
        /// What is held out.
        held_out: FederatedHeldOutSettings = flatten,
        /// What the run leaves behind.
        output: OutputSettings = flatten,
    }

    /// Data and method for a partly shared model.
    struct FederatedRunSettings {
        /// Global/local step ratios: 0 personal, inf shared
        alpha_grid: Vec<f64> = { value_name: "A,...", delimiter: ',', default: "0,0.1,0.3,1,3,10,inf", range: Range::of(0.0, f64::INFINITY) },
        /// csv, leaf or ratings
        format: Option<DataFormat> = { value_name: "FORMAT", usual: "by `items` and the end of the name" },
        /// LEAF: features per row (public); rows of another length are left out
        n_features: Option<usize> = { value_name: "N", range: Range::of(1.0, 65536.0) },
        /// LEAF: which label of rows with several, from 0
        label_index: Option<usize> = { value_name: "N" },
        /// Public table of the rated items: item, title, year, genres
        items: Option<PathBuf> = { value_name: "FILE", shapes: Shapes::ByContents },
        /// What is in the file.
        columns: ColumnSettings = flatten,
        /// Ranges that are known without the data.
        ranges: RangeSettings = flatten,
        /// What is fitted, and how.
        model: FederatedRoundSettings = flatten,
        /// How one alpha is chosen.
        choice: AlphaSettings = flatten,
    }

    /// Held-out data for the internal report.
    struct FederatedHeldOutSettings under "Held-out rows (for the internal report)" {
        /// How much of it.
        shares: HeldOutShareSettings = flatten,
        /// Seed of held-out rows and users, and of validation rows
        split_seed: u64 = { value_name: "N", default: "0" },
        /// Hold out no test rows and report no accuracy; alphas are still compared
        no_split: bool = { conflicts: ["test_share", "held_out_users"] },
    }

    /// Settings of the rounds.
    struct FederatedRoundSettings under "Settings (public: never choose them by looking at the data)" {
        /// regression (squared loss) or classification (logistic)
        task: TaskKind = { value_name: "TASK", default: "regression" },
        /// Classification: targets above this are positive
        threshold: Option<f64> = { value_name: "X", usual: "0.5" },
        /// shared (constant feature), own (subtract means), none
        intercept: Intercept = { value_name: "WHERE", default: "shared" },
        /// Rounds of every run
        n_rounds: usize = { long: "rounds", value_name: "N", default: "50", range: Range::of(1.0, 1_048_576.0) },
        /// The larger of the two step sizes
        learning_rate: Option<f64> = { value_name: "X", usual: "1 / bound on the curvature", range: Range::above(0.0) },
        /// Bound on the norm of a user's mean gradient
        clip_norm: f64 = { value_name: "X", default: "1", range: Range::above(0.0) },
        /// Factor by which clip and global step shrink by the end
        shrink: Option<f64> = { value_name: "X", usual: "1", range: Range::up_to_one() },
        /// Rows per user and round
        batch_size: Option<usize> = { value_name: "N", usual: "all", range: Range::from(1.0) },
        /// Probability that a user takes part in a round
        sampling_probability: Option<f64> = { value_name: "Q", usual: "all in every round", range: Range::up_to_one() },
        /// Number of users, held-out included
        n_users: Option<f64> = { value_name: "N", usual: "a noisy count, charged", range: Range::above(0.0) },
    }

    /// The choice of one alpha, if there is one epsilon and several alphas.
    struct AlphaSettings under "Choice of alpha (charged; of one epsilon)" {
        /// Share of epsilon for the choice
        choice_share: f64 = { value_name: "SHARE", default: "0.1", range: Range::open_unit() },
        /// Share of each user's rows held out to compare alphas
        validation_share: f64 = { value_name: "SHARE", default: "0.2", range: Range::below_one() },
        /// Range of a user's loss over alphas
        loss_range: f64 = { value_name: "X", default: "0.1", range: Range::above(0.0) },
    }

    /// Users' personal models, fitted to the release of one of the two workflows.
    struct PredictSettings {
        /// Folder written by `dp personalize` or `dp federate`
        model: PathBuf = { value_name: "DIR" },
        /// Users' own labelled rows, with the columns of the training data
        history: TableSource = { value_name: "FILE" },
        /// Rows to predict, without target
        rows: Option<TableSource> = { value_name: "FILE", usual: "none: prints the users' coefficients" },
        /// Name of the user column
        user_col: Option<String> = { value_name: "NAME", usual: "that of training, a usual one, or none" },
        /// Classes: none (equal rows) or balanced (equal classes)
        class_weight: ClassWeight = { value_name: "WEIGHT", default: "none" },
    }

    /// An audit of `dp personalize`: its run, repeated many times with planted users.
    struct AuditPersonalizeSettings {
        /// What is learned, and from what.
        run: PersonalRunSettings = flatten,
        /// What is held out.
        held_out: PersonalHeldOutSettings = flatten,
        /// How much is tried.
        trials: TrialSettings = flatten,
    }

    /// An audit of `dp federate`: its runs, repeated many times with planted users.
    struct AuditFederateSettings {
        /// Rows: a table (csv, tsv, ...; gzip too), LEAF JSON, or with `items` ratings
        data: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// The guarantee that it is to have.
        guarantee: GuaranteeSettings = flatten,
        /// What is learned, and how.
        run: FederatedRunSettings = flatten,
        /// What is held out.
        held_out: FederatedHeldOutSettings = flatten,
        /// How much is tried.
        trials: TrialSettings = flatten,
    }
}

impl AuditPersonalizeSettings {
    /// The audited training.
    pub(crate) fn training(&self) -> PersonalizeSettings {
        PersonalizeSettings {
            run: self.run.clone(),
            ledger: LedgerSettings::none(),
            resume: ResumeSettings { resume: false },
            held_out: self.held_out.clone(),
            output: OutputSettings::nowhere().with_metrics(&self.trials.metrics),
        }
    }
}

impl AuditFederateSettings {
    /// The audited training.
    pub(crate) fn training(&self) -> FederateSettings {
        FederateSettings {
            data: self.data.clone(),
            epsilon: vec![self.guarantee.epsilon],
            delta: self.guarantee.delta,
            run: self.run.clone(),
            ledger: LedgerSettings::none(),
            resume: ResumeSettings { resume: false },
            held_out: self.held_out.clone(),
            output: OutputSettings::nowhere().with_metrics(&self.trials.metrics),
        }
    }
}

impl HeldOutShareSettings {
    /// Refuses held-out users if workers receive their users: a worker checks that the users it
    /// trains on are its own, and would measure others unchecked.
    pub(crate) fn check_dealt(&self, dealing: Dealing) -> crate::error::Result<()> {
        if dealing == Dealing::ByRun || self.held_out_users <= 0.0 {
            return Ok(());
        }
        Err(crate::error::Error::Usage(
            "users cannot be held out (`held_out_users`) where workers are given theirs".to_owned(),
        ))
    }

    pub(crate) const fn given(&self) -> SampleShares {
        SampleShares {
            test_rows: self.test_share,
            held_out_users: self.held_out_users,
        }
    }
}
