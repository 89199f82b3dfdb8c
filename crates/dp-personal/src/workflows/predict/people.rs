//! Users' own models, and what these predict.

use std::collections::HashMap;

use dp_data::{SampleTable, SampleUser};

use super::OwnModel;
use super::learned::Learned;
use crate::error::Result;
use crate::personal::{Inputs, Personal, Users};

/// Users with their own models.
pub(super) struct People {
    ids: Vec<String>,
    n_rows: Vec<usize>,
    models: Vec<Personal>,
    by_id: HashMap<String, usize>,
    /// Of somebody without history.
    stranger: Personal,
}

impl People {
    pub(super) fn fit(inputs: &Inputs, learned: &Learned, history: &SampleTable) -> Result<Self> {
        let (users, n_features) = (history.users().expose(), inputs.features.len());
        let n_rows: Vec<usize> = users.iter().map(|u| u.rows(n_features).len()).collect();
        let most = n_rows.iter().copied().max().unwrap_or(0).clamp(1, 1 << 16);
        // the last place is that of a user without rows
        let nobody = SampleUser::default();
        let all = Users::new(inputs, users.iter().chain([&nobody]), most)?;
        let fit = |user| learned.fit(inputs, &all, user);
        let ids: Vec<String> = users.iter().map(|user| user.id().to_owned()).collect();
        Ok(Self {
            models: (0..users.len()).map(fit).collect::<Result<_>>()?,
            stranger: fit(users.len())?,
            by_id: ids.iter().cloned().zip(0..).collect(),
            ids,
            n_rows,
        })
    }

    /// The model of a user: the one of that id, or else the only one where the history names no users.
    fn model(&self, id: &str) -> &Personal {
        let at = self.by_id.get(id).or_else(|| self.by_id.get(""));
        at.map_or(&self.stranger, |&at| &self.models[at])
    }

    /// User and prediction of every row, in the order of the file.
    pub(super) fn predict(&self, inputs: &Inputs, table: &SampleTable) -> Vec<(String, f64)> {
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

    /// The users' own models.
    pub(super) fn models(&self) -> Vec<OwnModel> {
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
