//! The shared parameters: the coordinates of a round's release, the step computed from it, and the
//! resulting model.

use dp_core::{Private, ShapeError};
use dp_mechanism::{ClientSampling, Provenance};

use super::{ClipState, LocalTraining, Participation, PpSgd};
use crate::objective::{Gradients, PersonalizedObjective, Point};
use crate::{BatchReduction, Minibatch, Result};

/// Layout of the vector of a round.
///
/// ```text
/// clipped gradient (n_shared),  +-a C if within the clip or not,  a C for taking part
/// ||.|| <= C sqrt(1 + a^2 n_extras)
/// ```
///
/// There is one joint bound, which the kernel checks in integers, and one for each extra
/// coordinate, so that one client counts as one: within `-a C..=a C` and `0..=a C`.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoundLayout {
    pub(crate) n_shared: usize,
    /// Whether there is a coordinate for the share of users within the clipping norm.
    pub(crate) within: bool,
    /// Whether there is a coordinate for the number of clients.
    pub(crate) count: bool,
    /// `a`.
    pub(crate) extra: f64,
}

/// Decoded values of a release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decoded {
    /// Noisy number of clients within the clipping norm minus the number above it, if requested.
    pub(crate) within: Option<f64>,
    /// Noisy number of clients, if requested.
    pub(crate) count: Option<f64>,
}

impl RoundLayout {
    fn n_extras(&self) -> usize {
        usize::from(self.within) + usize::from(self.count)
    }

    pub(crate) fn n_coordinates(&self) -> usize {
        self.n_shared + self.n_extras()
    }

    /// Norm of a user's whole contribution when gradients are clipped to `clip_norm`.
    pub(crate) fn whole_norm(&self, clip_norm: f64) -> f64 {
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("sgd-extras-outside-the-bound") {
            return clip_norm;
        }
        clip_norm
            * (self.extra * self.extra)
                .mul_add(self.n_extras() as f64, 1.0)
                .sqrt()
    }

    /// The extra coordinates of a client.
    pub(crate) fn extras(
        &self,
        clip_norm: f64,
        is_within: bool,
    ) -> impl Iterator<Item = f64> + use<> {
        let size = self.extra * clip_norm;
        let signed = if is_within { size } else { -size };
        let within = self.within.then_some(signed);
        within.into_iter().chain(self.count.then_some(size))
    }

    /// Ranges of the extra coordinates, which come last.
    pub(crate) fn extra_ranges(&self, clip_norm: f64) -> Vec<(f64, f64)> {
        let size = self.extra * clip_norm;
        let within = self.within.then_some((-size, size));
        let count = self.count.then_some((0.0, size));
        within.into_iter().chain(count).collect()
    }

    /// Splits released values: truncates them to the gradient and returns the decoded extra
    /// coordinates.
    pub(crate) fn decode(&self, clip_norm: f64, values: &mut Vec<f64>) -> Decoded {
        let size = self.extra * clip_norm;
        let mut extras = values
            .split_off(self.n_shared.min(values.len()))
            .into_iter();
        let mut next = |there: bool| if there { extras.next() } else { None };
        Decoded {
            within: next(self.within).map(|v| v / size),
            count: next(self.count).map(|v| v / size),
        }
    }
}

/// The shared parameters of a run in progress, with the clipping norm, computed from released
/// values alone.
pub(crate) struct SharedState {
    shared: Vec<f64>,
    /// Sum of `w` at the starts of rounds; empty when no average is requested.
    sum: Vec<f64>,
    clip: ClipState,
    kept: Vec<KeptRound>,
    n_rounds: usize,
}

impl SharedState {
    pub(crate) fn new(fit: &PpSgd, n_shared: usize) -> Self {
        Self {
            shared: vec![0.0; n_shared],
            sum: vec![0.0; if fit.params().average { n_shared } else { 0 }],
            clip: ClipState::new(fit.params().clip),
            kept: Vec::new(),
            n_rounds: 0,
        }
    }

    pub(crate) fn parameters(&self) -> &[f64] {
        &self.shared
    }

    /// Clipping norm of the next round.
    pub(crate) const fn clip_norm(&self) -> f64 {
        self.clip.norm()
    }

    /// Number of rounds begun.
    pub(crate) const fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    pub(crate) fn begin_round(&mut self, round: usize) {
        // rounds that were paid for and skipped began with the same parameters
        let times = (round - self.n_rounds.min(round)) as f64;
        for (sum, w) in self.sum.iter_mut().zip(&self.shared) {
            *sum += times * w;
        }
        self.n_rounds = round;
    }

    /// Makes the step given by the released values, if there are any; returns whether a step was
    /// made.
    pub(crate) fn end_round(&mut self, fit: &PpSgd, values: Option<Vec<f64>>) -> bool {
        let stepped = values.is_some_and(|values| self.step(fit, values));
        let every = fit.params().keep_every;
        if every > 0 && self.n_rounds.is_multiple_of(every) {
            self.kept.push(KeptRound {
                round: self.n_rounds,
                shared: self.shared.clone(),
            });
        }
        stepped
    }

    /// `w <- w - eta_global values / (q N)`, and the clipping norm of the next round. A round with
    /// too few clients has no effect except its cost.
    fn step(&mut self, fit: &PpSgd, mut values: Vec<f64>) -> bool {
        let params = fit.params();
        let layout = fit.layout(self.shared.len());
        let extras = layout.decode(self.clip.norm(), &mut values);
        let too_few = extras.count.zip(params.minimum_clients);
        if too_few.is_some_and(|(count, minimum)| count < minimum) {
            return false;
        }
        let rate = fit.step_sizes(self.n_rounds).1 / params.denominator();
        for (w, value) in self.shared.iter_mut().zip(&values) {
            *w -= rate * value;
        }
        let clients = params.expected_clients();
        let share = extras.within.map(|balance| 0.5 + 0.5 * balance / clients);
        self.clip.advance(share);
        true
    }

    pub(crate) fn into_model(self, average: bool, provenance: Provenance) -> SharedModel {
        let n = self.n_rounds.max(1) as f64;
        SharedModel {
            last: self.shared,
            average: average.then(|| self.sum.iter().map(|sum| sum / n).collect()),
            clip_norm: self.clip.norm(),
            n_rounds: self.n_rounds,
            kept: self.kept,
            provenance,
        }
    }
}

/// Released shared parameters.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SharedModel {
    pub(crate) last: Vec<f64>,
    pub(crate) average: Option<Vec<f64>>,
    pub(crate) clip_norm: f64,
    pub(crate) n_rounds: usize,
    pub(crate) kept: Vec<KeptRound>,
    pub(crate) provenance: Provenance,
}

/// A released model from an intermediate round.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct KeptRound {
    /// Number of rounds completed.
    pub round: usize,
    /// `w` after these rounds.
    pub shared: Vec<f64>,
}

impl SharedModel {
    /// `w_T`.
    #[must_use]
    pub fn last(&self) -> &[f64] {
        &self.last
    }

    /// The mean of `w_0, ..., w_(T-1)`, if the settings request it.
    #[must_use]
    pub fn average(&self) -> Option<&[f64]> {
        self.average.as_deref()
    }

    /// The clipping norm that a further round would use.
    #[must_use]
    pub const fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Number of rounds completed.
    #[must_use]
    pub const fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    /// The models stored along the way, in order.
    #[must_use]
    pub fn kept(&self) -> &[KeptRound] {
        &self.kept
    }

    /// Who may see the model.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }
}

/// The local parameters of the users of a table: private; each user may see only their own.
#[derive(PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds private models; printing them is never wanted"
)]
pub struct LocalModels {
    pub(crate) n_users: usize,
    pub(crate) n_local: usize,
    pub(crate) last: Vec<f64>,
    pub(crate) average: Option<Vec<f64>>,
}

impl LocalModels {
    /// Number of users whose local parameters these are; as private as the number of users of the
    /// table.
    #[must_use]
    pub const fn n_users(&self) -> usize {
        self.n_users
    }

    /// `theta_i` after the last round.
    ///
    /// # Panics
    /// When there is no such user.
    #[must_use]
    pub fn last(&self, user: usize) -> &[f64] {
        &self.last[user * self.n_local..][..self.n_local]
    }

    /// The mean of `theta_i` over the starts of all rounds, if the settings request it.
    ///
    /// # Panics
    /// When there is no such user.
    #[must_use]
    pub fn average(&self, user: usize) -> Option<&[f64]> {
        let all = self.average.as_ref()?;
        Some(&all[user * self.n_local..][..self.n_local])
    }
}

/// Result of [`PpSgdTrainer`](super::PpSgdTrainer): shared parameters, and the local parameters of
/// users in this process.
#[allow(
    missing_debug_implementations,
    reason = "holds private models; printing them is never wanted"
)]
pub struct PpSgdModel {
    /// The released part.
    pub shared: SharedModel,
    /// The local parameters of the users of the table that was trained on: empty where there are no
    /// users, those of its shard in a worker. They stay with their users.
    pub local: Private<LocalModels>,
}

impl PpSgdModel {
    /// Released parameters in a process that holds no users.
    pub(crate) fn without_users(shared: SharedModel) -> Self {
        let local = LocalModels {
            n_users: 0,
            n_local: 0,
            last: Vec::new(),
            average: None,
        };
        Self {
            shared,
            local: Private::new(local),
        }
    }
}

impl PpSgd {
    /// Computes the personal part of a user who was not in the run, at released shared parameters.
    ///
    /// ```text
    /// theta_0 = 0,   theta_s = theta_(s-1) - eta_local(t_s) g_theta(w, theta_(s-1)),   s = 1, ..., n_local_steps,   t_s = ceil(s n_rounds / n_local_steps)
    /// ```
    ///
    /// with the [`n_local_steps`](Self::n_local_steps) steps of a user who was present in the whole
    /// run, spread evenly over the rounds, `g_theta` over all of `rows` (their mean, or for
    /// Algorithm 2 their sum), and `w` the same in all steps: the local steps of Bietti et al. 2022
    /// with `w` held fixed. For `alpha` infinity the result is 0. As in a round, a gradient that is
    /// not finite makes no step.
    ///
    /// # Privacy
    /// Not a release, and nothing is spent: it runs where the rows are stored, on them and on
    /// earlier releases, and the result stays there.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) unless `shared` and the rows have the objective's lengths.
    ///
    /// # Numerics
    /// Computes `n_local_steps` gradients of all rows.
    ///
    /// # Examples
    /// ```
    /// use dp_fedsgd::{AdditiveLoss, AdditiveModel, Minibatch, PpSgdParams};
    /// let model = AdditiveModel::new(AdditiveLoss::Squared, 1)?;
    /// let fit = PpSgdParams::new(1.0, 0.5, 1.0, 30, 100.0).check()?;
    /// let mut rows = Minibatch::new(1);
    /// rows.push(&[1.0], 3.0);
    /// let own = fit.fold_in(&model, &[2.0], &rows)?; // of the 3, 2 are everybody's
    /// assert!((own[0] - 1.0).abs() < 1e-6);
    /// # Ok::<(), dp_fedsgd::Error>(())
    /// ```
    pub fn fold_in<O: PersonalizedObjective>(
        &self,
        objective: &O,
        shared: &[f64],
        rows: &Minibatch,
    ) -> Result<Vec<f64>> {
        check_length("shared", shared.len(), objective.n_shared())?;
        check_length("features", rows.n_features(), objective.n_features())?;
        let mut local = vec![0.0; objective.n_local()];
        let scale = match self.params().reduction {
            BatchReduction::Mean => 1.0 / (rows.len().max(1) as f64),
            BatchReduction::Sum { .. } => 1.0,
        };
        let mut gradients = Gradients::default();
        let (n_rounds, n_steps) = (self.params().n_rounds, self.n_local_steps());
        for step in 1..=n_steps {
            let round = (step * n_rounds).div_ceil(n_steps);
            let rate = scale * self.step_sizes(round).0;
            if rate <= 0.0 {
                continue;
            }
            gradients.reset(objective);
            let at = Point {
                shared,
                local: &local,
            };
            objective.gradients(at, rows, &mut gradients);
            if gradients.local.iter().all(|g| (g * rate).is_finite()) {
                let steps = local.iter_mut().zip(&gradients.local);
                steps.for_each(|(theta, g)| *theta -= rate * g);
            }
        }
        Ok(local)
    }

    /// Number of local steps that a user of the run makes: one in every round, or, where users
    /// train only when asked, `ceil(q n_rounds)`, the expected number of successes of `n_rounds`
    /// coins of probability `q`, rounded up. Public.
    #[must_use]
    pub fn n_local_steps(&self) -> usize {
        let params = self.params();
        match params.participation {
            Participation::Sampled(ClientSampling::Poisson(poisson))
                if params.local_training == LocalTraining::WhenAsked && self.releases() =>
            {
                let expected = poisson.sampling_probability() * params.n_rounds as f64;
                // rounding can put a product such as 0.07 * 100 just above the whole number
                whole_steps((expected - 1e-9).ceil()).clamp(1, params.n_rounds)
            }
            _ => params.n_rounds,
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the number of rounds, and clamped"
)]
const fn whole_steps(steps: f64) -> usize {
    steps as usize
}

fn check_length(name: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError::new(name, found, expected).into())
}

#[cfg(test)]
mod tests {
    use dp_core::UserSamplesBuilder;
    use dp_mechanism::PoissonSampling;
    use rand::SeedableRng;

    use super::*;
    use crate::{AdditiveLoss, AdditiveModel, Error, HeldBatches, PpSgdParams};

    #[test]
    fn extras_are_within_the_joint_bound_and_come_back() {
        for (within, count) in [(false, false), (true, false), (false, true), (true, true)] {
            let layout = RoundLayout {
                n_shared: 2,
                within,
                count,
                extra: 0.3,
            };
            let mut values = vec![6.0, 8.0]; // at the clipping norm of 10
            values.extend(layout.extras(10.0, false));
            let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
            assert!((norm - layout.whole_norm(10.0)).abs() < 1e-12);
            let found = layout.decode(10.0, &mut values);
            assert_eq!(values, [6.0, 8.0]);
            assert_eq!(found.within, within.then_some(-1.0));
            assert_eq!(found.count, count.then_some(1.0));
        }
    }

    fn rows() -> Minibatch {
        let mut rows = Minibatch::new(2);
        for (x, y) in [([1.0, 0.5], 2.0), ([0.3, -1.0], 1.0), ([-0.7, 0.2], 0.0)] {
            rows.push(&x, y);
        }
        rows
    }

    /// By hand: two steps of the squared loss at `w = (1, 0.5)`, alpha 2, so that the local step is 0.4 / 2.
    #[test]
    fn local_steps_are_made_at_shared_parameters_that_stand_still() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 2).unwrap();
        let fit = PpSgdParams::new(2.0, 0.4, 1.0, 2, 9.0).check().unwrap();
        let found = fit.fold_in(&model, &[1.0, 0.5], &rows()).unwrap();
        for (found, expected) in found.iter().zip(EXPECTED) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let one = PpSgdParams::new(f64::INFINITY, 0.4, 1.0, 2, 9.0);
        let one = one.check().unwrap().fold_in(&model, &[1.0, 0.5], &rows());
        assert_eq!(one.unwrap(), [0.0, 0.0]);
    }

    const EXPECTED: [f64; 2] = [0.087_342_67, -0.090_142];

    /// 20 rounds at a rate with which steps are still large, and `w` that hardly moves.
    fn standing_still(n_rounds: usize) -> PpSgdParams {
        PpSgdParams::new(1e-12, 0.05, 1.0, n_rounds, 2001.0)
    }

    #[test]
    fn who_joins_a_sampled_run_makes_the_steps_of_those_who_were_sampled() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 2).unwrap();
        let sampling = PoissonSampling::new(0.3).unwrap();
        let fit = standing_still(20).sampled(sampling.into()).check().unwrap();
        assert_eq!(fit.n_local_steps(), 6);
        let mut users = UserSamplesBuilder::new(2, 3).unwrap();
        for user in 0..2001 {
            for (x, y) in rows().rows() {
                users.push(user, x, y).unwrap();
            }
        }
        let users = users.build().0;
        let rng = &mut rand_chacha::ChaCha20Rng::seed_from_u64(1);
        let batches = HeldBatches::new(&users, 3).unwrap();
        let run = fit.simulate(&model, &batches, 0.0, rng).unwrap();
        let mut first: Vec<f64> = (0..2001).map(|u| run.local.expose().last(u)[0]).collect();
        first.sort_by(f64::total_cmp);
        // of 2001 Binomial(20, 0.3) numbers of steps the median is 6 except with probability below
        // 1e-13; more steps give larger personal parts
        let found = fit.fold_in(&model, &[0.0, 0.0], &rows()).unwrap();
        assert!((first[1000] - found[0]).abs() < 1e-9);
        assert!(first[0] < first[1000] && first[1000] < first[2000]);
        let whole = standing_still(6).check().unwrap();
        assert_eq!(whole.fold_in(&model, &[0.0, 0.0], &rows()).unwrap(), found);
        let mut everybody = standing_still(20).sampled(sampling.into());
        everybody.local_training = LocalTraining::EveryRound;
        assert_eq!(everybody.check().unwrap().n_local_steps(), 20);
        // with `alpha = 0` no client is asked, and all train
        let mut alone = standing_still(20).sampled(sampling.into());
        alone.alpha = 0.0;
        assert_eq!(alone.check().unwrap().n_local_steps(), 20);
    }

    #[test]
    fn absurd_rows_move_nothing_and_other_lengths_are_refused() {
        let model = AdditiveModel::new(AdditiveLoss::Squared, 2).unwrap();
        let fit = PpSgdParams::new(1.0, 0.4, 1.0, 3, 9.0).check().unwrap();
        let mut absurd = rows();
        absurd.push(&[f32::INFINITY, 1.0], 1.0);
        let found = fit.fold_in(&model, &[1.0, 0.5], &absurd).unwrap();
        assert_eq!(found, [0.0, 0.0]);
        let nobody = fit.fold_in(&model, &[1.0, 0.5], &Minibatch::new(2));
        assert_eq!(nobody.unwrap(), [0.0, 0.0]);
        for (shared, rows) in [(&[1.0][..], rows()), (&[1.0, 0.5], Minibatch::new(3))] {
            let found = fit.fold_in(&model, shared, &rows);
            assert!(matches!(found, Err(Error::Shape(_))));
        }
    }
}
