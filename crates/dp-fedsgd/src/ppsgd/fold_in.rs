//! Users who come when the shared parameters are already released.

use dp_core::ShapeError;

use super::PpSgd;
use crate::objective::{Gradients, PersonalizedObjective, Point};
use crate::{BatchReduction, Minibatch, Result};

impl PpSgd {
    /// The own part of a user whom nothing was trained on, at released shared parameters.
    ///
    /// ```text
    /// theta_0 = 0,   theta_t = theta_(t-1) - eta_local(t) g_theta(w, theta_(t-1)),   t = 1, ..., n_rounds
    /// ```
    ///
    /// with `g_theta` over all of `rows` (their mean, or for Algorithm 2 their sum), `w` the same in all steps: what the local steps of Bietti et al. 2022
    /// come to when `w` stands still. For `alpha` infinity it is 0. As in a round, a gradient that is not finite makes no step.
    ///
    /// # Privacy
    /// Not a release, and nothing is spent: it runs where the rows are, on them and on what was released before, and the result stays there.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) unless `shared` and the rows have the objective's lengths.
    ///
    /// # Numerics
    /// `n_rounds` gradients of all rows.
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
        for round in 1..=self.params().n_rounds {
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
}

fn check_length(name: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(ShapeError {
        name,
        found,
        expected,
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdditiveLoss, AdditiveModel, Error, PpSgdParams};

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
