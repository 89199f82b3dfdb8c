//! What was released, and how a user's own model comes of it.

use std::path::Path;

use dp_fedsgd::{LocalChoice, Provenance as SharedProvenance};
use dp_personalize::{LocalFit, Provenance, Subspace};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::federated::{folded_in, rows_to_choose_by, with_shared};
use crate::output::{ReleasedShared, SHARED, SUBSPACE, read_shared, read_subspace};
use crate::personal::{Inputs, Personal, Task, Users};

/// The model of a folder.
pub(super) enum Learned {
    /// Of `dp personalize`.
    Subspace(Box<(Subspace, LocalFit)>),
    /// Of `dp federate`.
    Shared(Box<(ReleasedShared, LocalChoice)>),
}

impl Learned {
    pub(super) fn read(folder: &Path) -> Result<(Self, Inputs)> {
        if folder.join(SHARED).exists() && !folder.join(SUBSPACE).exists() {
            let shared = read_shared(folder)?;
            let inputs = shared.inputs.clone();
            let choice = with_shared(&inputs)?;
            return Ok((Self::Shared(Box::new((shared, choice))), inputs));
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

    /// A user's own fit: in the subspace; of classes by the run's local steps, otherwise the own choice of round, weight and ridge.
    pub(super) fn fit(&self, inputs: &Inputs, users: &Users, user: usize) -> Result<Personal> {
        let coefficients = match self {
            Self::Subspace(model) => return Ok(users.fit(user, &model.1, &model.0)),
            Self::Shared(model) => {
                let (shared, choice) = model.as_ref();
                match inputs.task {
                    Task::Regression => {
                        let rows = rows_to_choose_by(inputs, users, user);
                        choice.choose(&shared.offered(), &rows).coefficients
                    }
                    Task::Classification { .. } => folded_in(
                        inputs,
                        &shared.settings,
                        shared.alpha,
                        &shared.last,
                        users,
                        user,
                    )?,
                }
            }
        };
        Ok(users.with_coefficients(user, coefficients))
    }

    pub(super) fn provenance(&self) -> Value {
        match self {
            Self::Subspace(model) => json!(model.0.provenance()),
            Self::Shared(model) => json!(model.0.provenance),
        }
    }

    /// What to say of a model that is not private.
    pub(super) fn warning(&self) -> Option<&'static str> {
        let (private, seeded) = match self {
            Self::Subspace(model) => {
                let found = model.0.provenance();
                (
                    found == Provenance::Private,
                    found == Provenance::SeededNoise,
                )
            }
            Self::Shared(model) => {
                let found = model.0.provenance;
                // zeros say nothing of anybody
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
    /// The shared parts that users choose from.
    fn offered(&self) -> Vec<&[f64]> {
        let kept = self.trajectory.chunks_exact(self.last.len().max(1));
        kept.chain([self.last.as_slice()]).collect()
    }
}
