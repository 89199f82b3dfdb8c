//! The head: the most popular tasks, when only they are learnt.

use dp_core::{ShapeError, params};

use super::weights::TaskWeights;
use crate::{NoisyCounts, Result};

/// `ceil(fraction n_tasks)`.
pub(crate) fn n_head(fraction: f64, n_tasks: usize) -> usize {
    let places = (0..n_tasks).zip(0_u32..);
    places
        .take_while(|&(_, place)| f64::from(place) < fraction * n_tasks as f64)
        .count()
}

impl TaskWeights {
    /// The same weights on the head alone: the `ceil(fraction n_tasks)` tasks with the largest released counts, of tasks with
    /// equal counts the first. All others have weight 0, so that users spend nothing on them.
    ///
    /// Noise drowns the tasks that few users hold: they learn nothing, and what users spend on them the head lacks. Source:
    /// the published settings of Krichene et al. 2023 for MovieLens-20M, with the head from noisy counts instead of
    /// exact ones (`docs/errata.md`).
    ///
    /// # Privacy
    /// Post-processing of the counts, which are released already; no user's own data enters.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `fraction` is not strictly between 0 and 1, [`crate::Error::Shape`] when there is not
    /// one count for each task.
    pub fn head(self, counts: &NoisyCounts, fraction: f64) -> Result<Self> {
        params::open_unit("head_fraction", fraction)?;
        let n_head = n_head(fraction, counts.values().len());
        self.with_head(counts, n_head)
    }

    /// The same weights on the `n_head` tasks with the largest released counts.
    pub(crate) fn with_head(mut self, counts: &NoisyCounts, n_head: usize) -> Result<Self> {
        let counts = counts.values();
        if counts.len() != self.omega().len() {
            return Err(ShapeError {
                name: "task counts",
                found: counts.len(),
                expected: self.omega().len(),
            }
            .into());
        }
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
        for &task in order.iter().skip(n_head) {
            self.leave_out(task);
        }
        Ok(self)
    }

    /// Sets the rows of tasks without weight to 0, in a table with one row for each task.
    pub fn clear_others(&self, rows: &mut [f64]) {
        let width = rows.len() / self.omega().len().max(1);
        for (row, &omega) in rows.chunks_exact_mut(width.max(1)).zip(self.omega()) {
            if omega <= 0.0 {
                row.fill(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;
    use crate::allocation::Selection;

    fn counts() -> NoisyCounts {
        let values = vec![5.0, -2.0, 40.0, 9.0, 40.0, 1.0, 7.0];
        NoisyCounts::released_elsewhere(values, 1.0, true).unwrap()
    }

    fn weigh(weights: &TaskWeights, items: &[u32]) -> Vec<f64> {
        let mut builder = InteractionsBuilder::new(7);
        for &item in items {
            builder.push(0, item, 1.0).unwrap();
        }
        let mut w = vec![f64::NAN; items.len()];
        weights.weigh(builder.build().0.user(0), &mut w);
        w
    }

    fn head_of(fraction: f64) -> Vec<usize> {
        let weights = TaskWeights::from_counts(&counts(), 0.5, 1.0).unwrap();
        let weights = weights.head(&counts(), fraction).unwrap();
        (0..7).filter(|&task| weights.omega()[task] > 0.0).collect()
    }

    #[test]
    fn the_head_has_the_largest_counts_and_never_nothing() {
        assert_eq!(head_of(1e-9), [2]);
        assert_eq!(head_of(2.0 / 7.0), [2, 4]);
        assert_eq!(head_of(0.5), [2, 3, 4, 6]); // 3.5 tasks
        assert_eq!(head_of(0.999), [0, 1, 2, 3, 4, 5, 6]);
        for bad in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(TaskWeights::uniform(7).head(&counts(), bad).is_err());
        }
        assert!(TaskWeights::uniform(6).head(&counts(), 0.5).is_err());
    }

    #[test]
    fn users_spend_everything_on_the_head() {
        let weights = TaskWeights::uniform(7).head(&counts(), 0.5).unwrap();
        let half = 2.0_f64.sqrt().recip();
        assert_eq!(weigh(&weights, &[0, 3, 5, 6]), [0.0, half, 0.0, half]);
        assert_eq!(weigh(&weights, &[0, 1]), [0.0, 0.0]);
    }

    #[test]
    fn samples_are_drawn_within_the_head() {
        for selection in [
            Selection::Uniform {
                tasks_per_user: 2,
                seed: 1,
            },
            Selection::Tail {
                tasks_per_user: 2,
                counts: counts().values().to_vec(),
            },
        ] {
            let weights = TaskWeights::uniform(7).keeping(selection);
            let weights = weights.head(&counts(), 0.5).unwrap();
            let w = weigh(&weights, &[0, 1, 2, 3, 4, 5, 6]);
            assert_eq!(w.iter().filter(|&&w| w > 0.0).count(), 2, "{w:?}");
            assert!(w[0] + w[1] + w[5] <= 0.0, "{w:?}");
        }
    }

    #[test]
    fn rows_outside_the_head_are_cleared() {
        let weights = TaskWeights::uniform(7).head(&counts(), 2.0 / 7.0).unwrap();
        let mut rows = vec![1.0; 14];
        weights.clear_others(&mut rows);
        let expected = [0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0];
        assert_eq!(rows, expected.map(f64::from));
    }
}
