//! One method of a run for each kind of release of the kernel.

use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow, params};

use super::{
    Ask, GridForm, Observed, ObservedSums, ReleaseEntry, ReleaseForm, ReleaseKind,
    ReleasedIntegers, Run, Source,
};
use crate::contribution::{
    AnyContribution, FactorBuffer, FactorContribution, SparseBuffer, VectorContribution,
};
use crate::exponential::{ExponentialMechanism, ScoreSum, SelectedIndex};
use crate::gram_sum::{GramGrids, GramLayout, GramSums, check_dim, integers_of_one};
use crate::kronecker_sum::{
    KroneckerContribution, KroneckerGrid, KroneckerSum, OffDiagonalNoise, RowsBuffer,
    entries_of_one,
};
use crate::quantile::{PrivateQuantile, ReleasedQuantile};
use crate::release::{NoiseLaw, ReleasedGrams, ReleasedVector};
use crate::scalar::{ReleasedScalar, Scalar};
use crate::sum_backend::InProcess;
use crate::vector_sum::{VectorSum, observed_contribution};
use crate::{ClientSampling, Error, Grid, PaidSample, Result};

impl Run<'_> {
    /// Releases the sum over all users of vectors with `n_coordinates`, each user's norm at most
    /// `clip_norm`: [`VectorSum`].
    ///
    /// # Errors
    /// As [`VectorSum::accumulate`] and [`VectorSum::release`]; the errors of the ledger, the list
    /// and the backend.
    pub fn vector<C: VectorContribution>(
        &mut self,
        data: &Private<Interactions>,
        shape: (usize, f64),
        contribution: &C,
    ) -> Result<ReleasedVector> {
        self.vector_on(None, data, shape, contribution)
    }

    /// Releases the sum over a fresh sample of the users: [`VectorSum::accumulate_sampled`]. The
    /// observer is shown what a user contributes if drawn, but not who was drawn.
    ///
    /// # Errors
    /// As [`vector`](Self::vector); [`Error::Sampling`] for samples of fixed size over shards of users.
    pub fn sampled_vector<C: VectorContribution>(
        &mut self,
        sampling: impl Into<ClientSampling>,
        data: &Private<Interactions>,
        shape: (usize, f64),
        contribution: &C,
    ) -> Result<ReleasedVector> {
        self.vector_on(Some(sampling.into()), data, shape, contribution)
    }

    fn vector_on(
        &mut self,
        sampling: Option<ClientSampling>,
        data: &Private<Interactions>,
        (n, clip_norm): (usize, f64),
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<ReleasedVector> {
        params::at_least_one("n_coordinates", n)?;
        let (label, multiplier) = self.planned(0)?;
        let grid = Grid::new(multiplier, clip_norm)?;
        let ask = Ask {
            form: vector_form(label.clone(), &grid, n),
            sampling,
            n_keys: 1_u64.saturating_add(sampling.is_some().into()),
        };
        let made = self.make(
            ask,
            data,
            &|shard, key| {
                if sampling.is_some() != key.is_some() {
                    // without its key, a sample would consist of all users
                    return Err(Error::Link {
                        what: "the key of a sample is missing, or there is one where nobody is sampled",
                    });
                }
                let sample = sampling.zip(key);
                VectorSum::shard_sum(shard, sample, n, &grid, contribution)
            },
            n,
            &mut |total, spends, noise| {
                let sum = VectorSum::of_total(grid, total, sampling, noise.is_insecure());
                Ok(sum.release(one(spends)?, noise)?.into_integers())
            },
        )?;
        let replayed = made.replayed;
        let released = floored(grid, made);
        if !replayed {
            self.show(&Observed {
                labels: [&label; 2],
                noise_multipliers: [multiplier; 2],
                sums: ObservedSums::Vector {
                    grid: &grid,
                    released: &released,
                    one_user: &|row| observed_contribution(&grid, n, contribution, row),
                },
            });
        }
        Ok(released)
    }

    /// Releases a matrix of Kronecker products with each user's Frobenius norm at most `clip_norm`:
    /// [`KroneckerSum`].
    ///
    /// # Errors
    /// As [`KroneckerSum::accumulate`] and [`KroneckerSum::release`]; the errors of the ledger, the
    /// list and the backend.
    pub fn kronecker<C: KroneckerContribution>(
        &mut self,
        data: &Private<Interactions>,
        noise: (OffDiagonalNoise, f64),
        contribution: &C,
    ) -> Result<ReleasedVector> {
        self.kronecker_on(data, noise, contribution.shape(), contribution)
    }

    fn kronecker_on(
        &mut self,
        data: &Private<Interactions>,
        (off_diagonal, clip_norm): (OffDiagonalNoise, f64),
        shape: (usize, usize),
        contribution: &dyn AnyContribution<RowsBuffer>,
    ) -> Result<ReleasedVector> {
        let (label, multiplier) = self.planned(0)?;
        let grid = KroneckerGrid::new(multiplier, clip_norm)?;
        let side = KroneckerSum::side(shape)?;
        let n = dp_linalg::packed_len(side);
        let ask = Ask {
            form: ReleaseForm {
                kind: match off_diagonal {
                    OffDiagonalNoise::Isometric => ReleaseKind::Triangle,
                    OffDiagonalNoise::Full => ReleaseKind::TriangleFullNoise,
                },
                ..vector_form(label.clone(), grid.grid(), n)
            },
            sampling: None,
            n_keys: 1,
        };
        let made = self.make(
            ask,
            data,
            &|shard, _| KroneckerSum::shard_sum(shard, &grid, shape, contribution),
            n,
            &mut |total, spends, noise| {
                let sum = KroneckerSum::of_total(grid, side, total);
                let released = sum.release(off_diagonal, one(spends)?, noise)?;
                Ok(released.into_integers())
            },
        )?;
        let replayed = made.replayed;
        let released = floored(*grid.grid(), made);
        if !replayed {
            self.show(&Observed {
                labels: [&label; 2],
                noise_multipliers: [multiplier; 2],
                sums: ObservedSums::Triangle {
                    grid: grid.grid(),
                    side,
                    off_diagonal,
                    released: &released,
                    one_user: &|row| entries_of_one(&grid, shape, contribution, row),
                },
            });
        }
        Ok(released)
    }

    /// Releases matrices and right-hand sides, two releases of the plan, on the `grids` for their
    /// noise multipliers: [`GramSums`].
    ///
    /// # Errors
    /// As [`GramSums::accumulate`] and [`GramSums::release`]; the errors of the ledger, the list
    /// and the backend, and of `grids`.
    pub fn grams<C: FactorContribution, E: From<Error>>(
        &mut self,
        data: &Private<Interactions>,
        grids: impl FnOnce(f64, f64) -> Result<GramGrids, E>,
        contribution: &C,
    ) -> Result<ReleasedGrams, E> {
        let planned = self.two_planned()?;
        let grids = grids(planned[0].1, planned[1].1)?;
        Ok(self.grams_on(planned, data, grids, contribution.dim(), contribution)?)
    }

    fn two_planned(&self) -> Result<[(String, f64); 2]> {
        Ok([self.planned(0)?, self.planned(1)?])
    }

    fn grams_on(
        &mut self,
        [matrix, rhs]: [(String, f64); 2],
        data: &Private<Interactions>,
        grids: GramGrids,
        dim: usize,
        contribution: &dyn AnyContribution<FactorBuffer>,
    ) -> Result<ReleasedGrams> {
        let dim = check_dim(dim)?;
        let n = GramSums::n_coordinates(data.expose().n_items(), dim, &grids);
        let ask = Ask {
            form: ReleaseForm {
                kind: match grids.layout() {
                    GramLayout::PerItem => ReleaseKind::Grams,
                    GramLayout::Pooled => ReleaseKind::PooledGrams,
                },
                labels: vec![matrix.0.clone(), rhs.0.clone()],
                grids: vec![grids.matrix().into(), grids.rhs().into()],
                n_integers: n,
                n_candidates: 0,
                night: None,
            },
            sampling: None,
            n_keys: 2,
        };
        let made = self.make(
            ask,
            data,
            &|shard, _| GramSums::shard_sum(shard, &grids, dim, contribution),
            n,
            &mut |total, spends, noise| {
                let [matrix, rhs] = two(spends)?;
                let sums = GramSums::of_total(grids, dim, total);
                Ok(sums.release(matrix, rhs, noise)?.into_integers())
            },
        )?;
        let (replayed, insecure) = (made.replayed, made.insecure);
        let released = ReleasedGrams::of_integers(&grids, dim, made.integers, insecure);
        if !replayed {
            self.show(&Observed {
                labels: [&matrix.0, &rhs.0],
                noise_multipliers: [matrix.1, rhs.1],
                sums: ObservedSums::Grams {
                    grids: &grids,
                    released: &released,
                    one_user: &|row| integers_of_one(&grids, dim, contribution, row),
                },
            });
        }
        Ok(released)
    }

    /// Releases the sum of one number per user, each clamped to `clip` in absolute value: a vector
    /// of length 1.
    ///
    /// # Errors
    /// As [`vector`](Self::vector).
    #[allow(clippy::float_arithmetic, reason = "a sign, before the quantiser")]
    pub fn scalar(
        &mut self,
        data: &Private<Interactions>,
        clip: f64,
        value: impl Fn(UserRow<'_>) -> f64 + Sync,
    ) -> Result<ReleasedScalar> {
        params::finite_positive("clip", clip)?;
        let clamped = Scalar(|user: UserRow<'_>| value(user).clamp(-clip, clip));
        Ok(ReleasedScalar::of(&self.vector(
            data,
            (1, clip),
            &clamped,
        )?))
    }

    /// Releases the number of users.
    ///
    /// # Errors
    /// As [`vector`](Self::vector).
    pub fn count(&mut self, data: &Private<Interactions>) -> Result<ReleasedScalar> {
        self.scalar(data, 1.0, |_| 1.0)
    }

    /// Releases a quantile of one value per user.
    ///
    /// # Errors
    /// As [`PrivateQuantile::release`]; the errors of the ledger, the list and the backend.
    pub fn quantile(
        &mut self,
        data: &Private<Interactions>,
        quantile: &PrivateQuantile,
        value: impl Fn(UserRow<'_>) -> f64 + Sync,
    ) -> Result<ReleasedQuantile> {
        self.quantile_of(data, quantile, &value)
    }

    fn quantile_of(
        &mut self,
        data: &Private<Interactions>,
        quantile: &PrivateQuantile,
        value: &(dyn Fn(UserRow<'_>) -> f64 + Sync),
    ) -> Result<ReleasedQuantile> {
        let made = self.make(
            self.selection(quantile.n_points())?,
            data,
            &|shard, _| Ok(quantile.shard_sum(shard, value)),
            quantile.n_points(),
            &mut |counts, spends, noise| {
                let point = quantile.select(&counts, one(spends)?, noise)?;
                Ok(vec![i64::try_from(point).unwrap_or(i64::MAX)])
            },
        )?;
        Ok(quantile.released(index_of(&made), made.insecure))
    }

    /// Releases which of `n_candidates` has the largest sum of users' scores, by the exponential
    /// mechanism: [`ScoreSum`].
    ///
    /// # Errors
    /// As [`ScoreSum::accumulate`] and [`ScoreSum::select`]; the errors of the ledger, the list and
    /// the backend.
    pub fn select<C: VectorContribution>(
        &mut self,
        data: &Private<Interactions>,
        n_candidates: usize,
        mechanism: ExponentialMechanism,
        contribution: &C,
    ) -> Result<SelectedIndex> {
        self.select_any(data, n_candidates, mechanism, contribution)
    }

    fn select_any(
        &mut self,
        data: &Private<Interactions>,
        n_candidates: usize,
        mechanism: ExponentialMechanism,
        contribution: &dyn AnyContribution<SparseBuffer>,
    ) -> Result<SelectedIndex> {
        let made = self.make(
            self.selection(n_candidates)?,
            data,
            &|shard, _| ScoreSum::shard_sum(shard, n_candidates, mechanism, contribution),
            n_candidates,
            &mut |scores, spends, noise| {
                let sum = ScoreSum::of_total(mechanism, scores);
                let selected = sum.select(one(spends)?, noise)?;
                Ok(vec![i64::try_from(selected.index()).unwrap_or(i64::MAX)])
            },
        )?;
        Ok(SelectedIndex::of(index_of(&made), made.insecure))
    }

    fn selection(&self, n_candidates: usize) -> Result<Ask> {
        let planned = self.ahead().first().ok_or_else(|| self.past_the_end())?;
        Ok(Ask {
            form: ReleaseForm {
                kind: ReleaseKind::Selection,
                labels: vec![planned.label().to_owned()],
                grids: Vec::new(),
                n_integers: 1,
                n_candidates,
                night: None,
            },
            sampling: None,
            n_keys: 1,
        })
    }

    pub(super) fn show(&mut self, seen: &Observed<'_>) {
        if let Some(observer) = &mut self.observer {
            observer.release(seen);
        }
    }

    /// Draws which of `n_clients` are asked for the next release of the plan, a sum of vectors that
    /// the clients send. The release is charged from here on. [`close`](Self::close) sums the
    /// messages and makes the release. The last coordinates have ranges of their own, in data
    /// units: a message with one outside its range is ignored
    /// ([`VectorSum::from_messages_within`]).
    ///
    /// # Errors
    /// The errors of the ledger and of [`ClientSampling::pay_and_sample`]; [`Error::EndOfList`]
    /// unless the run makes its releases here.
    pub fn open(
        &mut self,
        sampling: impl Into<ClientSampling>,
        n_clients: usize,
        (n, clip_norm): (usize, f64),
        ranges: &[(f64, f64)],
    ) -> Result<OpenSum> {
        let sampling = sampling.into();
        params::at_least_one("n_coordinates", n)?;
        if self.list.is_replaying()? {
            return Err(Error::List {
                what: "the run has made this release before: it is to be reopened".to_owned(),
            });
        }
        let (label, multiplier) = self.planned(0)?;
        let grid = Grid::new(multiplier, clip_norm)?;
        sampling.check_population(n_clients)?;
        let ask = Ask {
            form: vector_form(label, &grid, n),
            sampling: Some(sampling),
            n_keys: 2,
        };
        let (spends, lines) = self.pay(&ask)?;
        let Source::Here { noise, .. } = &mut self.source else {
            return Err(Error::EndOfList);
        };
        let sample = sampling.pay_and_sample(n_clients, one(spends)?, noise)?;
        Ok(OpenSum {
            ask,
            multiplier,
            grid,
            lines,
            sample,
            ranges: ranges.iter().map(|&range| grid.range(range)).collect(),
            list_head: self.list.head().to_owned(),
        })
    }

    /// The next release of the plan from the list, if the run has made it before, with the clients
    /// that were asked then.
    ///
    /// # Errors
    /// [`Error::List`] if the list has another release at this position.
    pub fn reopened(
        &mut self,
        sampling: impl Into<ClientSampling>,
        (n, clip_norm): (usize, f64),
    ) -> Result<Option<ReleasedVector>> {
        let (label, multiplier) = self.planned(0)?;
        let grid = Grid::new(multiplier, clip_norm)?;
        let ask = Ask {
            form: vector_form(label, &grid, n),
            sampling: Some(sampling.into()),
            n_keys: 2,
        };
        let Some(entry) = self.list.next_replayed()? else {
            return Ok(None);
        };
        let made = self.replayed(entry, &ask)?;
        Ok(Some(floored(grid, made)))
    }

    /// Sums the messages of the clients that were asked and releases the sum:
    /// [`VectorSum::from_messages_within`].
    ///
    /// # Errors
    /// As [`VectorSum::from_messages_within`] and [`VectorSum::release`]; the errors of the list.
    /// What was charged stays spent.
    pub fn close<M: AsRef<[i64]>>(
        &mut self,
        open: OpenSum,
        messages: impl IntoIterator<Item = (usize, M)>,
    ) -> Result<ReleasedVector> {
        let OpenSum {
            ask,
            grid,
            lines,
            sample,
            ranges,
            list_head,
            ..
        } = open;
        if list_head != self.list.head() {
            return Err(Error::List {
                what: "the round was opened by another run, or before another release".to_owned(),
            });
        }
        let n = ask.form.n_integers;
        let sum = VectorSum::from_messages_within(sample, messages, n, grid, &ranges)?;
        let Source::Here { noise, .. } = &mut self.source else {
            return Err(Error::EndOfList);
        };
        let released = sum.release(noise)?;
        let (insecure, integers) = (released.is_insecure(), released.into_integers());
        let at = (self.list.len(), self.list.head());
        let entry = ReleaseEntry::new(ask.form, lines, insecure, integers, at)?;
        let entry = self.publish(entry, &InProcess)?;
        let made = ReleasedIntegers {
            insecure,
            integers: entry.into_integers(),
            replayed: false,
        };
        Ok(floored(grid, made))
    }
}

/// A round that has been charged, with the clients to be asked: see [`Run::open`].
///
/// # Privacy
/// Which clients are asked is secret, see [`ClientSample`](crate::ClientSample).
#[must_use = "a sample that is dropped stays paid for; nothing is refunded"]
#[allow(
    missing_debug_implementations,
    reason = "who is asked must stay secret; printing it is never wanted"
)]
pub struct OpenSum {
    ask: Ask,
    multiplier: f64,
    grid: Grid,
    lines: Vec<super::PaidLine>,
    sample: PaidSample,
    ranges: Vec<(i64, i64)>,
    list_head: String,
}

impl OpenSum {
    /// The clients to be asked, by number, increasing.
    #[must_use]
    pub fn asked(&self) -> &[usize] {
        self.sample.indices()
    }

    /// The noise multiplier that was charged. Together with the bound on a client's norm it
    /// determines the grid.
    #[must_use]
    pub const fn noise_multiplier(&self) -> f64 {
        self.multiplier
    }

    /// The grid on which clients bound what they send.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Whether the sample was repeatable.
    #[must_use]
    pub const fn is_insecure(&self) -> bool {
        self.sample.is_insecure()
    }
}

pub(super) fn vector_form(label: String, grid: &Grid, n_integers: usize) -> ReleaseForm {
    ReleaseForm {
        kind: ReleaseKind::Vector,
        labels: vec![label],
        grids: vec![GridForm::from(grid)],
        n_integers,
        n_candidates: 0,
        night: None,
    }
}

fn floored(grid: Grid, made: ReleasedIntegers) -> ReleasedVector {
    ReleasedVector::new(grid, made.integers, NoiseLaw::Floored, made.insecure)
}

fn index_of(made: &ReleasedIntegers) -> usize {
    let index = made.integers.first().copied().unwrap_or(0);
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn one(spends: Vec<Spend>) -> Result<Spend> {
    let found = spends.len();
    let mut spends = spends.into_iter();
    spends.next().ok_or(Error::Spends {
        expected: 1,
        found,
        label: String::new(),
    })
}

fn two(spends: Vec<Spend>) -> Result<[Spend; 2]> {
    spends
        .try_into()
        .map_err(|spends: Vec<Spend>| Error::Spends {
            expected: 2,
            found: spends.len(),
            label: String::new(),
        })
}
