//! `dp verify --recompute`: rebuilds the model from public inputs and the release list.

use std::fs;
use std::path::{Path, PathBuf};

use dp_accounting::{Certificate, Plan, Status};
use dp_core::{ApproxDp, Interactions, InteractionsBuilder, Private, UserSamplesBuilder};
use dp_data::ItemCatalogue;
use dp_mechanism::{Error as KernelError, Fitted, ReleaseList, Run, Trainer};
use dp_multitask::{FactorModel, FactorizationParams, NightlyParams, Tuning, TuningParams};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::federate::{AllRuns, Rows, Shape, selection};
use super::nightly::{Items, RowNights, by_catalogue};
use super::private_run::run_name;
use super::train::ADJACENCY;
use crate::error::{Error, Result};
use crate::federated::{RunSettings, Spending};
use crate::metric_release::{
    LearntUnit, Measured, MetricRelease, TrainedAndHeldOut, WithMetrics, with_metrics,
};
use crate::output::{
    self, FACTORS, INTERNAL_RELEASES, ITEMS, NUMERICS, RELEASED, RELEASES, ReleasedRun, SHARED,
    SUBSPACE, catalogue_sha256, folder_of, internal_folder_of, model_files, shared_bytes,
    subspace_bytes,
};
use crate::personal::{Inputs, MethodSettings};
use crate::prior::{PRIOR, PriorTable};
use crate::settings::Method;
use crate::workflows::train::PRIOR_SHA256;

/// Whether a model follows from its settings, its public inputs and its release list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recomputed {
    /// It does, bit for bit, and the releases are those of the certificate.
    Same {
        /// Number of releases in the list.
        n_releases: usize,
    },
    /// It does not.
    Differs {
        /// The first difference.
        what: String,
    },
    /// It cannot be determined.
    Cannot {
        /// What is missing, or inconsistent.
        because: String,
    },
}

/// Recomputes the model of a release folder. `releases` is its list, if it is not in the folder.
///
/// # Errors
/// When a file of the folder cannot be read.
pub(crate) fn recompute(
    folder: &Path,
    releases: Option<&Path>,
    certificate: &Certificate,
) -> Result<Recomputed> {
    let cannot = |because: String| Ok(Recomputed::Cannot { because });
    let released: Option<ReleasedRun> = output::read_run_file(folder, RELEASED)?;
    let numerics = released.as_ref().map(|released| released.numerics);
    if let Some(found) = numerics.filter(|found| *found != NUMERICS) {
        let because = format!(
            "a version of dp-personal whose last digits differ made the model (numerics {found}; this program has {NUMERICS}): use that version"
        );
        return cannot(because);
    }
    let n_nights = released.as_ref().and_then(ReleasedRun::n_nights);
    let Some(public) = released.and_then(|released| released.run) else {
        let because = format!("{RELEASED} does not say which public inputs shaped the run");
        return cannot(because);
    };
    let Some(list) = list_of(folder, releases) else {
        let because = "the list of releases is not in the folder; give it with `releases` (`internal-releases.list` in the internal folder, `releases.list` in the state of `dp nightly`; `publish_releases` trains with it in the folder)";
        return cannot(because.to_owned());
    };
    let replay = Replay {
        folder,
        list,
        public,
        n_nights,
    };
    let rebuilt = match replay.model() {
        Ok(rebuilt) => rebuilt,
        Err(Error::Releases(KernelError::ListOfAnotherRun { .. })) => {
            return cannot(format!("{} is of another run", replay.list.display()));
        }
        Err(Error::Releases(error @ (KernelError::List { .. } | KernelError::EndOfList))) => {
            let what = format!("{}: {error}", replay.list.display());
            return Ok(Recomputed::Differs { what });
        }
        Err(error) => return cannot(error.to_string()),
    };
    let pairs = rebuilt.releases.releases.iter().zip(&certificate.releases);
    let same = pairs.take_while(|(found, stated)| found == stated).count();
    if same
        < rebuilt
            .releases
            .releases
            .len()
            .max(certificate.releases.len())
    {
        let what = format!(
            "release {} of {} is not that of the certificate",
            same + 1,
            replay.list.display()
        );
        return Ok(Recomputed::Differs { what });
    }
    if certificate.status == Status::Private && rebuilt.releases.status != Status::Private {
        let what = format!(
            "{} says that noise was seeded, and the certificate promises privacy",
            replay.list.display()
        );
        return Ok(Recomputed::Differs { what });
    }
    if rebuilt.releases.metrics != certificate.metrics {
        let what = "the held-out metrics of the certificate do not follow from the releases";
        return Ok(Recomputed::Differs {
            what: what.to_owned(),
        });
    }
    let path = folder.join(rebuilt.name);
    if fs::read(&path).map_err(|e| Error::read(&path, e))? != rebuilt.bytes {
        let made = certificate.made.as_ref().map(|made| &*made.instructions);
        let here = dp_linalg::vector_instructions();
        if let Some(made) = made.filter(|made| *made != here) {
            return cannot(format!(
                "the model was made with {made} instructions and this processor has {here}, so its last digits may differ; whether more does can be told on a processor with the same instructions"
            ));
        }
        let what = format!("{} does not follow from the releases", path.display());
        return Ok(Recomputed::Differs { what });
    }
    Ok(Recomputed::Same {
        n_releases: rebuilt.n_releases,
    })
}

fn list_of(folder: &Path, releases: Option<&Path>) -> Option<PathBuf> {
    let own = [
        folder.join(RELEASES),
        internal_folder_of(folder).join(INTERNAL_RELEASES),
        // nights are listed in the folder that contains their model
        folder_of(folder).join(RELEASES),
    ];
    let named = releases.map(Path::to_owned);
    let mut all = named
        .or_else(|| own.into_iter().find(|path| path.exists()))
        .into_iter();
    all.find(|path| path.is_file())
}

/// A rebuilt model file.
struct Rebuilt {
    name: &'static str,
    bytes: Vec<u8>,
    n_releases: usize,
    /// The certificate of its releases.
    releases: Certificate,
}

impl Rebuilt {
    fn of<M>(name: &'static str, bytes: Vec<u8>, fitted: Fitted<M>) -> Self {
        Self {
            name,
            bytes,
            n_releases: fitted.n_releases,
            releases: fitted.certificate,
        }
    }
}

struct Replay<'a> {
    folder: &'a Path,
    list: PathBuf,
    public: Value,
    n_nights: Option<usize>,
}

impl Replay<'_> {
    fn model(&self) -> Result<Rebuilt> {
        match self.get::<String>("command")?.as_str() {
            "train" if self.get::<String>("method")? == Method::AmSsp.name() => {
                self.item_features()
            }
            "train" => self.factors(),
            "tune" => self.tuned(),
            "personalize" => self.subspace(),
            "federate" => self.shared(),
            "nightly" => self.nights(),
            other => Err(self.wrong(&format!("a model of dp {other} cannot be rebuilt"))),
        }
    }

    fn wrong(&self, reason: &str) -> Error {
        Error::model(&self.folder.join(RELEASED), reason)
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let found = self.public.get(name).cloned().unwrap_or_default();
        let read = serde_json::from_value(found);
        read.map_err(|error| self.wrong(&format!("`run.{name}`: {error}")))
    }

    fn target(&self) -> Result<ApproxDp> {
        self.get("target")
    }

    /// The run that takes its releases from the list.
    fn run<'p>(&self, plan: &'p Plan) -> Result<Run<'p>> {
        let list = ReleaseList::read(&self.list, &run_name(&self.public)?, plan)?;
        if list.is_cut_off() {
            let what = "it does not end with a whole release".to_owned();
            return Err(KernelError::List { what }.into());
        }
        Ok(Run::replay(plan, list)?)
    }

    /// The catalogue, and an empty ratings table.
    fn catalogue(&self) -> Result<(ItemCatalogue, Private<Interactions>)> {
        let path = self.folder.join(ITEMS);
        let catalogue = dp_data::read_catalogue(&path)?;
        if catalogue_sha256(&catalogue)? != self.get::<String>("items_sha256")? {
            return Err(Error::model(
                &path,
                "not the items that the run was made on",
            ));
        }
        let nobody = InteractionsBuilder::new(catalogue.len()).build().0;
        Ok((catalogue, Private::new(nobody)))
    }

    fn factor_file(
        &self,
        fitted: Fitted<FactorModel>,
        catalogue: &ItemCatalogue,
    ) -> Result<Rebuilt> {
        let [(_, bytes), _] = model_files(&fitted.model, catalogue)?;
        Ok(Rebuilt::of(FACTORS, bytes, fitted))
    }

    fn factors(&self) -> Result<Rebuilt> {
        let mut fit = self.get::<FactorizationParams>("settings")?.check()?;
        let (catalogue, nobody) = self.catalogue()?;
        if let Some(sha256) = self.get::<Option<String>>(PRIOR_SHA256)? {
            let path = self.folder.join(PRIOR);
            let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
            if dp_accounting::sha256_hex(&bytes) != sha256 {
                let reason = "not the prior that the run was made with";
                return Err(Error::model(&path, reason));
            }
            fit = fit.with_prior(PriorTable::read(&path)?.of(&catalogue)?)?;
        }
        let fitted = self.replay(&fit, &nobody, catalogue.len())?;
        self.factor_file(fitted, &catalogue)
    }

    fn tuned(&self) -> Result<Rebuilt> {
        let candidates = self
            .get::<Vec<FactorizationParams>>("candidates")?
            .into_iter();
        let candidates = candidates.map(FactorizationParams::check);
        let candidates = candidates.collect::<dp_multitask::Result<Vec<_>>>()?;
        let tuning = Tuning::new(candidates, self.get::<TuningParams>("tuning")?)?;
        let (catalogue, nobody) = self.catalogue()?;
        let fitted = self.replay(&tuning, &nobody, catalogue.len())?;
        self.factor_file(fitted.map(|tuned| tuned.model), &catalogue)
    }

    /// The run of a trainer, and of the metrics that were released with its model.
    fn replay<T: Trainer>(
        &self,
        trainer: &T,
        nobody: &T::Data,
        width: usize,
    ) -> Result<Fitted<T::Model>>
    where
        Error: From<T::Error>,
        T::Model: LearntUnit,
    {
        let release: Option<MetricRelease> = self.get(MetricRelease::KEY)?;
        let trainer = with_metrics(trainer, release.as_ref(), self.target()?);
        let plan = trainer.plan(width, self.target()?, ADJACENCY)?;
        self.along(&trainer, nobody, &plan)
    }

    /// The same with a given plan.
    fn along<T: Trainer>(
        &self,
        trainer: &WithMetrics<'_, T>,
        nobody: &T::Data,
        plan: &Plan,
    ) -> Result<Fitted<T::Model>>
    where
        Error: From<T::Error>,
        T::Model: LearntUnit,
    {
        let data = TrainedAndHeldOut {
            train: nobody,
            scored: &|_| Ok(Vec::new()),
        };
        Ok(Measured::certified(trainer.run(&data, self.run(plan)?)?))
    }

    fn item_features(&self) -> Result<Rebuilt> {
        let (catalogue, nobody) = self.catalogue()?;
        let path = self.folder.join(crate::item_features::FEATURES);
        let bytes = fs::read(&path).map_err(|e| Error::read(&path, e))?;
        if dp_accounting::sha256_hex(&bytes) != self.get::<String>("features_sha256")? {
            return Err(Error::model(
                &path,
                "not the features that the run was made on",
            ));
        }
        let sizes: Vec<usize> = self.get("category_sizes")?;
        let (rounds, prior) = crate::item_features::of_public(
            self.get("settings")?,
            self.get("prior_variances")?,
            crate::item_features::read_features(&path, catalogue.len(), &sizes)?,
        )?;
        let release: Option<MetricRelease> = self.get(MetricRelease::KEY)?;
        let released = (release.as_ref(), self.target()?);
        let plan = rounds.plan(catalogue.len(), released, ADJACENCY)?;
        let made = rounds.replay(&prior, &nobody, released, self.run(&plan)?)?;
        self.factor_file(made.fitted, &catalogue)
    }

    fn nights(&self) -> Result<Rebuilt> {
        let n_nights = (self.n_nights).ok_or_else(|| self.wrong("no number of nights"))?;
        if let Ok(rows) = self.get::<RowNights>("settings") {
            return self.nights_of_rows(&rows, n_nights);
        }
        let params: NightlyParams = self.get("settings")?;
        let most_items = params.most_items;
        let order = Items::of_model(self.folder)?;
        let mut trainer = params.check()?.until(n_nights);
        if let Some(items) = &order {
            trainer = items.describe(trainer)?;
        }
        let plan = trainer.plan(most_items, self.target()?, ADJACENCY)?;
        let catalogue = dp_data::read_catalogue(self.folder.join(ITEMS))?;
        let nobody = InteractionsBuilder::new(catalogue.len()).build().0;
        let fitted = trainer.run(&Private::new(nobody), self.run(&plan)?)?;
        let made = fitted.model.model.n_items();
        // items may have been added after the night, before its model was written again
        if made > catalogue.len() {
            let reason = format!(
                "{ITEMS} has {} items, and the night has {made}",
                catalogue.len()
            );
            return Err(self.wrong(&reason));
        }
        let numbers = match order {
            Some(items) => items.numbers(&catalogue)?,
            None => (0..).take(catalogue.len()).collect(),
        };
        let model = by_catalogue(&fitted.model.model, &numbers)?;
        self.factor_file(fitted.map(|_| model), &catalogue)
    }

    fn nights_of_rows(&self, rows: &RowNights, n_nights: usize) -> Result<Rebuilt> {
        let (trainer, plan) = (rows.trainer()?.until(n_nights), rows.plan(self.target()?)?);
        let nobody = UserSamplesBuilder::new(rows.inputs.dim(), rows.max_rows)?;
        let fitted = trainer.run(&nobody.build().0, self.run(&plan)?)?;
        let bytes = subspace_bytes(&fitted.model.subspace, &rows.inputs)?;
        Ok(Rebuilt::of(SUBSPACE, bytes, fitted))
    }

    fn subspace(&self) -> Result<Rebuilt> {
        let inputs = self.inputs()?;
        let fit = self.get::<MethodSettings>("settings")?.check(&inputs)?;
        let mut nobody = UserSamplesBuilder::new(inputs.dim(), self.get("max_rows")?)?;
        if inputs.has_level_prior() {
            nobody = nobody.with_levels();
        }
        let fitted = self.replay(&fit, &nobody.build().0, inputs.dim())?;
        let bytes = subspace_bytes(&fitted.model, &inputs)?;
        Ok(Rebuilt::of(SUBSPACE, bytes, fitted))
    }

    fn inputs(&self) -> Result<Inputs> {
        let inputs: Inputs = self.get("inputs")?;
        inputs.check().map_err(|reason| self.wrong(&reason))?;
        Ok(inputs)
    }

    fn shared(&self) -> Result<Rebuilt> {
        let (target, shape): (_, Shape) = (self.target()?, self.get("shape")?);
        let (settings, inputs): (RunSettings, _) = (self.get("settings")?, self.inputs()?);
        let share: Option<f64> = self.get("choice_share")?;
        let votes: Option<bool> = self.get("prior_votes")?;
        let choice = share.map(|share| selection(share, target.epsilon, shape.loss_range));
        let alphas = shape.alphas.iter().copied();
        let spending = Spending {
            settings,
            alphas: alphas.filter(|&alpha| alpha > 0.0).collect(),
            counts_users: shape.n_users.is_none(),
            n_items: self.get("n_items")?,
            choice: choice.transpose()?,
            has_votes: votes.unwrap_or(false),
        };
        let release: Option<MetricRelease> = self.get(MetricRelease::KEY)?;
        let metrics = release.as_ref();
        let draft = spending.plan_with(1, target, metrics)?;
        let plan = spending.resized(&draft, inputs.dim(), metrics)?;
        let all = AllRuns {
            spending,
            inputs,
            shape,
            assumptions: Vec::new(),
        };
        let trainer = with_metrics(&all, metrics, target);
        let fitted = self.along(&trainer, &Rows::of_nobody(), &plan)?;
        let chosen = fitted.model.chosen;
        let chosen = fitted
            .model
            .private
            .get(chosen)
            .zip(all.shape.alphas.get(chosen));
        let (model, &alpha) = chosen.ok_or_else(|| self.wrong("no such alpha"))?;
        let bytes = shared_bytes(
            &model.shared,
            (alpha, fitted.model.prior.as_ref()),
            &settings,
            &all.inputs,
        )?;
        Ok(Rebuilt::of(SHARED, bytes, fitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Given, TrainSettings};
    use crate::watch::Silent;
    use crate::workflows::train::train;

    /// Trains a model in this folder, and returns its certificate and its list.
    fn trained(dir: &Path, more: &[(&str, &str)]) -> (PathBuf, Certificate, PathBuf) {
        let [data, out] = ["ratings.csv", "model"].map(|at| dir.join(at));
        let rows = (0..40).map(|row| format!("{},{},3\n", row / 4, row % 5));
        let rows = "user,item,rating\n".to_owned() + &rows.collect::<String>();
        fs::write(&data, rows).unwrap();
        let given = Given::default()
            .with("ratings", data.display().to_string())
            .with("out", out.display().to_string())
            .with("no_ledger", "true")
            .with("item_ids_are_public", "true")
            .with("epsilon", "1")
            .with("delta", "1e-5");
        let given = (more.iter()).fold(given, |given, (name, value)| given.with(name, *value));
        let settings: TrainSettings = given.settings().unwrap();
        train(&settings, &mut Silent).unwrap();
        let written = out.join(output::CERTIFICATE);
        let certificate = output::read_certificate(&written).unwrap();
        let list = internal_folder_of(&out).join(INTERNAL_RELEASES);
        (out, certificate, list)
    }

    #[test]
    fn a_list_of_seeded_noise_makes_no_private_model() {
        let dir = tempfile::tempdir().unwrap();
        let (out, mut certificate, list) = trained(dir.path(), &[("insecure_seed", "1")]);
        let by = |certificate: &_| recompute(&out, Some(&list), certificate).unwrap();
        assert!(matches!(by(&certificate), Recomputed::Same { .. }));
        certificate.status = Status::Private;
        let Recomputed::Differs { what } = by(&certificate) else {
            panic!("{:?}", by(&certificate));
        };
        assert!(what.contains("noise was seeded"), "{what}");
    }

    #[test]
    fn a_model_of_other_numerics_or_another_processor_cannot_be_recomputed() {
        let dir = tempfile::tempdir().unwrap();
        let (out, mut certificate, list) = trained(dir.path(), &[]);
        let by = |certificate: &_| recompute(&out, Some(&list), certificate).unwrap();
        let same = by(&certificate);
        assert!(matches!(same, Recomputed::Same { .. }), "{same:?}");
        // of another processor, as long as its model is the same
        let made = certificate.made.take().unwrap();
        let mut elsewhere = certificate.clone();
        elsewhere.made = Some(dp_accounting::Making {
            instructions: "of another processor".to_owned(),
            ..made.clone()
        });
        assert!(matches!(by(&elsewhere), Recomputed::Same { .. }));
        certificate.made = Some(made);
        let factors = fs::read(out.join(FACTORS)).unwrap();
        let mut changed = factors.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(out.join(FACTORS), changed).unwrap();
        assert!(matches!(by(&certificate), Recomputed::Differs { .. }));
        let Recomputed::Cannot { because } = by(&elsewhere) else {
            panic!("{:?}", by(&elsewhere));
        };
        assert!(because.contains("processor"), "{because}");
        fs::write(out.join(FACTORS), factors).unwrap();
        let found = || by(&certificate);
        let text = fs::read_to_string(out.join(RELEASED)).unwrap();
        let [own, other] = [NUMERICS, NUMERICS + 1].map(|n| format!("\"numerics\": {n}"));
        assert!(text.contains(&own), "{text}");
        fs::write(out.join(RELEASED), text.replace(&own, &other)).unwrap();
        let Recomputed::Cannot { because } = found() else {
            panic!("{:?}", found());
        };
        assert!(because.contains("use that version"), "{because}");
    }
}
