//! Ranking metrics: how many of the items that users later liked are at the top of their lists.

use dp_core::params::{at_least_one, same_size};

use crate::{Error, Result};

/// Items divided into buckets of equal size by their number of users.
///
/// Source: Krichene et al. 2023, figure 4. Bucket 0 contains the rarest items. If created from
/// released counts, the buckets are public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopularityBuckets {
    bucket_of: Vec<usize>,
    n_buckets: usize,
}

impl PopularityBuckets {
    /// Sorts items by count, ties by index, and divides them into `n_buckets` equal parts.
    ///
    /// # Errors
    /// [`Error::Param`] if `n_buckets` is 0.
    ///
    /// # Examples
    /// ```
    /// let buckets = dp_data::PopularityBuckets::new(&[5.0, 90.0, 1.0, 30.0], 2)?;
    /// assert_eq!(buckets.of(0), Some(0));
    /// assert_eq!(buckets.of(1), Some(1));
    /// # Ok::<(), dp_data::Error>(())
    /// ```
    pub fn new(counts: &[f64], n_buckets: usize) -> Result<Self> {
        at_least_one("n_buckets", n_buckets)?;
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by(|&a, &b| counts[a].total_cmp(&counts[b]).then(a.cmp(&b)));
        let mut bucket_of = vec![0; counts.len()];
        for (place, item) in order.into_iter().enumerate() {
            bucket_of[item] = place * n_buckets / counts.len();
        }
        Ok(Self {
            bucket_of,
            n_buckets,
        })
    }

    /// The bucket of an item; `None` for an item outside the catalogue.
    #[must_use]
    pub fn of(&self, item: usize) -> Option<usize> {
        self.bucket_of.get(item).copied()
    }
}

/// Recall within one popularity bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketRecall {
    /// Length of the evaluated list: `k` for the most popular bucket, `2 k` for the next, ...
    pub k: usize,
    /// Mean over the users with targets in the bucket; `None` if there are no such users.
    pub recall: Option<f64>,
    /// Number of users with targets in the bucket.
    pub n_users: usize,
}

/// The metrics of one user with at least one target. Private.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "derived from one user's records; printing it is never wanted by accident"
)]
pub struct UserRanking {
    /// Recall@k.
    pub recall: f64,
    /// NDCG@k.
    pub ndcg: f64,
    /// Recall by popularity bucket, rarest items first; `None` if the user has no target in the
    /// bucket.
    pub by_bucket: Vec<Option<f64>>,
}

/// Means over the users with at least one target. Private, for internal use.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingMetrics {
    /// Length of the lists.
    pub k: usize,
    /// Mean recall@k.
    pub recall: f64,
    /// Standard error of `recall` over users.
    pub recall_standard_error: f64,
    /// Mean NDCG@k.
    pub ndcg: f64,
    /// Number of users with at least one target.
    pub n_users: usize,
    /// Recall by popularity bucket, rarest items first.
    pub by_bucket: Vec<BucketRecall>,
}

/// Sums of ranking metrics over users.
///
/// ```text
/// Recall@k = |T ∩ top_k| / min(k, |T|)
/// NDCG@k   = Σ_{r ≤ k, item at rank r in T} 1/log2(r + 1)  /  Σ_{r ≤ min(k, |T|)} 1/log2(r + 1)
/// ```
///
/// `T` are one user's targets; the list excludes the user's history. The denominator of the recall
/// is that of Krichene et al. 2023 (appendix D.1) and Liang et al. 2018: a perfect list has recall
/// 1 even if `|T| > k`. A bucket's recall counts only targets of the bucket, with longer lists for
/// rarer items (footnote 3 of the paper).
///
/// # Privacy
/// Computed from records: for internal use, never to be released.
///
/// # Examples
/// ```
/// use dp_data::RankingSums;
/// let mut sums = RankingSums::new(2, None)?;
/// sums.add(&[7, 3], &[3, 4, 5]);
/// assert_eq!(sums.finish()?.recall, 0.5);
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RankingSums<'a> {
    k: usize,
    buckets: Option<&'a PopularityBuckets>,
    n_users: usize,
    recall: f64,
    squared_recall: f64,
    ndcg: f64,
    /// Per bucket: recall and users.
    by_bucket: Vec<(f64, usize)>,
}

impl<'a> RankingSums<'a> {
    /// Creates sums without any users.
    ///
    /// # Errors
    /// [`Error::Param`] if `k` is 0.
    pub fn new(k: usize, buckets: Option<&'a PopularityBuckets>) -> Result<Self> {
        at_least_one("k", k)?;
        let n_buckets = buckets.map_or(0, |buckets| buckets.n_buckets);
        Ok(Self {
            k,
            buckets,
            n_users: 0,
            recall: 0.0,
            squared_recall: 0.0,
            ndcg: 0.0,
            by_bucket: vec![(0.0, 0); n_buckets],
        })
    }

    /// The list length needed for all metrics: `k`, or `k` times the number of buckets.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.k * self.by_bucket.len().max(1)
    }

    /// The metrics of one user; `None` for a user without targets.
    ///
    /// # Arguments
    /// * `ranked` - items, best first, without the user's history: [`depth`](Self::depth) of them
    ///   or the whole catalogue
    /// * `targets` - in increasing order
    #[must_use]
    pub fn of_user(&self, ranked: &[u32], targets: &[u32]) -> Option<UserRanking> {
        if targets.is_empty() {
            return None;
        }
        let hit = |item: &u32| targets.binary_search(item).is_ok();
        let top = &ranked[..self.k.min(ranked.len())];
        let hits = top.iter().filter(|item| hit(item)).count();
        let most = self.k.min(targets.len());
        let gain: f64 = (0..)
            .zip(top)
            .filter(|(_, i)| hit(i))
            .map(|(r, _)| discount(r))
            .sum();
        Some(UserRanking {
            recall: hits as f64 / most as f64,
            ndcg: gain / (0..most).map(discount).sum::<f64>(),
            by_bucket: self.by_bucket_of_user(ranked, targets),
        })
    }

    fn by_bucket_of_user(&self, ranked: &[u32], targets: &[u32]) -> Vec<Option<f64>> {
        let Some(buckets) = self.buckets else {
            return Vec::new();
        };
        let n_buckets = self.by_bucket.len();
        let recall = |bucket: usize| {
            let k = self.k * (n_buckets - bucket);
            let inside = |item: u32| buckets.of(item as usize) == Some(bucket);
            let n_targets = targets.iter().filter(|&&item| inside(item)).count();
            let top = ranked.iter().take(k);
            let hits = top.filter(|&&item| inside(item) && targets.binary_search(&item).is_ok());
            (n_targets > 0).then(|| hits.count() as f64 / k.min(n_targets) as f64)
        };
        (0..n_buckets).map(recall).collect()
    }

    /// Adds one user: see [`of_user`](Self::of_user).
    pub fn add(&mut self, ranked: &[u32], targets: &[u32]) {
        let Some(user) = self.of_user(ranked, targets) else {
            return;
        };
        self.n_users += 1;
        self.recall += user.recall;
        self.squared_recall += user.recall * user.recall;
        self.ndcg += user.ndcg;
        for (sums, recall) in self.by_bucket.iter_mut().zip(user.by_bucket) {
            if let Some(recall) = recall {
                sums.0 += recall;
                sums.1 += 1;
            }
        }
    }

    /// Adds all users of a table of targets, with one list per row.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of lists differs from the number of rows.
    pub fn add_all(
        &mut self,
        ranked: &dp_core::Private<Vec<Vec<u32>>>,
        targets: &dp_core::Private<dp_core::Interactions>,
    ) -> Result<()> {
        let (ranked, targets) = (ranked.expose(), targets.expose());
        same_size("ranked lists", ranked.len(), targets.n_users())?;
        for (list, row) in ranked.iter().zip(targets.users()) {
            self.add(list, row.items());
        }
        Ok(())
    }

    /// The means.
    ///
    /// # Errors
    /// [`Error::NoPredictions`] if no user had a target.
    pub fn finish(self) -> Result<RankingMetrics> {
        if self.n_users == 0 {
            return Err(Error::NoPredictions { metric: "recall" });
        }
        let n = self.n_users as f64;
        let recall = self.recall / n;
        let variance = (self.squared_recall / n - recall * recall).max(0.0);
        let n_buckets = self.by_bucket.len();
        let by_bucket = self.by_bucket.iter().enumerate();
        Ok(RankingMetrics {
            k: self.k,
            recall,
            recall_standard_error: (variance / n).sqrt(),
            ndcg: self.ndcg / n,
            n_users: self.n_users,
            by_bucket: by_bucket
                .map(|(bucket, &(sum, n_users))| BucketRecall {
                    k: self.k * (n_buckets - bucket),
                    recall: (n_users > 0).then(|| sum / n_users as f64),
                    n_users,
                })
                .collect(),
        })
    }
}

/// Gain of a hit at `rank`, counted from 0.
fn discount(rank: usize) -> f64 {
    (rank as f64 + 2.0).log2().recip()
}

/// Root mean square error.
///
/// ```text
/// RMSE = √( 1/n · Σⱼ (pⱼ − yⱼ)² )
/// ```
///
/// over `n` pairs of prediction `pⱼ` and truth `yⱼ`.
///
/// # Arguments
/// `pairs` - `(predicted, truth)`, in rating units.
///
/// # Privacy
/// Not private: computed from records, it is for internal use and must not be released.
///
/// # Errors
/// [`Error::NoPredictions`] if there are no pairs.
///
/// # Numerics
/// Squares are added with a compensated sum, so the error does not grow with `n` (the result is
/// accurate to a few units in the last place). A NaN prediction gives NaN, an infinite one
/// infinity.
///
/// # Examples
/// ```
/// let rmse = dp_data::rmse([(4.0, 5.0), (3.0, 3.0)])?;
/// assert_eq!(rmse, 0.5_f64.sqrt());
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn rmse(pairs: impl IntoIterator<Item = (f64, f64)>) -> Result<f64> {
    let mut squares = CompensatedSum::default();
    let mut n = 0_u64;
    for (predicted, truth) in pairs {
        squares.add((predicted - truth) * (predicted - truth));
        n += 1;
    }
    if n == 0 {
        return Err(Error::NoPredictions { metric: "rmse" });
    }
    Ok((squares.total() / n as f64).sqrt())
}

/// Mean absolute error.
///
/// ```text
/// MAE = 1/n · Σⱼ |pⱼ − yⱼ|
/// ```
///
/// over `n` pairs of prediction `pⱼ` and truth `yⱼ`; never above [`rmse`] of the same pairs.
///
/// # Arguments
/// `pairs` - `(predicted, truth)`, in rating units.
///
/// # Privacy
/// Not private: computed from records, it is for internal use and must not be released.
///
/// # Errors
/// [`Error::NoPredictions`] if there are no pairs.
///
/// # Examples
/// ```
/// let mae = dp_data::mae([(4.0, 5.0), (3.0, 3.0)])?;
/// assert_eq!(mae, 0.5);
/// # Ok::<(), dp_data::Error>(())
/// ```
pub fn mae(pairs: impl IntoIterator<Item = (f64, f64)>) -> Result<f64> {
    let mut distances = CompensatedSum::default();
    let mut n = 0_u64;
    for (predicted, truth) in pairs {
        distances.add((predicted - truth).abs());
        n += 1;
    }
    if n == 0 {
        return Err(Error::NoPredictions { metric: "mae" });
    }
    Ok(distances.total() / n as f64)
}

/// A running sum and its accumulated rounding error (Neumaier 1974).
#[derive(Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, term: f64) {
        let next = self.sum + term;
        self.lost += if self.sum.abs() >= term.abs() {
            (self.sum - next) + term
        } else {
            (term - next) + self.sum
        };
        self.sum = next;
    }

    /// An infinite sum has no meaningful low bits.
    fn total(&self) -> f64 {
        if self.sum.is_finite() {
            self.sum + self.lost
        } else {
            self.sum
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn recall_and_ndcg_of_hand_made_lists() {
        let mut sums = RankingSums::new(3, None).unwrap();
        sums.add(&[4, 9, 1], &[1, 4]); // hits at ranks 1 and 3 of 2 targets
        sums.add(&[0, 2, 3], &[3, 5, 6, 7, 8]); // one hit, at rank 3; at most 3 are possible
        sums.add(&[1, 2, 3], &[]); // no targets
        let found = sums.finish().unwrap();
        assert_eq!(found.n_users, 2);
        assert!(close(found.recall, (1.0 + 1.0 / 3.0) / 2.0));
        // 1/log2(2) = 1, 1/log2(3) = 0.63092975357145743, 1/log2(4) = 0.5
        let first = 1.5 / 1.630_929_753_571_457_4;
        let second = 0.5 / 2.130_929_753_571_457_4;
        assert!(close(found.ndcg, (first + second) / 2.0));
        // recalls 1 and 1/3: deviation 1/3, over the root of 2
        assert!(close(found.recall_standard_error, 1.0 / 18.0_f64.sqrt()));
    }

    #[test]
    fn what_stands_below_k_does_not_count() {
        let mut sums = RankingSums::new(1, None).unwrap();
        sums.add(&[2, 1], &[1]);
        assert!(close(sums.finish().unwrap().recall, 0.0));
    }

    #[test]
    fn buckets_look_at_their_own_targets_and_longer_lists() {
        let buckets = PopularityBuckets::new(&[10.0, 1.0, 9.0, 2.0], 2).unwrap(); // tail 1 and 3
        let mut sums = RankingSums::new(1, Some(&buckets)).unwrap();
        assert_eq!(sums.depth(), 2);
        sums.add(&[2, 1], &[0, 1, 2, 3]);
        let found = sums.finish().unwrap().by_bucket;
        // tail: list of 2 holds item 1 of targets 1 and 3; head: list of 1 holds item 2
        assert_eq!(
            found[0],
            BucketRecall {
                k: 2,
                recall: Some(0.5),
                n_users: 1
            }
        );
        assert_eq!(
            found[1],
            BucketRecall {
                k: 1,
                recall: Some(1.0),
                n_users: 1
            }
        );
    }

    #[test]
    fn no_targets_is_an_error_and_k_must_be_positive() {
        let none = RankingSums::new(5, None).unwrap().finish();
        assert!(matches!(
            none,
            Err(Error::NoPredictions { metric: "recall" })
        ));
        assert!(matches!(RankingSums::new(0, None), Err(Error::Param(_))));
        assert!(matches!(
            PopularityBuckets::new(&[1.0], 0),
            Err(Error::Param(_))
        ));
    }

    #[test]
    fn matches_a_hand_computed_value() {
        // errors 1, -2, 0, 2: mean square 9/4
        let pairs = [(2.0, 1.0), (1.0, 3.0), (5.0, 5.0), (4.0, 2.0)];
        assert_eq!(rmse(pairs).unwrap().to_bits(), 1.5_f64.to_bits());
        assert_eq!(mae(pairs).unwrap().to_bits(), 1.25_f64.to_bits());
    }

    #[test]
    fn is_undefined_without_predictions() {
        let error = rmse([]).unwrap_err();
        assert_eq!(error.to_string(), "rmse needs at least one prediction");
        let error = mae([]).unwrap_err();
        assert_eq!(error.to_string(), "mae needs at least one prediction");
    }

    #[test]
    fn many_small_squares_survive_a_large_one() {
        // a plain sum in this order stays at 2^54: each square is below half a unit in its last
        // place
        let n = 1 << 20;
        let pairs =
            std::iter::once((2.0_f64.powi(27), 0.0)).chain(std::iter::repeat_n((1.0, 0.0), n));
        let expected = ((2.0_f64.powi(54) + n as f64) / (n + 1) as f64).sqrt();
        assert_eq!(rmse(pairs).unwrap().to_bits(), expected.to_bits());
    }

    #[test]
    fn bad_predictions_show() {
        assert!(rmse([(f64::NAN, 1.0), (1.0, 1.0)]).unwrap().is_nan());
        assert!(
            rmse([(f64::INFINITY, 1.0), (1.0, 1.0)])
                .unwrap()
                .is_infinite()
        );
    }
}
