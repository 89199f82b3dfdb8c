//! Public candidates: nets over all subspaces of a small space, or any list.

use dp_core::{ParamError, params};
use dp_mechanism::Provenance;

use crate::{Result, Subspace};

/// Most candidates of a net.
const MOST: f64 = (1 << 20) as f64;

/// Public candidates for the shared subspace, all of one shape.
///
/// # Privacy
/// Must not depend on the private data, other than through released values.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    subspaces: Vec<Subspace>,
}

impl Candidates {
    /// Any list: a published catalogue, released subspaces of other runs.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for an empty list, [`crate::Error::Shape`] when shapes differ.
    pub fn new(subspaces: Vec<Subspace>) -> Result<Self> {
        params::at_least_one("candidates", subspaces.len())?;
        for other in &subspaces {
            params::same_size("dim of a candidate", other.dim(), subspaces[0].dim())?;
            params::same_size("rank of a candidate", other.rank(), subspaces[0].rank())?;
        }
        Ok(Self { subspaces })
    }

    /// A net over all subspaces of dimension `rank`: from every one some candidate is at most
    /// `sqrt((dim - rank) rank) / cells` away, in the Frobenius distance of [`Subspace::frobenius_distance`].
    ///
    /// ```text
    /// candidates: span of [I; B] with rows permuted, for each of the C(dim, rank) sets of rows that may hold I,
    ///             entries of B the centres of `cells` equal cells of [-1, 1]
    /// ```
    ///
    /// Why it covers: let the `rank` rows of a basis with the determinant of largest magnitude hold `I`; by Cramer's rule all entries of `B` then lie in
    /// [-1, 1]. The nearest centres are at most `1/cells` away each, so some `B'` has `||B - B'||_F <= sqrt((dim - rank) rank) / cells`.
    /// With an orthonormal basis `U` of the span of `[I; B]`, `[I; B] = U T` with `T^T T = I + B^T B`, so `||T^-1|| <= 1` and
    /// `||(I - P') U||_F = ||(I - P') ([I; B] - [I; B']) T^-1||_F <= ||B - B'||_F`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `rank` is from 1 to `dim`, there is a cell, and the net has at most
    /// 2^20 candidates.
    pub fn net(dim: usize, rank: usize, cells: usize) -> Result<Self> {
        params::in_range("dim", dim, 1, 64, "a whole number from 1 to 64")?;
        params::in_range("rank", rank, 1, dim, "a whole number from 1 to dim")?;
        params::at_least_one("cells", cells)?;
        let entries = (dim - rank) * rank;
        let size = (cells as f64).powf(entries as f64) * n_choose_k(dim, rank);
        if size.is_nan() || size > MOST {
            let expected = "a net of at most 2^20 candidates";
            return Err(ParamError {
                name: "cells",
                value: cells as f64,
                expected,
            }
            .into());
        }
        let mut subspaces = Vec::new();
        let mut chosen: Vec<usize> = (0..rank).collect();
        loop {
            chart(dim, &chosen, cells, &mut subspaces)?;
            if !next_set(&mut chosen, dim) {
                return Ok(Self { subspaces });
            }
        }
    }

    /// The candidates.
    #[must_use]
    pub fn subspaces(&self) -> &[Subspace] {
        &self.subspaces
    }
}

fn n_choose_k(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// The next set of increasing numbers below `n`, in lexicographic order.
fn next_set(set: &mut [usize], n: usize) -> bool {
    let k = set.len();
    let Some(at) = (0..k).rev().find(|&i| set[i] < n - k + i) else {
        return false;
    };
    set[at] += 1;
    for i in at + 1..k {
        set[i] = set[i - 1] + 1;
    }
    true
}

/// All candidates with the identity in the rows `chosen`.
fn chart(dim: usize, chosen: &[usize], cells: usize, out: &mut Vec<Subspace>) -> Result<()> {
    let rank = chosen.len();
    let mut counters = vec![0_usize; (dim - rank) * rank];
    loop {
        let mut columns = vec![0.0; dim * rank];
        let mut free = counters.iter();
        for row in 0..dim {
            for column in 0..rank {
                let entry = &mut columns[row * rank + column];
                if chosen.contains(&row) {
                    *entry = if chosen[column] == row { 1.0 } else { 0.0 };
                } else if let Some(&cell) = free.next() {
                    *entry = (2 * cell + 1) as f64 / cells as f64 - 1.0;
                }
            }
        }
        out.push(Subspace::spanned_by(
            dim,
            rank,
            &columns,
            Provenance::NonPrivate,
        )?);
        let Some(at) = counters.iter().position(|&c| c + 1 < cells) else {
            return Ok(());
        };
        counters[at] += 1;
        counters[..at].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_net_covers_within_its_radius() {
        let mut state = 1_u64;
        let mut number = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        for (dim, rank, cells, size) in
            [(3, 1, 18, 972), (4, 2, 3, 486), (3, 2, 5, 75), (2, 2, 4, 1)]
        {
            let net = Candidates::net(dim, rank, cells).unwrap();
            assert_eq!(net.subspaces().len(), size);
            let radius = (((dim - rank) * rank) as f64).sqrt() / cells as f64;
            let mut widest = 0.0_f64;
            for _ in 0..300 {
                let columns: Vec<f64> = (0..dim * rank).map(|_| number()).collect();
                let any =
                    Subspace::spanned_by(dim, rank, &columns, Provenance::NonPrivate).unwrap();
                let distances = net
                    .subspaces()
                    .iter()
                    .map(|s| any.frobenius_distance(s).unwrap());
                widest = widest.max(distances.fold(f64::INFINITY, f64::min));
            }
            assert!(
                widest <= radius + 1e-12,
                "{dim} {rank}: {widest} > {radius}"
            );
            assert!(
                radius == 0.0 || widest > 0.3 * radius,
                "the bound is needlessly wide"
            );
        }
    }

    #[test]
    fn lists_and_sizes_are_checked() {
        assert!(Candidates::new(Vec::new()).is_err());
        let line =
            |dim| Subspace::spanned_by(dim, 1, &vec![1.0; dim], Provenance::NonPrivate).unwrap();
        assert!(Candidates::new(vec![line(2), line(3)]).is_err());
        assert!(Candidates::new(vec![line(2), line(2)]).is_ok());
        assert!(Candidates::net(3, 0, 4).is_err() && Candidates::net(3, 4, 4).is_err());
        assert!(Candidates::net(3, 1, 0).is_err() && Candidates::net(60, 30, 2).is_err());
    }
}
