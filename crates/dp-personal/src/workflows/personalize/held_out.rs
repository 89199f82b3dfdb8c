//! The parts of the data, and the measurements on those that are held out.

use dp_accounting::Plan;
use dp_core::Private;
use dp_data::{SampleTable, SplitUser};
use dp_mechanism::NoiseSource;
use dp_personalize::{Observer, Provenance, Round, Subspace, UserPrior};

use crate::error::Result;
use crate::metric_release::OwnMetrics;
use crate::output::{ByRound, RoundLine};
use crate::personal::{
    Baselines, Errors, Inputs, MethodName, UserErrors, Users, errors_in_subspace, errors_of_users,
    shares_of, whole_space,
};
use crate::rounds::MeasuredRounds;
use crate::settings::PersonalHeldOutSettings;

/// Users with their parts.
pub(crate) struct HeldOut {
    split: Private<Vec<SplitUser>>,
    train: Users,
    /// Every user in the order of the split, if some are excluded from training.
    all: Option<Users>,
    measure: bool,
}

impl HeldOut {
    pub(crate) fn new(
        args: &PersonalHeldOutSettings,
        max_rows: usize,
        inputs: &Inputs,
        table: SampleTable,
    ) -> Result<Self> {
        let shares = shares_of(args.no_split, args.shares.given())?;
        let n_features = inputs.features.len();
        let split = shares.split(table.into_users(), n_features, args.split_seed)?;
        let users = |held_out: bool| {
            let mine = split.expose().iter();
            let mine = mine.filter(|user| held_out || !user.held_out);
            let mine = mine.map(|user| &user.history);
            Users::with_levels(inputs, mine, max_rows)
        };
        let (train, all) = (users(false)?, shares.held_out_users > 0.0);
        Ok(Self {
            all: all.then(|| users(true)).transpose()?,
            train,
            split,
            measure: !args.no_split,
        })
    }

    pub(crate) const fn train(&self) -> &Users {
        &self.train
    }

    /// Stores the rounds that will be measured.
    pub(super) fn rounds(&self, n_rounds: usize) -> Rounds {
        Rounds::of(n_rounds, self.measure)
    }

    /// The error of personal fits after rounds, as [`measure`](Self::measure) computes it for the
    /// last; none if no rounds were stored.
    pub(super) fn by_round(
        &self,
        inputs: &Inputs,
        rounds: Rounds,
        prior: Option<&UserPrior>,
    ) -> Result<Option<ByRound>> {
        let users = self.all.as_ref().unwrap_or(&self.train);
        let (mut numbers, mut values) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (round, subspace) in rounds.into_subspaces()? {
            let subspace = subspace.with_user_prior(prior.cloned());
            let users = errors_in_subspace(inputs, users, self.split.expose(), &subspace)?;
            numbers.push(round);
            for (held_out, values) in [false, true].into_iter().zip(&mut values) {
                let errors = Errors::of(inputs, &users, held_out);
                values.push(MethodName::Private.over_rows(&errors));
            }
        }
        let metric = format!("{} on held-out rows", inputs.metric());
        let lines = values.map(|values| (values.iter().any(Option::is_some)).then_some(values));
        let (trained, held_out) = ("users trained on", "users held out");
        let one = |values| ByRound::one_line(&metric, numbers.clone(), values);
        Ok(match lines {
            [None, None] => None,
            [Some(values), None] => Some(one(values)),
            [None, Some(values)] => Some(ByRound {
                name: held_out.to_owned(),
                ..one(values)
            }),
            [Some(values), Some(others)] => Some(ByRound {
                name: trained.to_owned(),
                others: vec![RoundLine {
                    name: held_out.to_owned(),
                    values: others,
                }],
                ..one(values)
            }),
        })
    }

    /// Users' scores by personal fits in a released subspace, and by their own rows alone: from
    /// released values and each user's own rows.
    pub(super) fn scored(
        &self,
        inputs: &Inputs,
        released: &Subspace,
    ) -> Result<Vec<Option<OwnMetrics>>> {
        let users = self.all.as_ref().unwrap_or(&self.train);
        let errors =
            |subspace: &Subspace| errors_in_subspace(inputs, users, self.split.expose(), subspace);
        let (own, alone) = (errors(released)?, errors(&whole_space(inputs.dim())?)?);
        let at = MethodName::ALL
            .iter()
            .position(|of| *of == MethodName::Private);
        let error = |user: &UserErrors| at.and_then(|at| user.errors[at]);
        let pairs = own.iter().zip(&alone);
        let of_user = |(own, alone): (&UserErrors, &UserErrors)| {
            (own.n_test > 0).then(|| OwnMetrics {
                model: vec![error(own)],
                baseline: error(alone),
            })
        };
        Ok(pairs.map(of_user).collect())
    }

    /// Errors of all users; without held-out rows only their numbers of rows.
    pub(crate) fn measure(
        &self,
        inputs: &Inputs,
        private: &Subspace,
        plan: &Plan,
        noise: &mut NoiseSource,
    ) -> Result<Vec<UserErrors>> {
        let split = self.split.expose();
        if !self.measure {
            let n_features = inputs.features.len();
            return Ok(split
                .iter()
                .map(|user| UserErrors::none(user, n_features))
                .collect());
        }
        let baselines = Baselines::new(
            &self.train,
            private,
            inputs.weighed_fit().ok(),
            plan,
            0,
            noise,
        )?;
        let users = self.all.as_ref().unwrap_or(&self.train);
        errors_of_users(inputs, users, split, &baselines)
    }
}

/// The start and the subspaces after rounds that will be measured. Released values, or computed
/// from them.
pub(super) struct Rounds {
    /// None if nothing will be measured, or there are no rounds.
    measured: Option<MeasuredRounds>,
    seen: Vec<(usize, dp_personalize::Result<Subspace>)>,
}

impl Rounds {
    pub(super) fn of(n_rounds: usize, measure: bool) -> Self {
        let is_shown = measure && n_rounds > 0;
        Self {
            measured: is_shown.then(|| MeasuredRounds::of(n_rounds)),
            seen: Vec::new(),
        }
    }

    pub(super) fn into_subspaces(self) -> Result<Vec<(usize, Subspace)>> {
        let seen = self.seen.into_iter();
        seen.map(|(round, subspace)| Ok((round, subspace?)))
            .collect()
    }
}

impl Observer for Rounds {
    fn round(&mut self, round: &Round<'_>) {
        if self.measured.is_some_and(|of| of.contain(round.round)) {
            // measured by the holder of the data, and never released from here
            let subspace = Subspace::of_round(round, Provenance::NonPrivate);
            self.seen.push((round.round, subspace));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_kept_only_where_they_are_measured() {
        for (n_rounds, measure, expected) in [
            (2, true, &[0, 1, 2][..]),
            (40, true, &[0, 2, 4, 6]),
            (2, false, &[]),
            (0, true, &[]),
        ] {
            let mut rounds = Rounds::of(n_rounds, measure);
            for round in 0..=n_rounds.min(7) {
                rounds.round(&Round {
                    round,
                    parameters: &[1.0],
                    shape: (1, 1),
                    local: None,
                });
            }
            let seen = rounds.into_subspaces().unwrap().into_iter();
            let seen: Vec<usize> = seen.map(|(round, _)| round).collect();
            assert_eq!(seen, expected);
        }
    }
}
