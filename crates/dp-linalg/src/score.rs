use std::cmp::Ordering;

use dp_core::params::at_least_one;

use crate::error::check_len;
use crate::kernels::InstructionSet;
use crate::real::Compiled;
use crate::{Error, Real, Result};

/// Number of rows scored at a time by [`top_k`], in a buffer on the stack.
const CHUNK: usize = 256;

/// An item and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredItem<T> {
    /// Row number of the item.
    pub item: u32,
    /// Its score; never NaN.
    pub score: T,
}

/// Inner product of two vectors.
///
/// # Errors
/// [`Shape`](Error::Shape) if the lengths differ.
pub fn dot<T: Real>(x: &[T], y: &[T]) -> Result<T> {
    check_len("y", y.len(), x.len())?;
    let mut out = [T::default()];
    T::scores(InstructionSet::detect(), x, y, &mut out);
    Ok(out[0])
}

/// Writes the inner product of every row of `factors`, shape `(m, dim)` row-major, with `vector`,
/// length `dim`, into `out`, length m.
///
/// # Errors
/// [`Param`](Error::Param) if `vector` is empty; [`Shape`](Error::Shape) if a length does not
/// match.
pub fn score_rows<T: Real>(factors: &[T], vector: &[T], out: &mut [T]) -> Result<()> {
    let n_rows = count_rows(factors, vector)?;
    check_len("out", out.len(), n_rows)?;
    T::scores(InstructionSet::detect(), factors, vector, out);
    Ok(())
}

/// The `k` items with the highest scores, best first, except for those listed in `excluded`.
///
/// ```text
/// score_j = ⟨factors_j, vector⟩
/// ```
/// Equal scores are ordered by item number. An item whose score is NaN is left out. Fewer than `k`
/// items are returned if fewer qualify.
///
/// # Arguments
/// `factors` - shape `(m, dim)` row-major; `vector` - length `dim`; `excluded` - item numbers in
/// increasing order (repetitions and numbers of m or above are ignored).
///
/// # Errors
/// [`Param`](Error::Param) if `vector` is empty or there are more than 2^32 rows;
/// [`Shape`](Error::Shape) if `factors` is not a whole number of rows;
/// [`NotSorted`](Error::NotSorted) if `excluded` is not in increasing order.
///
/// # Numerics
/// O(m dim + m log k).
///
/// # Examples
/// ```
/// use dp_linalg::top_k;
///
/// let factors = [1.0, 0.0, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0]; // four items, two numbers each
/// let best = top_k(&factors, &[1.0, 0.5], 2, &[2])?;
/// assert_eq!((best[0].item, best[0].score), (0, 1.0));
/// assert_eq!((best[1].item, best[1].score), (3, 1.0));
/// # Ok::<(), dp_linalg::Error>(())
/// ```
pub fn top_k<T: Real>(
    factors: &[T],
    vector: &[T],
    k: usize,
    excluded: &[u32],
) -> Result<Vec<ScoredItem<T>>> {
    Ok(top_k_each(factors, &[(vector, excluded)], k)?.swap_remove(0))
}

/// [`top_k`] for each of several pairs of a vector and the items excluded for it, with all vectors
/// of the same length. The rows are read once for all pairs, a block at a time, which is faster
/// than one call for each if the factors do not fit into the cache.
///
/// # Errors
/// As [`top_k`], for any of the pairs; [`Shape`](Error::Shape) if the vectors differ in length.
pub fn top_k_each<T: Real>(
    factors: &[T],
    queries: &[(&[T], &[u32])],
    k: usize,
) -> Result<Vec<Vec<ScoredItem<T>>>> {
    T::top_k_each(factors, queries, k)
}

pub(crate) fn best_each<T: Compiled>(
    factors: &[T],
    queries: &[(&[T], &[u32])],
    k: usize,
) -> Result<Vec<Vec<ScoredItem<T>>>> {
    let Some(&(first, _)) = queries.first() else {
        return Ok(Vec::new());
    };
    let n_rows = count_rows(factors, first)?;
    dp_core::params::in_range(
        "n_rows",
        n_rows,
        0,
        u32::MAX as usize,
        "a number of rows below 2^32",
    )?;
    for (vector, excluded) in queries {
        check_len("vector", vector.len(), first.len())?;
        if !excluded.is_sorted() {
            return Err(Error::NotSorted { name: "excluded" });
        }
    }
    let isa = InstructionSet::detect();
    let mut lists: Vec<_> = queries
        .iter()
        .map(|(_, excluded)| {
            (
                Best::new(k.min(n_rows)),
                excluded.iter().copied().peekable(),
            )
        })
        .collect();
    let mut scores = [T::default(); CHUNK];
    let starts = (0_u32..).step_by(CHUNK);
    for (rows, start) in factors.chunks(CHUNK * first.len()).zip(starts) {
        let chunk = &mut scores[..rows.len() / first.len()];
        for ((vector, _), (best, excluded)) in queries.iter().zip(&mut lists) {
            T::scores(isa, rows, vector, chunk);
            for (&score, item) in chunk.iter().zip(start..) {
                if !best.admits(score) {
                    continue;
                }
                while excluded.next_if(|&e| e < item).is_some() {}
                if excluded.peek() != Some(&item) {
                    best.insert(ScoredItem { item, score });
                }
            }
        }
    }
    Ok(lists
        .into_iter()
        .map(|(best, _)| best.into_sorted())
        .collect())
}

/// Items ordered by one score each, for rankings that are the same for all users except for the
/// excluded items.
///
/// # Examples
/// ```
/// use dp_linalg::ItemRanking;
/// let ranking = ItemRanking::new(&[2.0, 7.0, 5.0, 7.0]);
/// assert_eq!(ranking.best(2, &[1])?, [3, 2]);
/// # Ok::<(), dp_linalg::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRanking {
    order: Vec<u32>,
}

impl ItemRanking {
    /// Orders items as [`top_k`] does: highest score first, equal scores by number, items whose
    /// score is NaN left out.
    #[must_use]
    pub fn new(scores: &[f64]) -> Self {
        let score = |&item: &u32| scores[item as usize];
        let items = (0..scores.len()).filter_map(|item| u32::try_from(item).ok());
        let mut order: Vec<u32> = items.filter(|item| !score(item).is_nan()).collect();
        order.sort_by(|a, b| {
            let by_score = score(b).partial_cmp(&score(a));
            by_score.unwrap_or(Ordering::Equal) // a stable sort preserves the order of numbers
        });
        Self { order }
    }

    /// The first `k` items that are not among those `excluded`, in O(k + number of excluded) lookups.
    ///
    /// # Errors
    /// [`NotSorted`](Error::NotSorted) if `excluded` is not in increasing order.
    pub fn best(&self, k: usize, excluded: &[u32]) -> Result<Vec<u32>> {
        if !excluded.is_sorted() {
            return Err(Error::NotSorted { name: "excluded" });
        }
        let kept = self.order.iter().copied();
        let kept = kept.filter(|item| excluded.binary_search(item).is_err());
        Ok(kept.take(k).collect())
    }
}

fn count_rows<T: Compiled>(factors: &[T], vector: &[T]) -> Result<usize> {
    let dim = at_least_one("dim", vector.len())?;
    let n_rows = factors.len() / dim;
    check_len("factors", factors.len(), n_rows * dim)?;
    Ok(n_rows)
}

/// The best `k` items seen, as a heap with the worst of them on top.
struct Best<T> {
    k: usize,
    heap: std::collections::BinaryHeap<Ranked<T>>,
}

/// Ordered so that the worse of two items is the greater.
#[derive(PartialEq)]
struct Ranked<T>(ScoredItem<T>);

impl<T: Compiled> Eq for Ranked<T> {}

impl<T: Compiled> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Compiled> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = other.0.score.partial_cmp(&self.0.score);
        by_score
            .unwrap_or(Ordering::Equal)
            .then(self.0.item.cmp(&other.0.item))
    }
}

impl<T: Compiled> Best<T> {
    fn new(k: usize) -> Self {
        Self {
            k,
            heap: std::collections::BinaryHeap::with_capacity(k),
        }
    }

    /// Whether an item with this score and a higher number than those seen is among the best so
    /// far: one that ties with the worst is not, and NaN never is.
    fn admits(&self, score: T) -> bool {
        if self.heap.len() < self.k {
            return score.partial_cmp(&score).is_some();
        }
        self.heap.peek().is_some_and(|worst| score > worst.0.score)
    }

    /// Adds an item whose score was [admitted](Self::admits).
    fn insert(&mut self, item: ScoredItem<T>) {
        if self.heap.len() < self.k {
            self.heap.push(Ranked(item));
        } else if let Some(mut worst) = self.heap.peek_mut() {
            *worst = Ranked(item);
        }
    }

    fn into_sorted(self) -> Vec<ScoredItem<T>> {
        let ranked = self.heap.into_sorted_vec();
        ranked.into_iter().map(|r| r.0).collect()
    }
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::shadow_unrelated,
    reason = "equality is the claim; each check rebinds the same few names"
)]
mod tests {
    use super::*;
    use crate::test_numbers::Numbers;

    #[test]
    fn inner_products_of_integers_are_exact_at_every_length() {
        let mut numbers = Numbers::new(21);
        for isa in InstructionSet::available() {
            for dim in 1..140 {
                let (x, y) = (numbers.integers(dim, 1000), numbers.integers(dim, 1000));
                let expected: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
                let mut out = [f64::NAN];
                f64::scores(isa, &x, &y, &mut out);
                assert!(out[0] == expected, "{isa:?} dim {dim}");

                #[allow(clippy::cast_possible_truncation, reason = "whole numbers below 2^24")]
                let single = |v: Vec<f64>| v.into_iter().map(|x| x as f32 / 100.0);
                let (x, y): (Vec<_>, Vec<_>) = (single(x).collect(), single(y).collect());
                let mut out = [f32::NAN];
                f32::scores(isa, &x, &y, &mut out);
                assert!((f64::from(out[0]) - expected / 1e4).abs() < 0.01);
            }
        }
    }

    #[test]
    fn best_items_agree_with_a_full_sort() -> Result<()> {
        let (dim, m) = (5, 1000);
        let mut numbers = Numbers::new(22);
        // few distinct values, so that ties are common
        let factors = numbers.integers(m * dim, 2);
        let vector = numbers.integers(dim, 2);
        let mut scores = vec![0.0; m];
        score_rows(&factors, &vector, &mut scores)?;
        let excluded: Vec<u32> = (0..1000).filter(|i| i % 7 < 2).collect();

        let mut expected: Vec<u32> = (0..1000).filter(|i| i % 7 >= 2).collect();
        expected.sort_by(|&i, &j| scores[j as usize].total_cmp(&scores[i as usize]));
        for k in [0, 1, 10, 300, 2000] {
            let found = top_k(&factors, &vector, k, &excluded)?;
            let items: Vec<u32> = found.iter().map(|s| s.item).collect();
            assert_eq!(items, expected[..k.min(expected.len())]);
            assert!(found.iter().all(|s| s.score == scores[s.item as usize]));
        }
        Ok(())
    }

    #[test]
    fn many_users_get_the_lists_that_each_gets_alone() -> Result<()> {
        let (dim, m) = (3, 700); // three blocks of rows, the last one short
        let mut numbers = Numbers::new(23);
        let factors = numbers.integers(m * dim, 3);
        let vectors: Vec<Vec<f64>> = (0..5).map(|_| numbers.integers(dim, 3)).collect();
        let own: Vec<Vec<u32>> = (2..7).map(|n| (0..700).step_by(n).collect()).collect();
        let pairs = vectors.iter().zip(&own);
        let queries: Vec<(&[f64], &[u32])> = pairs.map(|(v, own)| (&v[..], &own[..])).collect();
        for (found, (vector, own)) in top_k_each(&factors, &queries, 40)?.iter().zip(&queries) {
            assert_eq!(*found, top_k(&factors, vector, 40, own)?);
        }
        assert_eq!(top_k_each::<f64>(&factors, &[], 3)?, Vec::<Vec<_>>::new());
        let ragged = top_k_each(&factors, &[(&vectors[0], &[]), (&[1.0], &[])], 3);
        assert!(matches!(ragged, Err(Error::Shape(_))));
        Ok(())
    }

    #[test]
    fn a_shared_ranking_is_that_of_every_user() -> Result<()> {
        let mut scores = Numbers::new(24).integers(500, 9);
        (scores[3], scores[4]) = (f64::NAN, f64::INFINITY);
        let ranking = ItemRanking::new(&scores);
        for (k, step) in [(0, 1), (7, 3), (600, 2)] {
            let own: Vec<u32> = (0..500).step_by(step).collect();
            let found = top_k(&scores, &[1.0], k, &own)?;
            let items: Vec<u32> = found.iter().map(|scored| scored.item).collect();
            assert_eq!(ranking.best(k, &own)?, items);
        }
        assert_eq!(
            ranking.best(1, &[2, 1]),
            Err(Error::NotSorted { name: "excluded" })
        );
        Ok(())
    }

    #[test]
    fn nan_scores_are_left_out_and_infinite_ones_ranked() -> Result<()> {
        let factors = [
            f64::NAN,
            -1.0,
            f64::INFINITY,
            2.0,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let found = top_k(&factors, &[1.0], 6, &[])?;
        let items: Vec<u32> = found.iter().map(|s| s.item).collect();
        assert_eq!(items, [2, 3, 1, 4]);
        let items: Vec<_> = top_k(&factors, &[1.0], 1, &[2])?;
        assert_eq!(items[0].item, 3);
        Ok(())
    }

    #[test]
    fn exclusions_may_repeat_and_exceed_but_must_be_sorted() -> Result<()> {
        let factors = [1.0_f32, 2.0, 3.0];
        let found = top_k(&factors, &[1.0], 3, &[0, 0, 2, 2, 9])?;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].item, 1);
        let got = top_k(&factors, &[1.0], 3, &[2, 0]);
        assert_eq!(got, Err(Error::NotSorted { name: "excluded" }));
        Ok(())
    }

    #[test]
    fn wrong_shapes_are_refused() {
        let shape = |e: Error| matches!(e, Error::Shape(_));
        assert!(shape(dot(&[1.0], &[1.0, 2.0]).unwrap_err()));
        assert!(shape(top_k(&[1.0; 5], &[1.0; 2], 1, &[]).unwrap_err()));
        let mut out = [0.0; 2];
        assert!(shape(
            score_rows(&[1.0; 6], &[1.0; 2], &mut out).unwrap_err()
        ));
        let got = score_rows(&[], &[], &mut out);
        assert!(matches!(got, Err(Error::Param(_))));
        assert_eq!(dot::<f64>(&[], &[]), Ok(0.0));
    }
}
