//! What every workflow can be told.

mod audit;
mod evaluate;
mod federate;
mod model;
mod personalize;
mod report;
mod shared;
mod synth;
mod train;
mod tune;

pub use audit::{AuditArgs, TrialArgs};
pub use evaluate::{EvaluateArgs, EvaluateOutputArgs, RatingColumnArgs};
pub use federate::*;
pub use model::{DemoArgs, PredictArgs, RecommendArgs, VerifyArgs};
pub use personalize::*;
pub use report::ReportArgs;
pub use shared::{
    GeneratedArgs, InputArgs, Method, ScoreModelName, SettingArgs, SplitArgs, TargetArgs,
};
pub use synth::{SynthArgs, SynthKind};
pub use train::{
    FeatureArgs, FeedbackArgs, FeedbackKind, LedgerArgs, OutputArgs, ResumeArgs, SplitKind,
    TrainArgs,
};
pub use tune::{ChoiceArgs, TuneArgs};
