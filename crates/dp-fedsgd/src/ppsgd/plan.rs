//! What a run will release, and what that costs.

use dp_accounting::{Plan, PlannedRelease, ReleaseRequest};
use dp_core::{Adjacency, ApproxDp, DpEvent, ReplaceFactor, ShapeError};
use dp_mechanism::Grid;

use super::{Participation, PpSgd};
use crate::{Error, Result};

impl PpSgd {
    /// The plan of all rounds with the least noise for `target`, for an objective with `n_shared` shared parameters. Empty
    /// for `alpha = 0`.
    ///
    /// Full participation is reserved on a [`Budget::new`](dp_accounting::Budget::new), samples on a
    /// [`Budget::schedule`](dp_accounting::Budget::schedule).
    ///
    /// # Errors
    /// [`crate::Error::Accounting`] when the target cannot be met, and under neighbours that the scheme is not defined for (samples of fixed size:
    /// replacement only); [`crate::Error::Mechanism`] when the noise does not fit the kernel's grid.
    pub fn plan(&self, n_shared: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        let plan = match self.params().participation {
            _ if !self.releases() => Plan::calibrate(target, adjacency, &[])?,
            Participation::Full => {
                let requests: Vec<_> = self.requests(n_shared).collect();
                Plan::calibrate(target, adjacency, &requests)?
            }
            Participation::Sampled(_) => {
                let rounds = |z| self.planned(n_shared, z).collect();
                Plan::calibrate_noise(target, adjacency, rounds)?.0
            }
        };
        self.try_grids(n_shared, &plan)?;
        Ok(plan)
    }

    /// The plan of all rounds with a given noise multiplier (noise standard deviation on the sum, over the bound on a user's whole
    /// contribution), and the guarantee that follows at `delta`.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn plan_with_noise(
        &self,
        n_shared: usize,
        noise_multiplier: f64,
        delta: f64,
        adjacency: Adjacency,
    ) -> Result<Plan> {
        let rounds = if self.releases() {
            self.planned(n_shared, noise_multiplier).collect()
        } else {
            Vec::new()
        };
        let plan = Plan::with_noise_multipliers(delta, adjacency, rounds)?;
        self.try_grids(n_shared, &plan)?;
        Ok(plan)
    }

    /// The event of a round: made from the scheme that is run.
    fn event(&self, noise_multiplier: f64) -> DpEvent {
        let gaussian = DpEvent::gaussian(noise_multiplier);
        #[cfg(privacy_mutants)]
        if let Participation::Sampled(dp_mechanism::ClientSampling::Poisson(poisson)) =
            self.params().participation
            && dp_core::mutants::active("sgd-accounted-probability-halved")
        {
            let half = 0.5 * poisson.sampling_probability();
            return DpEvent::sampled_gaussian(noise_multiplier, half);
        }
        match self.params().participation {
            Participation::Full => gaussian,
            Participation::Sampled(sampling) => sampling.event(gaussian),
        }
    }

    fn planned(
        &self,
        n_shared: usize,
        noise_multiplier: f64,
    ) -> impl Iterator<Item = PlannedRelease> {
        let event = self.event(noise_multiplier);
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        (1..=self.params().n_rounds)
            .map(move |round| PlannedRelease::new(label(round), event.clone(), n_draws))
    }

    fn requests(&self, n_shared: usize) -> impl Iterator<Item = ReleaseRequest> {
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        (1..=self.params().n_rounds)
            .map(move |round| ReleaseRequest::new(label(round), 1.0, ReplaceFactor::Two, n_draws))
    }

    /// A plan must list these rounds, of this scheme, with as many draws: whatever noise it has.
    pub(crate) fn check_plan(&self, n_shared: usize, plan: &Plan) -> Result<()> {
        let n_rounds = if self.releases() {
            self.params().n_rounds
        } else {
            0
        };
        let n_draws = self.layout(n_shared).n_coordinates() as u64;
        let same = |(round, planned): (usize, &PlannedRelease)| {
            let scheme =
                noise_multiplier(planned.event()).is_ok_and(|z| *planned.event() == self.event(z));
            scheme && planned.label() == label(round) && planned.n_draws() == n_draws
        };
        if n_rounds == plan.releases().len() && (1..).zip(plan.releases()).all(same) {
            return Ok(());
        }
        Err(Error::Shape(ShapeError {
            name: "plan (made for other rounds, another scheme or another number of parameters)",
            found: plan.releases().len(),
            expected: n_rounds,
        }))
    }

    /// Nothing should be paid for that could not be released, with the least and the largest clip norm that a round may have.
    fn try_grids(&self, n_shared: usize, plan: &Plan) -> Result<()> {
        let Some(first) = plan.releases().first() else {
            return Ok(());
        };
        let noise_multiplier = noise_multiplier(first.event())?;
        for norm in self.params().clip.extremes(self.params().n_rounds) {
            Grid::new(noise_multiplier, self.layout(n_shared).whole_norm(norm))?;
        }
        Ok(())
    }
}

/// The Gaussian noise multiplier of a round's event.
pub(crate) fn noise_multiplier(event: &DpEvent) -> Result<f64> {
    let inside = match event {
        DpEvent::PoissonSampled { event, .. }
        | DpEvent::SampledWithoutReplacement { event, .. } => event,
        other => other,
    };
    match inside {
        &DpEvent::Gaussian {
            noise_multiplier, ..
        } => Ok(noise_multiplier),
        _ => Err(dp_accounting::Error::NotGaussian {
            what: "a round".to_owned(),
        }
        .into()),
    }
}

fn label(round: usize) -> String {
    format!("round {round}")
}
