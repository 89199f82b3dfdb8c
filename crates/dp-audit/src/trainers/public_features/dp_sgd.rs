use dp_accounting::{Budget, Ledger, Plan};
use dp_core::{Adjacency, ApproxDp, Interactions, Private};
use dp_mechanism::{NoiseSource, Observed, ObservedSums, Run, Trainer as _, vector_contribution};
use dp_pubfeat::{DpSgd, EncoderGradients, Optimiser, PublicEncoder};

use super::ShowTo;
use super::replay::{differs, same};
use crate::Result;
use crate::kernel::vector_view;
use crate::trainers::failed;
use crate::view::View;

/// DP-SGD on an encoder's parameters (`dp-pubfeat`) under audit.
///
/// The parameters before each step are computed here once more from the releases and public settings, and what each user adds if drawn from those. A trainer whose users add anything else, or
/// whose encoder does not follow from its releases, is refused. Who was drawn stays secret also to an audit, so exact sums are not known: scores of canaries and noise where nobody stands are what is
/// left to test ([`audit_epsilon`](crate::audit_epsilon), [`audit_release`](crate::audit_release)).
#[derive(Debug, Clone)]
pub struct AuditedDpSgd<E> {
    fit: DpSgd,
    encoder: E,
    rate: f64,
    plan: Plan,
}

impl<E: PublicEncoder + Clone> AuditedDpSgd<E> {
    /// A fit that starts at this encoder, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] for an optimiser other than SGD, whose steps are the audit's own, or a fit that cannot be planned.
    pub fn new(fit: DpSgd, encoder: E, target: ApproxDp, adjacency: Adjacency) -> Result<Self> {
        let Optimiser::Sgd { rate } = fit.params().optimiser else {
            let what = "an audit of steps other than plain ones";
            return Err(failed(dp_pubfeat::Error::Unsupported { what }));
        };
        let n_rows = encoder.parameters().len() / encoder.dim().max(1);
        let plan = fit.plan(n_rows, target, adjacency).map_err(failed)?;
        Ok(Self {
            fit,
            encoder,
            rate,
            plan,
        })
    }

    /// The plan of a run.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One run on a ledger of its own: the release of each step, its exact sum not known.
    ///
    /// # Errors
    /// [`crate::Error::Trainer`] when the fit fails; [`crate::Error::Shape`] when users or the encoder do not follow from settings and releases.
    pub fn run(&self, data: &Private<Interactions>, noise: &mut NoiseSource) -> Result<Vec<View>> {
        let budget = Budget::schedule(self.plan.target(), self.plan.adjacency())?;
        let spends = Ledger::in_memory("audit", budget)?.reserve(&self.plan)?;
        let (mut own, mut views) = (self.encoder.clone(), Vec::new());
        let mut outcome = Ok(());
        let mut observer = ShowTo(|seen: &Observed<'_>| {
            if outcome.is_ok() {
                outcome = self
                    .step(&mut own, data.expose(), *seen)
                    .map(|view| views.push(view));
            }
        });
        let plan = &self.plan;
        let run = Run::new(plan, spends, noise).map_err(failed)?;
        let trainer = self.fit.with(self.encoder.clone());
        let fitted = trainer.run(data, run.observed_by(&mut observer));
        let fitted = fitted.map_err(failed)?.model;
        outcome?;
        dp_core::params::same_size("releases seen", views.len(), plan.releases().len())?;
        let each = fitted.parameters().iter().zip(own.parameters());
        if { each }.all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + b.abs())) {
            return Ok(views);
        }
        Err(differs("parameters that follow from the releases"))
    }

    /// Holds what users add to what follows from the parameters so far, and takes the step that the release says.
    fn step(&self, own: &mut E, data: &Interactions, seen: Observed<'_>) -> Result<View> {
        let ObservedSums::Vector {
            grid,
            released,
            one_user,
        } = seen.sums
        else {
            return Err(differs("steps on gradients"));
        };
        let params = self.fit.params();
        let gradients = EncoderGradients::new(&params.setup, &*own, params.gradient_norm);
        let gradients = gradients.map_err(failed)?;
        for row in data.users() {
            let expected = vector_contribution(grid, released.len(), &gradients, row);
            same(&one_user(row), &expected, grid.l2_bound())?;
        }
        drop(gradients);
        // the probability that is accounted for is the one that batches are drawn with, rounded up to 2^-64
        let rate = self.rate / params.sampling_probability;
        for (theta, g) in own.parameters_mut().iter_mut().zip(released.values()) {
            *theta -= rate * g;
        }
        let [multiplier, _] = seen.noise_multipliers;
        Ok(vector_view(seen.labels[0], multiplier, grid, released))
    }
}
