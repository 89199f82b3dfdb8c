//! `dp predict`: users' personal fits in a released subspace or around a released shared part,
//! computed locally. Nothing is spent.

use std::collections::HashMap;
use std::path::Path;

use dp_data::{SampleColumns, SampleTable, SampleUser, TableSource};
use dp_fedsgd::Provenance as SharedProvenance;
use dp_personalize::{Provenance, Subspace};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::federated::{Offer, chosen, folded_in, offered, users_choose};
use crate::output::{ReleasedShared, SHARED, SUBSPACE, read_shared, read_subspace, warn};
use crate::personal::{Inputs, OwnFit, Personal, Task, Users};
use crate::settings::{ClassWeight, PredictSettings};
use crate::workflows::private_run::user_column_of;
use crate::workflows::verify::refuse_uncertified;

/// A user's personal model.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnModel {
    /// The user's id.
    pub user: String,
    /// Number of the user's rows that it was fitted to.
    pub n_rows: usize,
    /// Its value at encoded features of 0.
    pub level: f64,
    /// One coefficient for each of [`Predictions::features`].
    pub coefficients: Vec<f64>,
}

/// Users' personal models, and their predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct Predictions {
    /// The column that is predicted.
    pub target: String,
    /// Names of the encoded features.
    pub features: Vec<String>,
    /// The users of the history.
    pub users: Vec<OwnModel>,
    /// User and prediction of every row to predict, in the order of the file; `None` without such a file.
    pub rows: Option<Vec<(String, f64)>>,
    /// The provenance of the released model behind the personal models.
    pub provenance: Value,
    /// A warning if the released model is not private.
    pub warning: Option<&'static str>,
}

/// Fits users' personal models to the contents of a release folder, locally, and predicts. Nothing
/// is spent.
///
/// # Errors
/// When a file cannot be read, or lacks the columns of the training data.
///
/// # Privacy
/// The result depends on the users' own rows, and is for each user alone.
pub fn predict(args: &PredictSettings) -> Result<Predictions> {
    let model = LinearModel::read(&args.model)?;
    let user_col = args.user_col.as_deref();
    let people = model.personalize(&args.history, user_col, args.class_weight)?;
    let rows = args.rows.as_ref();
    let rows = rows.map(|rows| model.predict(&people, rows, user_col));
    Ok(Predictions {
        users: people.models(),
        features: model.inputs.names().collect(),
        rows: rows.transpose()?,
        provenance: model.learned.provenance(),
        warning: model.learned.warning(),
        target: model.inputs.target.name,
    })
}

/// The release of `dp personalize` or `dp federate`: the shared part of users' linear models.
///
/// # Examples
/// ```no_run
/// use dp_personal::settings::ClassWeight;
/// use dp_personal::workflows::predict::LinearModel;
/// let model = LinearModel::read("dp-model")?;
/// let people = model.personalize("my-rows.csv", None, ClassWeight::None)?;
/// for (user, value) in model.predict(&people, "new-rows.csv", None)? {
///     println!("{user} {value}");
/// }
/// # Ok::<(), dp_personal::error::Error>(())
/// ```
#[allow(missing_debug_implementations, reason = "models are not printed")]
pub struct LinearModel {
    learned: Learned,
    inputs: Inputs,
    /// The column of users' ids in training, if the certificate names it.
    user_column: Option<String>,
}

impl LinearModel {
    /// Reads the model of a release folder.
    ///
    /// # Errors
    /// If the folder holds no such model, or if its certificate is missing, does not hold or is of
    /// other files.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let (learned, inputs) = Learned::read(folder)?;
        let certificate = refuse_uncertified(folder)?;
        Ok(Self {
            learned,
            inputs,
            user_column: user_column_of(&certificate).map(str::to_owned),
        })
    }

    /// Columns, ranges and task.
    #[must_use]
    pub const fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The ratio of global to local steps of a release of `dp federate`, which the run chose if it had several.
    #[must_use]
    pub const fn alpha(&self) -> Option<f64> {
        match &self.learned {
            Learned::Subspace(_) => None,
            Learned::Shared(shared) => Some(shared.alpha),
        }
    }

    /// The released numbers and their shape: an orthonormal basis, one vector per row, or the
    /// shared parameters as one row.
    #[must_use]
    pub fn shared(&self) -> (&[f64], [usize; 2]) {
        match &self.learned {
            Learned::Subspace(model) => {
                let subspace = &model.0;
                (subspace.basis(), [subspace.dim(), subspace.rank()])
            }
            Learned::Shared(shared) => (&shared.last, [1, shared.last.len()]),
        }
    }

    /// A table with the columns of the training data. Its user column is the given one, otherwise
    /// that of training, otherwise one with a usual name, otherwise none: all rows then belong to
    /// one user.
    fn read_samples(
        &self,
        source: &TableSource,
        user_col: Option<&str>,
        with_target: bool,
    ) -> Result<SampleTable> {
        let columns = SampleColumns {
            usual_user: self.user_column.clone(),
            ..columns(user_col, &self.inputs, with_target)
        };
        Ok(dp_data::read_samples(source, &columns)?)
    }

    /// Fits users' personal models to their own labelled rows, locally. Nothing is spent. Without
    /// `user_col`, users are told apart by the column of training if the table has it, and
    /// otherwise by one with a usual name; without either all rows belong to one user.
    ///
    /// For classes with [`ClassWeight::Balanced`], a user's odds of the positive class are
    /// multiplied by `no / yes`, the numbers of negative and positive rows of the user: the
    /// positive class is predicted if this has the lower cost under weights that make both classes
    /// equal (Elkan 2001, Theorem 1). The prediction is then not a probability. The odds of users
    /// with rows of only one class, or none, do not change.
    ///
    /// # Errors
    /// When the table cannot be read, or lacks the columns of the training data; [`Error::Usage`]
    /// for class weights in regression.
    ///
    /// # Privacy
    /// The result depends on the users' own rows, and is for each user alone.
    pub fn personalize(
        &self,
        history: impl Into<TableSource>,
        user_col: Option<&str>,
        class_weight: ClassWeight,
    ) -> Result<OwnModels> {
        if class_weight == ClassWeight::Balanced && self.inputs.task == Task::Regression {
            let reason = "`class_weight` is for models of classes, and this one predicts a number";
            return Err(Error::Usage(reason.to_owned()));
        }
        let history = self.read_samples(&history.into(), user_col, true)?;
        OwnModels::fit(&self.inputs, &self.learned, &history, class_weight)
    }

    /// User and prediction of every row, in the order of the table: a value of the target, or for
    /// classes the probability that it is above the threshold. Rows of users that are not in
    /// `people` are predicted as those of a user without rows.
    ///
    /// # Errors
    /// When the table cannot be read, lacks the columns of the training data, or a number is
    /// missing.
    pub fn predict(
        &self,
        people: &OwnModels,
        rows: impl Into<TableSource>,
        user_col: Option<&str>,
    ) -> Result<Vec<(String, f64)>> {
        let rows = rows.into();
        let name = rows.to_string();
        let table = self.read_samples(&rows, user_col, false)?;
        if *table.n_not_finite().expose() > 0 {
            let reason = "a row holds an empty field or a number that is NaN or infinite: nothing can be predicted from it";
            return Err(Error::model(Path::new(&rows.to_string()), reason));
        }
        let strangers = table.users().expose().iter();
        let n_strangers = strangers.filter(|user| !people.knows(user.id())).count();
        if n_strangers > 0 {
            warn(&format!(
                "{name}: {n_strangers} of {} users have no rows in the history, so their predictions are those of a user without rows; compare the ids \
                 and the user columns of both tables if they should have some",
                table.users().expose().len()
            ));
        }
        let n_users = table.users().expose().len();
        if people.by_id.contains_key("") && n_users > 1 {
            warn(&format!(
                "{name}: the history names no users, so one model of all of its rows predicts for all {n_users} users; if it has a user column under \
                 another name than in training, name it"
            ));
        }
        Ok(people.predict(&self.inputs, &table))
    }
}

/// The columns that the model was trained on.
pub(crate) fn columns(user_col: Option<&str>, inputs: &Inputs, with_target: bool) -> SampleColumns {
    let names = inputs.features.iter().map(|column| column.name.clone());
    SampleColumns {
        user: user_col.map(str::to_owned),
        usual_user: None,
        target: Some(inputs.target.name.clone()),
        features: Some(names.collect()),
        user_is_optional: true,
        without_target: !with_target,
        names: None,
    }
}

/// The model of a folder.
enum Learned {
    /// From `dp personalize`.
    Subspace(Box<(Subspace, OwnFit)>),
    /// From `dp federate`.
    Shared(Box<ReleasedShared>),
}

impl Learned {
    fn read(folder: &Path) -> Result<(Self, Inputs)> {
        if folder.join(SHARED).exists() && !folder.join(SUBSPACE).exists() {
            let shared = read_shared(folder)?;
            let inputs = shared.inputs.clone();
            return Ok((Self::Shared(Box::new(shared)), inputs));
        }
        if folder.is_dir() && !folder.join(SUBSPACE).exists() {
            let reason = format!(
                "holds neither {SUBSPACE} nor {SHARED}; expected a folder of dp personalize or dp federate"
            );
            return Err(Error::model(folder, reason));
        }
        let (subspace, inputs) = read_subspace(folder)?;
        let local = inputs.local_fit()?;
        Ok((Self::Subspace(Box::new((subspace, local))), inputs))
    }

    /// A user's personal fit: with the subspace, or around the released rounds; for classes in
    /// older models by the run's local steps.
    fn fit(&self, inputs: &Inputs, users: &Users, user: usize) -> Result<Personal> {
        match self {
            Self::Subspace(model) => Ok(users.fit(user, &model.1, &model.0)),
            Self::Shared(shared) if users_choose(inputs) => {
                let offer = Offer {
                    models: &shared.offered(inputs.task),
                    prior: shared.prior.as_ref(),
                };
                chosen(inputs, offer, users, user)
            }
            Self::Shared(shared) => {
                let (settings, last) = (&shared.settings, &shared.last);
                let own = folded_in(inputs, settings, shared.alpha, last, users, user)?;
                Ok(users.with_coefficients(user, own))
            }
        }
    }

    fn provenance(&self) -> Value {
        match self {
            Self::Subspace(model) => json!(model.0.provenance()),
            Self::Shared(model) => json!(model.provenance),
        }
    }

    /// A warning if the model is not private.
    fn warning(&self) -> Option<&'static str> {
        let (private, seeded) = match self {
            Self::Subspace(model) => {
                let found = model.0.provenance();
                (
                    found == Provenance::Private,
                    found == Provenance::SeededNoise,
                )
            }
            Self::Shared(model) => {
                let found = model.provenance;
                // zeros reveal nothing
                let private = [SharedProvenance::Private, SharedProvenance::NotTrained];
                (
                    private.contains(&found),
                    found == SharedProvenance::SeededNoise,
                )
            }
        };
        match (private, seeded) {
            (true, _) => None,
            (_, true) => Some("this model is not private: its noise was seeded"),
            _ => Some("this model is not private: it has no noise"),
        }
    }
}

impl ReleasedShared {
    /// The shared parts from which users choose.
    fn offered(&self, task: Task) -> Vec<&[f64]> {
        let kept = self.trajectory.chunks_exact(self.last.len().max(1));
        offered(task, kept, &self.last)
    }
}

/// `ln(yes / no)` of a user's own rows, 0 if one of them is missing.
fn own_log_odds(inputs: &Inputs, targets: impl Iterator<Item = f32>) -> f64 {
    let (mut yes, mut no) = (0_u32, 0_u32);
    for y in targets {
        let n = if inputs.label(y) > 0.0 {
            &mut yes
        } else {
            &mut no
        };
        *n = n.saturating_add(1);
    }
    if yes == 0 || no == 0 {
        return 0.0;
    }
    (f64::from(yes) / f64::from(no)).ln()
}

/// Users with their personal models: private, each for that user alone.
#[allow(
    missing_debug_implementations,
    reason = "holds private models; printing them is never wanted"
)]
pub struct OwnModels {
    ids: Vec<String>,
    n_rows: Vec<usize>,
    models: Vec<Personal>,
    by_id: HashMap<String, usize>,
    /// The model of a user without history.
    stranger: Personal,
}

impl OwnModels {
    fn fit(
        inputs: &Inputs,
        learned: &Learned,
        history: &SampleTable,
        class_weight: ClassWeight,
    ) -> Result<Self> {
        let (users, n_features) = (history.users().expose(), inputs.features.len());
        let n_rows: Vec<usize> = users.iter().map(|u| u.rows(n_features).len()).collect();
        let most = n_rows.iter().copied().max().unwrap_or(0).clamp(1, 1 << 16);
        // the last index is that of a user without rows
        let nobody = SampleUser::default();
        let all = Users::new(inputs, users.iter().chain([&nobody]), most)?;
        let fit = |user| learned.fit(inputs, &all, user);
        let weighed = |user: usize| {
            let rows = users[user].rows(n_features);
            let shift = match class_weight {
                ClassWeight::None => 0.0,
                ClassWeight::Balanced => -own_log_odds(inputs, rows.map(|(_, y)| y)),
            };
            Ok(fit(user)?.shifted(shift))
        };
        let ids: Vec<String> = users.iter().map(|user| user.id().to_owned()).collect();
        Ok(Self {
            models: (0..users.len()).map(weighed).collect::<Result<_>>()?,
            stranger: fit(users.len())?,
            by_id: ids.iter().cloned().zip(0..).collect(),
            ids,
            n_rows,
        })
    }

    /// Whether a user with that id has a model of their own.
    fn knows(&self, id: &str) -> bool {
        let is_named = self.by_id.contains_key(id) || self.by_id.contains_key("");
        is_named || id.is_empty() && self.models.len() == 1
    }

    /// The model of the user with that id; the only one if the history names no users, or if it is
    /// of one user and the rows name none.
    fn model(&self, id: &str) -> &Personal {
        let at = self.by_id.get(id).or_else(|| self.by_id.get(""));
        match (at, &self.models[..]) {
            (Some(&at), _) => &self.models[at],
            (None, [only]) if id.is_empty() => only,
            _ => &self.stranger,
        }
    }

    /// The same models for predictions of rows that are all of one user, whatever user they name.
    ///
    /// # Errors
    /// [`Error::Usage`] if the history is of several users.
    pub fn of_one(mut self) -> Result<Self> {
        if self.ids.len() > 1 {
            let text = format!(
                "the rows are of {} users; expected those of one",
                self.ids.len()
            );
            return Err(Error::Usage(text));
        }
        self.by_id = self.ids.iter().map(|_| (String::new(), 0)).collect();
        Ok(self)
    }

    /// User and prediction of every row, in the order of the file.
    fn predict(&self, inputs: &Inputs, table: &SampleTable) -> Vec<(String, f64)> {
        let users = table.users().expose();
        let mut rows: Vec<_> = users
            .iter()
            .map(|user| user.rows(inputs.features.len()))
            .collect();
        let mut encoded = Vec::new();
        let order = table.order().expose().iter().map(|&user| user as usize);
        order
            .filter_map(|user| {
                let (x, _) = rows[user].next()?;
                inputs.encode(x, &mut encoded);
                let id = users[user].id();
                let score = self.model(id).score(&encoded);
                Some((id.to_owned(), inputs.answer(score)))
            })
            .collect()
    }

    /// The users' personal models.
    #[must_use]
    pub fn models(&self) -> Vec<OwnModel> {
        let users = self.ids.iter().zip(&self.n_rows).zip(&self.models);
        let own = users.map(|((id, &n_rows), model)| OwnModel {
            user: id.clone(),
            n_rows,
            level: model.level(),
            coefficients: model.coefficients().to_vec(),
        });
        own.collect()
    }
}
