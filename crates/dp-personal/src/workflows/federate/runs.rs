//! The run of every alpha on one reading of the data.

use dp_accounting::{Plan, Spend};
use dp_fedsgd::{Observer, PpSgdModel, Round};
use dp_mechanism::{NoiseSource, release_user_count};

use super::settings::Settings;
use super::source::Source;
use crate::error::Result;
use crate::federated::{
    Convergence, DescribedItems, Figures, Group, Paid, Parts, RunSettings, Spending, Trainer,
    UserFigures, coefficients, folded_in,
};
use crate::personal::Inputs;
use crate::settings::FederateSettings;

/// The runs of all alphas in their order, private and without noise.
pub(super) struct Runs {
    pub(super) inputs: Inputs,
    /// Of ratings.
    pub(super) items: Option<DescribedItems>,
    pub(super) parts: Parts,
    pub(super) private: Vec<PpSgdModel>,
    /// What the certificates of the private runs take on trust: the same for all.
    pub(super) assumptions: Vec<String>,
    without_noise: Vec<PpSgdModel>,
    pub(super) n_left_out: usize,
    /// Where rounds were to be measured.
    pub(super) convergence: Option<Convergence>,
    alphas: Vec<f64>,
    settings: RunSettings,
    n_users: f64,
}

/// What is trained and with which noise.
pub(super) struct Order<'a> {
    pub(super) args: &'a FederateSettings,
    pub(super) settings: &'a Settings,
    pub(super) alphas: &'a [f64],
    pub(super) spending: &'a Spending,
    pub(super) plan: &'a Plan,
    /// Whether errors after rounds are wanted, for internal files.
    pub(super) measures_rounds: bool,
}

impl Order<'_> {
    /// Trains every alpha with what was paid.
    pub(super) fn fill(&self, source: Source, paid: Paid, noise: &mut NoiseSource) -> Result<Runs> {
        let inputs = source.inputs(self.settings)?;
        let (table, items) = source.into_rows(paid.items, noise)?;
        let n_left_out = *table.n_not_finite().expose();
        let (shares, max_rows) = (self.settings.shares_of_run(), self.args.columns.max_rows);
        let seed = self.args.held_out.split_seed;
        let parts = Parts::new(&inputs, table.into_users(), shares, max_rows, seed)?;
        let n_users = self.n_users(&parts, paid.users, noise)?;
        let trainer = Trainer::new(self.spending.settings, &inputs, &parts, n_users)?;
        let z = Spending::round_noise(self.plan).unwrap_or(1.0);
        let (mut runs, delta) = (paid.runs.into_iter(), self.plan.target().delta);
        let n_rounds = self.spending.settings.n_rounds;
        let mut convergence = self.measures_rounds.then(|| Convergence::new(n_rounds));
        let (mut private, mut assumptions) = (Vec::new(), Vec::new());
        for &alpha in self.alphas {
            let spends = if alpha > 0.0 { runs.next() } else { None };
            let spends = spends.unwrap_or_default();
            if let Some(of) = &mut convergence {
                of.begin_run();
            }
            let mut observer = Measured {
                convergence: convergence.as_mut(),
                inputs: &inputs,
                trained: &parts.trained,
            };
            let made = trainer.private(alpha, z, delta, spends, noise, &mut observer)?;
            private.push(made.0);
            if let Some(certificate) = made.1 {
                assumptions = certificate.assumptions;
            }
        }
        Ok(Runs {
            items,
            convergence,
            inputs,
            parts,
            private,
            assumptions,
            without_noise: Vec::new(),
            n_left_out,
            alphas: self.alphas.to_vec(),
            settings: self.spending.settings,
            n_users,
        })
    }

    /// What sums are divided by: the public share that is trained on of the declared users, or a noisy count of those who are trained on.
    fn n_users(&self, parts: &Parts, spend: Option<Spend>, noise: &mut NoiseSource) -> Result<f64> {
        match (self.args.model.n_users, spend) {
            (None, Some(spend)) => {
                let users = parts.trained.rows().samples().table();
                let count = release_user_count(users, spend, noise);
                Ok(count.map_err(dp_fedsgd::Error::from)?.value().max(1.0))
            }
            (declared, _) => Ok(declared.unwrap_or(1.0) * self.settings.trained_share()),
        }
    }
}

/// Measures rounds as they end.
struct Measured<'a> {
    convergence: Option<&'a mut Convergence>,
    inputs: &'a Inputs,
    trained: &'a Group,
}

impl Observer for Measured<'_> {
    fn round(&mut self, round: &Round<'_>) {
        if let Some(convergence) = &mut self.convergence {
            convergence.measure(self.inputs, self.trained, round);
        }
    }
}

impl Runs {
    /// Trains the same without noise.
    pub(super) fn compare(&mut self) -> Result<()> {
        let trainer = Trainer::new(self.settings, &self.inputs, &self.parts, self.n_users)?;
        let runs = self.alphas.iter();
        self.without_noise = runs
            .map(|&alpha| trainer.without_noise(alpha))
            .collect::<Result<_>>()?;
        Ok(())
    }

    /// Errors of all users who were trained on: of the private runs, and then of those without noise.
    pub(super) fn measure(&self) -> Result<Vec<UserFigures>> {
        let all = self.all();
        let own = |run: usize, user: usize| Ok(coefficients(all[run], user));
        Figures::of_users(&self.inputs, &self.parts.trained, all.len(), own)
    }

    /// The same of users who join when everything is released.
    pub(super) fn measure_held_out(&self) -> Result<Vec<UserFigures>> {
        let (all, held_out) = (self.all(), &self.parts.held_out);
        let own = |run: usize, user: usize| {
            let alpha = self.alphas[run % self.alphas.len()];
            let shared = all[run].shared.last();
            folded_in(
                &self.inputs,
                &self.settings,
                alpha,
                shared,
                held_out.rows(),
                user,
            )
        };
        Figures::of_users(&self.inputs, held_out, all.len(), own)
    }

    fn all(&self) -> Vec<&PpSgdModel> {
        self.private.iter().chain(&self.without_noise).collect()
    }
}
