//! How many items each user rates.

/// The law of the users' counts.
pub(super) struct Activity {
    /// Sum of all counts.
    pub(super) total: usize,
    /// Smallest count.
    pub(super) least: usize,
    /// What counts approach and never exceed, above the smallest.
    pub(super) ceiling: f64,
    /// Standard deviation of the logarithm.
    pub(super) spread: f64,
}

impl Activity {
    /// Ratings above the smallest count at log-location `location`.
    fn above_least(&self, z: f64, location: f64) -> f64 {
        let x = (location + self.spread * z).exp();
        let ceiling = self.ceiling - self.least as f64;
        1.0 / (1.0 / x + 1.0 / ceiling)
    }
}

/// Counts for users with normal scores `z`, their location found by bisection so that the sum
/// is `total`. Fractions are carried from user to user, so no rounding is lost.
pub(super) fn user_counts(z: &[f64], law: &Activity) -> Vec<usize> {
    let above = (law.total - law.least * z.len()) as f64;
    let location = bisect(|a| z.iter().map(|&z| law.above_least(z, a)).sum::<f64>() < above);
    let (mut exact, mut given) = (0.0, 0);
    z.iter()
        .map(|&z| {
            exact += law.above_least(z, location);
            let due = whole(exact);
            let count = law.least + due - given;
            given = due;
            count
        })
        .collect()
}

/// The place in `[-50, 50]` where `is_below` turns false.
fn bisect(is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (-50.0, 50.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if is_below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Nearest whole number of a sum of counts.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sums of counts lie between 0 and the number of ratings"
)]
fn whole(x: f64) -> usize {
    x.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(total: usize) -> Activity {
        Activity {
            total,
            least: 20,
            ceiling: 700.0,
            spread: 1.5,
        }
    }

    #[test]
    fn counts_add_up_and_stay_within_their_limits() {
        let z: Vec<f64> = (0..101).map(|i| f64::from(i) / 10.0 - 5.0).collect();
        for total in [2_020, 2_021, 15_000, 60_000] {
            let counts = user_counts(&z, &law(total));
            assert_eq!(counts.iter().sum::<usize>(), total);
            assert!(counts.iter().all(|c| (20..=700).contains(c)));
        }
    }

    #[test]
    fn a_higher_score_means_more_ratings() {
        let counts = user_counts(&[-1.0, 0.0, 1.0], &law(300));
        assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?}");
        // below the ceiling log-distances of counts above the least are equal: 80^2 is near 18 * 142
        let above: Vec<f64> = counts.iter().map(|&c| c as f64 - 20.0).collect();
        assert!(above[2] / above[1] > 3.0 && above[1] / above[0] > 3.0);
    }
}
