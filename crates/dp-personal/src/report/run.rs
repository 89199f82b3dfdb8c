//! The data that a page needs about a run, either as it ends or from its folder.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dp_accounting::{Certificate, PrivacyStatement, Status};
use dp_data::ItemCatalogue;
use dp_multitask::{FactorModel, NoisyCounts};
use dp_page::Block;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::output::{
    EVALUATION, FACTORS, INTERNAL, ITEMS_COMMAND, InternalRun, OutputFolder, RELEASED, ReleasedRun,
    internal_folder_of, read_model, read_run_file, votes_facts, warn,
};
use crate::workflows::evaluate::Evaluated;
use crate::workflows::ledger::{last_of, ledger_blocks};
use crate::workflows::nightly::MODEL;
use crate::workflows::private_run::GIVEN;
use crate::workflows::verify::checked_certificate;

/// Item factors and their items.
pub(crate) type Model<'a> = (Cow<'a, FactorModel>, Cow<'a, ItemCatalogue>);

/// The results of a run.
pub(crate) struct ReportedRun<'a> {
    /// Its folder's name.
    pub(crate) name: String,
    pub(crate) certificate: Certificate,
    pub(crate) statement: PrivacyStatement,
    /// For `dp train` and `dp tune`.
    pub(crate) model: Option<Model<'a>>,
    /// For runs that wrote one.
    pub(crate) released: Option<ReleasedRun>,
    /// Unless it was removed before publishing.
    pub(crate) internal: Option<InternalRun>,
    /// From `dp evaluate --save`.
    pub(crate) evaluation: Option<Evaluated>,
    /// Balance and history of the ledger that was charged, if the internal files name it.
    pub(super) ledger: Vec<Block>,
    /// Whether charts are written to files next to the page.
    has_figures: bool,
}

impl<'a> ReportedRun<'a> {
    /// A run that is about to finish.
    pub(crate) fn ending(
        folder: &OutputFolder,
        certificate: Certificate,
        released: ReleasedRun,
        model: Option<Model<'a>>,
    ) -> Result<Self> {
        Ok(Self {
            name: folder.name(),
            statement: PrivacyStatement::of(&certificate)?,
            certificate,
            model,
            released: Some(released),
            internal: None,
            evaluation: None,
            ledger: Vec::new(),
            has_figures: true,
        })
    }

    /// A finished run with everything that is known of it.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let run = Self::of_checked(folder, checked_certificate(folder)?)?;
        let evaluation = evaluation(folder, &run.certificate)?;
        let internal = internal(folder, &run.certificate)?;
        Ok(Self {
            ledger: ledger_of(internal.as_ref()),
            internal,
            evaluation,
            ..run
        })
    }

    /// The same with charts in files next to the page.
    pub(crate) fn with_figures(self) -> Self {
        Self {
            has_figures: true,
            ..self
        }
    }

    /// The released part of a finished run whose certificate was recomputed and compared with its
    /// model, so that no page repeats a claim that does not hold.
    pub(crate) fn of_checked(
        folder: &Path,
        (certificate, statement): (Certificate, PrivacyStatement),
    ) -> Result<Self> {
        tracing::info!(folder = %folder.display(), "reading a run");
        let model: Option<Model<'_>> = if folder.join(FACTORS).exists() {
            let (model, items) = read_model(folder)?;
            Some((Cow::Owned(model), Cow::Owned(items)))
        } else {
            None
        };
        let released: Option<ReleasedRun> = read_run_file(folder, RELEASED)?;
        if let (Some((model, _)), Some(counts)) = (&model, counts_of(released.as_ref())) {
            let n_items = model.n_items();
            if counts.values().len() != n_items {
                let reason = format!("{} counts for {n_items} items", counts.values().len());
                return Err(Error::model(&folder.join(RELEASED), reason));
            }
        }
        Ok(Self {
            name: match &released {
                // every state of nights has its model in a folder of the same name
                Some(of) if of.command.starts_with("nightly") && folder.ends_with(MODEL) => {
                    name_of(&folder.join(".."))
                }
                _ => name_of(folder),
            },
            certificate,
            statement,
            model,
            released,
            ledger: Vec::new(),
            internal: None,
            evaluation: None,
            has_figures: false,
        })
    }

    /// Whether it is item vectors for users' own vectors.
    pub(super) fn is_of_items(&self) -> bool {
        let released = self.released.as_ref();
        released.is_some_and(|of| of.command == ITEMS_COMMAND)
    }

    /// Whether any privacy is promised.
    pub(crate) fn is_private(&self) -> bool {
        self.statement.status == Status::Private
    }

    /// The released counts, if there are any.
    pub(crate) fn counts(&self) -> Option<&NoisyCounts> {
        counts_of(self.released.as_ref())
    }

    /// When the certificate was made, in UTC; none if the noise was seeded.
    pub(super) fn date(&self) -> Option<String> {
        let time = self.certificate.made.as_ref()?.time.as_ref()?;
        Some(time.replace('T', " ").replace('Z', " UTC"))
    }

    /// Epsilon under the certificate's own neighbouring relation.
    pub(crate) fn epsilon(&self) -> Option<f64> {
        self.statement.guarantee.as_ref().map(|g| g.epsilon)
    }

    /// The file of a chart by its index on the page, if the run writes one.
    pub(super) fn figure(&self, at: usize, internal: bool) -> Option<String> {
        let command = self.released.as_ref().map(|of| of.command.as_str());
        let name = match (command, internal) {
            (Some("personalize"), false) => "features.svg",
            (Some("federate"), false) => "coefficients.svg",
            (Some("personalize" | "federate"), true) => "internal.svg",
            _ => return None,
        };
        (self.has_figures && at == 0).then(|| name.to_owned())
    }

    /// A setting by its path.
    pub(super) fn setting(&self, path: &str) -> Option<&Value> {
        self.released.as_ref()?.settings.pointer(path)
    }

    /// The command that trained it, and its method.
    pub(super) fn method_name(&self) -> String {
        let Some(released) = &self.released else {
            return self.model_line();
        };
        let given = released.run.as_ref().map(|run| &run[GIVEN]["method"]);
        // the line names what was chosen for `auto`
        let line = released.model.split("method `").nth(1);
        let chosen = line.and_then(|rest| rest.split('`').next());
        let method = chosen.or(given.and_then(Value::as_str));
        match (released.command.as_str(), method) {
            ("train", Some(method)) => method.to_owned(),
            (command, Some(method)) => format!("{command}, {method}"),
            (command, None) => command.to_owned(),
        }
    }

    /// Names and values of the outcomes of the users' votes on taste factors, if they voted.
    pub(super) fn votes(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let released = self.released.as_ref();
        votes_facts(
            released.and_then(|of| of.prior_votes.as_ref()),
            released.and_then(|of| of.taste_votes.as_ref()),
        )
    }

    /// Description of the model in one line.
    pub(crate) fn model_line(&self) -> String {
        match (&self.released, &self.model) {
            (Some(released), _) => released.model.clone(),
            (None, Some((model, _))) => format!(
                "{} items, factors of length {}",
                model.n_items(),
                model.dim()
            ),
            (None, None) => "a model of an earlier version".to_owned(),
        }
    }
}

/// Settings that determine the budget, not how the model is trained.
const OF_BUDGET: [&str; 4] = ["epsilon", "delta", "method", "insecure_seed"];

/// How each run was trained, apart from budgets: its method, with the settings that distinguish it
/// from other runs of that method.
pub(super) fn methods(all: &[ReportedRun<'_>]) -> Vec<String> {
    let none = Map::new();
    let given = |run: &ReportedRun<'_>| -> Map<String, Value> {
        let run = run.released.as_ref().and_then(|of| of.run.as_ref());
        let given = run.and_then(|run| run[GIVEN].as_object());
        let mut given = given.unwrap_or(&none).clone();
        given.retain(|name, _| !OF_BUDGET.contains(&name.as_str()));
        given
    };
    let named: Vec<(String, Map<String, Value>)> = all
        .iter()
        .map(|run| (run.method_name(), given(run)))
        .collect();
    let name_of = |(name, own): &(String, Map<String, Value>)| {
        let alike = || named.iter().filter(|(other, _)| other == name);
        let keys: BTreeSet<&String> = alike().flat_map(|(_, given)| given.keys()).collect();
        let differ = |key: &&&String| alike().any(|(_, given)| given.get(**key) != own.get(**key));
        let shown = |key: &&String| match own.get(*key) {
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(key.replace('_', "-")),
            Some(Value::String(text)) => Some(format!("{} {text}", key.replace('_', "-"))),
            Some(value) => Some(format!("{} {value}", key.replace('_', "-"))),
        };
        let own: Vec<String> = keys.iter().filter(differ).filter_map(shown).collect();
        [std::slice::from_ref(name), &own[..]].concat().join(", ")
    };
    named.iter().map(name_of).collect()
}

/// Results of `dp evaluate` for this run; results for another run that was in the same folder
/// before are left out.
fn evaluation(folder: &Path, certificate: &Certificate) -> Result<Option<Evaluated>> {
    let folder = &internal_folder_of(folder);
    let found: Option<Evaluated> = read_run_file(folder, EVALUATION)?;
    let is_own = |of: &Evaluated| of.certificate.as_ref() == Some(&certificate.digest);
    let advice = "measure this one by dp evaluate";
    Ok(own(found, is_own, (folder, EVALUATION), advice))
}

/// The measurements of this run. Files of earlier versions do not name their run.
fn internal(folder: &Path, certificate: &Certificate) -> Result<Option<InternalRun>> {
    let folder = &internal_folder_of(folder);
    let found: Option<InternalRun> = read_run_file(folder, INTERNAL)?;
    let is_own = |run: &InternalRun| {
        let digest = run.certificate.as_ref();
        digest.is_none_or(|digest| *digest == certificate.digest)
    };
    let advice = "it was written with another certificate";
    Ok(own(found, is_own, (folder, INTERNAL), advice))
}

/// Balance and history of the ledger charged for a run, or why they are missing; nothing for a run
/// without a ledger.
fn ledger_of(internal: Option<&InternalRun>) -> Vec<Block> {
    let Some(path) = internal.and_then(|of| of.aside.ledger.as_deref()) else {
        return Vec::new();
    };
    let path = last_of(path);
    ledger_blocks(&path).unwrap_or_else(|error| {
        let path = path.display();
        vec![Block::Note(format!(
            "The ledger {path} cannot be read: {error}."
        ))]
    })
}

/// The value, unless it belongs to another run: then none, with a warning.
fn own<T>(
    found: Option<T>,
    is_own: impl Fn(&T) -> bool,
    (folder, name): (&Path, &str),
    advice: &str,
) -> Option<T> {
    if found.as_ref().is_some_and(|found| !is_own(found)) {
        let path = folder.join(name);
        warn(&format!(
            "{} is of another run and left out: {advice}",
            path.display()
        ));
    }
    found.filter(is_own)
}

fn counts_of(released: Option<&ReleasedRun>) -> Option<&NoisyCounts> {
    released?.counts.as_ref()
}

/// The last part of its path, also for `.`.
fn name_of(folder: &Path) -> String {
    let whole: PathBuf = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}
