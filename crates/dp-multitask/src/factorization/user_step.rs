//! The user step: one user's offset and factor from their own records and the item factors. Local.

use dp_core::UserRow;
use dp_linalg::{
    AlignedVec, GramAccumulator, PlainLoops, Real, cholesky_in_place, cholesky_solve_in_place,
    with_vector_instructions,
};

use super::item_posterior::add_scaled;
use super::item_update::ScoreModel;
use super::model::{PersonalModel, UserPenalties};
use crate::LocalBias;

/// Item factors in the form that the user step needs: rows `[1, q_i]` and the item biases `h_i`.
pub(crate) struct Design {
    dim: usize,
    rows: Rows,
    item_bias: Vec<f64>,
    score_model: ScoreModel,
    unobserved: Option<Unobserved>,
    /// For each item, the variance of its bias and the sum of those of its taste factors, if known.
    variances: Option<Vec<[f64; 2]>>,
}

/// The rows in the precision in which a user's equations are summed; they are solved in double
/// precision.
///
/// Sums in single precision take half the time. Their relative error, 2^-24 per term, is far below
/// the penalties as long as no entry is large, which noise may cause.
enum Rows {
    Single(AlignedVec<f32>),
    Double(AlignedVec<f64>),
}

/// Leverages are below 1 with any penalty, up to rounding.
const LARGEST_LEVERAGE: f64 = 1.0 - 1e-6;
/// Largest absolute value of an entry for which rows are summed in single precision.
const LARGEST_SINGLE: f64 = 16.0;

impl Rows {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "rounded to single precision by design"
    )]
    fn new(rows: &[f64]) -> Self {
        if rows.iter().all(|x| x.abs() <= LARGEST_SINGLE) {
            let mut single = AlignedVec::zeros(rows.len());
            for (to, &x) in single.iter_mut().zip(rows) {
                *to = x as f32;
            }
            Self::Single(single)
        } else {
            Self::Double(AlignedVec::from_slice(rows))
        }
    }

    /// Copies entries starting at `start`.
    fn copy(&self, start: usize, to: &mut [f64]) {
        match self {
            Self::Single(rows) => {
                for (to, &x) in to.iter_mut().zip(&rows[start..]) {
                    *to = x.into();
                }
            }
            Self::Double(rows) => to.copy_from_slice(&rows[start..][..to.len()]),
        }
    }

    /// Entry `at`, counted row by row.
    fn get(&self, at: usize) -> f64 {
        match self {
            Self::Single(rows) => rows[at].into(),
            Self::Double(rows) => rows[at],
        }
    }
}

/// The contribution of all items together to a user's equations if an item without a record is a
/// weak negative.
struct Unobserved {
    /// `a0 sum_i x_i x_i^T` over the rows `x_i`, row-major.
    gramian: Vec<f64>,
    /// `-a0 sum_i x_i h_i`.
    rhs: Vec<f64>,
}

impl Design {
    /// From rows `[h_i, q_i]` of length `dim`. Without biases the first column is 0 instead of 1,
    /// so that the offset is 0.
    pub(crate) fn new(item_factors: &[f64], dim: usize, score_model: ScoreModel) -> Self {
        let first = if score_model.is_biased() { 1.0 } else { 0.0 };
        let mut rows = item_factors.to_vec();
        let mut item_bias = Vec::with_capacity(rows.len() / dim);
        for row in rows.chunks_exact_mut(dim) {
            item_bias.push(row[0]);
            row[0] = first;
        }
        Self {
            dim,
            rows: Rows::new(&rows),
            item_bias,
            score_model,
            unobserved: None,
            variances: None,
        }
    }

    /// With the standard errors of the item factors.
    pub(crate) fn with_standard_errors(mut self, errors: &[f64]) -> Self {
        let sum = |errors: &[f64]| errors.iter().map(|e| e * e).sum();
        let rows = errors.chunks_exact(self.dim);
        self.variances = Some(rows.map(|row| [row[0] * row[0], sum(&row[1..])]).collect());
        self
    }

    /// The variances of an item's factors, if known.
    pub(crate) fn variances(&self) -> Option<&[[f64; 2]]> {
        self.variances.as_deref()
    }

    /// For implicit feedback, with the weight `a0` of every item. Public: computed from released
    /// factors.
    pub(crate) fn with_unobserved(mut self, weight: f64) -> Self {
        let dim = self.dim;
        let mut gramian = vec![0.0; dim * dim];
        let mut rhs = vec![0.0; dim];
        let mut row = vec![0.0; dim];
        for (item, h) in self.item_bias.iter().enumerate() {
            for (k, x) in row.iter_mut().enumerate() {
                *x = self.rows.get(item * dim + k);
            }
            for (a, x) in row.iter().enumerate() {
                rhs[a] -= weight * x * h;
                for (entry, y) in gramian[a * dim..][..dim].iter_mut().zip(&row) {
                    *entry += weight * x * y;
                }
            }
        }
        self.unobserved = Some(Unobserved { gramian, rhs });
        self
    }

    /// `sum w_i x_i x_i^T` and `sum w_i y_i x_i` over the user's records; `w_i` is 1 without weights.
    pub(crate) fn sums<'s>(
        &self,
        user: UserRow<'_>,
        label: impl Fn(f32) -> f64 + Copy,
        weights: Option<&[f64]>,
        scratch: &'s mut UserScratch,
    ) -> Result<(&'s [f64], &'s [f64]), dp_linalg::Error> {
        let labels = user.values().iter().map(|&y| label(y));
        self.write_sums(user, labels, weights, scratch)?;
        Ok((&scratch.matrix, &scratch.solution))
    }

    fn write_sums(
        &self,
        user: UserRow<'_>,
        labels: impl Iterator<Item = f64> + Clone,
        weights: Option<&[f64]>,
        scratch: &mut UserScratch,
    ) -> Result<(), dp_linalg::Error> {
        let items = user.items();
        let out = (&mut scratch.matrix[..], &mut scratch.solution[..]);
        match &self.rows {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "single precision by design"
            )]
            Rows::Single(rows) => {
                // in units in which no label overflows single precision
                let unit = labels.clone().fold(1.0, |most: f64, y| most.max(y.abs()));
                let labels = labels.map(|y| (y / unit) as f32);
                let weights = weights.map(|all| all.iter().map(|&w| w as f32));
                scratch.single.write(rows, items, (labels, weights), out)?;
                scratch.solution.iter_mut().for_each(|b| *b *= unit);
            }
            Rows::Double(rows) => {
                let weights = weights.map(|all| all.iter().copied());
                scratch.double.write(rows, items, (labels, weights), out)?;
            }
        }
        Ok(())
    }

    pub(crate) const fn is_implicit(&self) -> bool {
        self.unobserved.is_some()
    }

    /// `a0 sum_i x_i x_i^T` over the rows of all items, row-major, if an item without a record is a
    /// weak negative.
    pub(crate) fn unobserved(&self) -> Option<&[f64]> {
        self.unobserved.as_ref().map(|all| &all.gramian[..])
    }

    pub(crate) const fn score_model(&self) -> ScoreModel {
        self.score_model
    }

    pub(crate) const fn dim(&self) -> usize {
        self.dim
    }

    /// The bias `h_i` of an item.
    pub(crate) fn item_bias(&self, item: u32) -> f64 {
        self.item_bias[item as usize]
    }

    /// The row `[1, q_i]` of an item.
    pub(crate) fn row(&self, item: u32) -> impl Iterator<Item = f64> {
        let start = item as usize * self.dim;
        (start..start + self.dim).map(|at| self.rows.get(at))
    }
}

/// Ridge regression of one user's ratings on the factors of the user's items.
///
/// ```text
/// y_i = rating_i - c - bias,   bias the user's shrunken mean
/// (o, v) = argmin sum_i (y_i - h_i - o - <q_i, v>)^2 + lambda_o o^2 + (lambda + n lambda_n) ||v||^2
/// ```
///
/// Without biases, `bias`, `o` and `h_i` are 0. All `n` items of the user have equal weight; no
/// data of other users are used. Cost O(n d^2 + d^3).
///
/// With implicit feedback every label `y_i` is 1 and all items of the catalogue, with weight `a0`,
/// pull the score `h_i + o + <q_i, v>` to 0. A user without records then has the zero factor.
#[derive(Clone, Copy)]
pub(crate) struct UserStep<'a> {
    pub(crate) design: &'a Design,
    pub(crate) bias: LocalBias,
    pub(crate) penalties: UserPenalties,
}

/// Scratch memory of the user step, one per thread.
#[allow(
    missing_debug_implementations,
    reason = "holds one user's labels; printing them is never wanted"
)]
pub struct UserScratch {
    single: Sums<f32>,
    double: Sums<f64>,
    labels: Vec<f64>,
    matrix: Vec<f64>,
    solution: Vec<f64>,
    /// Whether `matrix` contains the factorisation with which `solution` was computed.
    is_factored: bool,
    inverse: Vec<f64>,
    row: Vec<f64>,
    change: Vec<f64>,
}

/// Sums of one user's rows in one precision.
struct Sums<T> {
    gram: GramAccumulator<T>,
    labels: Vec<T>,
    weights: Vec<T>,
    matrix: Vec<T>,
}

/// One user's solution: the offset in addition to the bias, and the factor.
pub(crate) struct UserSolution<'a> {
    /// Bias plus offset, relative to the public centre.
    pub(crate) offset: f64,
    /// The factor `v`, length `dim - 1`.
    pub(crate) factor: &'a [f64],
}

impl UserScratch {
    pub(crate) fn new(dim: usize) -> Result<Self, dp_linalg::Error> {
        Ok(Self {
            single: Sums::new(dim)?,
            double: Sums::new(dim)?,
            labels: Vec::new(),
            matrix: vec![0.0; dim * dim],
            solution: vec![0.0; dim],
            is_factored: false,
            inverse: vec![0.0; dim * dim],
            row: vec![0.0; dim],
            change: vec![0.0; dim],
        })
    }
}

impl UserScratch {
    /// Overwrites `inverse` with that of the matrix whose factorisation is in `matrix`; with 0 if
    /// there is none.
    fn invert(&mut self, dim: usize) {
        self.inverse.fill(0.0);
        if !self.is_factored {
            return;
        }
        with_vector_instructions(Inverse {
            factor: &self.matrix,
            dim,
            out: &mut self.inverse,
        });
    }
}

/// Writes `A^-1` into `out`, which must be zero, given the upper factor `U` of `A = U^T U`.
struct Inverse<'a> {
    factor: &'a [f64],
    dim: usize,
    out: &'a mut [f64],
}

impl PlainLoops for Inverse<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (u, dim) = (self.factor, self.dim);
        // U^T Y = I
        for i in 0..dim {
            let (above, rest) = self.out.split_at_mut(i * dim);
            rest[i] = 1.0;
            for (k, row) in above.chunks_exact(dim).enumerate() {
                add_scaled(-u[k * dim + i], row, &mut rest[..=k]);
            }
            rest[..=i].iter_mut().for_each(|x| *x /= u[i * (dim + 1)]);
        }
        // U X = Y
        for i in (0..dim).rev() {
            let (rest, below) = self.out.split_at_mut((i + 1) * dim);
            let own = &mut rest[i * dim..];
            for (k, row) in (i + 1..dim).zip(below.chunks_exact(dim)) {
                add_scaled(-u[i * dim + k], row, own);
            }
            own.iter_mut().for_each(|x| *x /= u[i * (dim + 1)]);
        }
    }
}

impl<T: Real + Into<f64>> Sums<T> {
    fn new(dim: usize) -> Result<Self, dp_linalg::Error> {
        Ok(Self {
            gram: GramAccumulator::new(dim)?,
            labels: Vec::new(),
            weights: Vec::new(),
            matrix: vec![T::default(); dim * dim],
        })
    }

    /// Writes `sum w_i x_i x_i^T` and `sum w_i y_i x_i` over rows `items`.
    fn write(
        &mut self,
        rows: &[T],
        items: &[u32],
        (labels, weights): (impl Iterator<Item = T>, Option<impl Iterator<Item = T>>),
        (matrix, rhs): (&mut [f64], &mut [f64]),
    ) -> Result<(), dp_linalg::Error> {
        self.labels.clear();
        self.labels.extend(labels);
        let is_weighted = weights.is_some();
        self.weights.clear();
        self.weights.extend(weights.into_iter().flatten());
        let weights = is_weighted.then_some(&self.weights[..]);
        self.gram.reset();
        self.gram
            .add_gathered_with_rhs(rows, items, weights, &self.labels)?;
        self.gram.write_full(&mut self.matrix)?;
        for (wide, &x) in matrix.iter_mut().zip(&self.matrix) {
            *wide = x.into();
        }
        for (wide, &x) in rhs.iter_mut().zip(self.gram.rhs()) {
            *wide = x.into();
        }
        Ok(())
    }
}

impl UserStep<'_> {
    /// Solves for one user. If the system cannot be solved because released factors overflowed, the
    /// result is the zero factor.
    pub(crate) fn solve<'s>(
        &self,
        user: UserRow<'_>,
        scratch: &'s mut UserScratch,
    ) -> UserSolution<'s> {
        let implicit = self.design.is_implicit();
        let (bias, start) = if implicit {
            (0.0, 0.0)
        } else {
            let bias = match self.design.score_model {
                ScoreModel::Biased => self.bias.of(user.values()),
                ScoreModel::Plain => 0.0,
            };
            (bias, self.bias.center + bias)
        };
        let value = |y: f32| if implicit { 1.0 } else { f64::from(y) };
        scratch.labels.clear();
        scratch.labels.extend(
            user.iter()
                .map(|(item, y)| value(y) - start - self.design.item_bias[item as usize]),
        );
        let nothing_known = implicit && user.is_empty();
        scratch.is_factored = !nothing_known && self.solve_normal_equations(user, scratch).is_ok();
        if !scratch.is_factored {
            scratch.solution.fill(0.0);
        }
        UserSolution {
            offset: bias + scratch.solution[0],
            factor: &scratch.solution[1..],
        }
    }

    /// Calls `each` with the index of every record and the result that [`solve`](Self::solve),
    /// which must just have been called for this user of ratings, would have without the record:
    /// the offset, and `[o, v]`, which `each` may overwrite.
    ///
    /// ```text
    /// w_(i) = w - A^-1 x_i e_i / (1 - l_i),     e_i = y_i - <x_i, w>,     l_i = x_i^T A^-1 x_i
    /// ```
    ///
    /// for `A w = sum y_i x_i` (Allen 1974), with labels minus the shrunken mean of all records;
    /// the offset is then relative to the mean of the others. Cost O(d^2) per record and O(d^3) per
    /// user. If `A` could not be factorised, all are the zero factor.
    pub(crate) fn leave_one_out(
        &self,
        user: UserRow<'_>,
        scratch: &mut UserScratch,
        mut each: impl FnMut(usize, f64, &mut [f64]),
    ) {
        let dim = self.design.dim;
        let total: f64 = user.values().iter().map(|&y| self.above_center(y)).sum();
        let others = user.len().saturating_sub(1) as f64 + self.bias.shrinkage;
        let of_mean = match self.design.score_model {
            ScoreModel::Biased if others > 0.0 => others.recip(),
            _ => 0.0,
        };
        scratch.invert(dim);
        for (at, (item, value)) in user.iter().enumerate() {
            self.design.rows.copy(item as usize * dim, &mut scratch.row);
            with_vector_instructions(WithoutRecord {
                inverse: &scratch.inverse,
                x: &scratch.row[..dim],
                label: scratch.labels[at],
                solution: &scratch.solution,
                out: &mut scratch.change,
            });
            let mean = (total - self.above_center(value)) * of_mean;
            let offset = mean + scratch.change[0];
            each(at, offset, &mut scratch.change);
        }
    }

    fn above_center(&self, rating: f32) -> f64 {
        f64::from(rating) - self.bias.center
    }

    fn solve_normal_equations(
        &self,
        user: UserRow<'_>,
        scratch: &mut UserScratch,
    ) -> Result<(), dp_linalg::Error> {
        let dim = self.design.dim;
        let taste = self.penalties.factor + user.len() as f64 * self.penalties.factor_per_record;
        let labels = std::mem::take(&mut scratch.labels);
        let written = self
            .design
            .write_sums(user, labels.iter().copied(), None, scratch);
        scratch.labels = labels;
        written?;
        scratch.matrix[0] += self.penalties.offset;
        for k in 1..dim {
            scratch.matrix[k * dim + k] += taste;
        }
        if let Some(unobserved) = &self.design.unobserved {
            add_to(&mut scratch.matrix, &unobserved.gramian);
            add_to(&mut scratch.solution, &unobserved.rhs);
        }
        cholesky_in_place(&mut scratch.matrix, dim)?;
        cholesky_solve_in_place(&scratch.matrix, dim, &mut scratch.solution)
    }

    /// The user's personal model.
    pub(crate) fn personal_model(
        &self,
        user: UserRow<'_>,
        scratch: &mut UserScratch,
    ) -> PersonalModel {
        let solution = self.solve(user, scratch);
        PersonalModel {
            offset: solution.offset + self.center(),
            bias_weight: 1.0,
            factor: solution.factor.to_vec(),
        }
    }

    /// The reference value of offsets.
    pub(crate) const fn center(&self) -> f64 {
        if self.design.is_implicit() {
            0.0
        } else {
            self.bias.center
        }
    }
}

/// Writes the solution of ridge regression without one record: see [`UserStep::leave_one_out`].
struct WithoutRecord<'a> {
    /// `A^-1`, symmetric.
    inverse: &'a [f64],
    x: &'a [f64],
    label: f64,
    solution: &'a [f64],
    out: &'a mut [f64],
}

impl PlainLoops for WithoutRecord<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let dim = self.x.len();
        let out = &mut self.out[..dim];
        out.fill(0.0);
        // A^-1 x column by column: the sums of all rows advance together
        for (k, x) in self.x.iter().enumerate() {
            add_scaled(*x, &self.inverse[k * dim..], out);
        }
        let leverage = lane_dot(out, self.x).clamp(0.0, LARGEST_LEVERAGE);
        let error = (self.label - lane_dot(self.solution, self.x)) / (1.0 - leverage);
        let solution = &self.solution[..dim];
        for k in 0..dim {
            out[k] = solution[k] - out[k] * error;
        }
    }
}

/// An inner product in eight partial sums, so that it can be vectorised.
#[inline(always)]
pub(super) fn lane_dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let (n, b) = (a.len(), &b[..a.len()]);
    let whole = n - n % LANES;
    let mut sums = [0.0; LANES];
    for start in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            sums[lane] += a[start + lane] * b[start + lane];
        }
    }
    let mut tail = 0.0;
    for k in whole..n {
        tail += a[k] * b[k];
    }
    sums.iter().sum::<f64>() + tail
}

fn add_to(sum: &mut [f64], terms: &[f64]) {
    for (entry, term) in sum.iter_mut().zip(terms) {
        *entry += term;
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::*;

    /// The factor of one user with 40 records under item factors of this size.
    fn factor(size: f64, rows: fn(&[f64]) -> Rows) -> Vec<f64> {
        let (dim, n_items) = (9, 40);
        let entry = |at: usize| size * (((at * 7919) % 1009) as f64 / 504.5 - 1.0);
        let factors: Vec<f64> = (0..dim * n_items).map(entry).collect();
        let mut design = Design::new(&factors, dim, ScoreModel::Biased);
        let plain: Vec<f64> = (0..dim * n_items).map(|at| design.rows.get(at)).collect();
        design.rows = rows(&plain);
        let mut builder = InteractionsBuilder::new(n_items);
        for item in 0..40_u8 {
            builder
                .push(0, item.into(), f32::from(item % 5 + 1))
                .unwrap();
        }
        let step = UserStep {
            design: &design,
            bias: LocalBias {
                center: 3.0,
                shrinkage: 5.0,
            },
            penalties: UserPenalties {
                offset: 20.0,
                factor: 0.3,
                factor_per_record: 0.0,
            },
        };
        let mut scratch = UserScratch::new(dim).unwrap();
        let table = builder.build().0;
        step.solve(table.user(0), &mut scratch).factor.to_vec()
    }

    #[test]
    fn leaving_a_record_out_is_solving_without_it() {
        let dim = 4;
        let factors: Vec<f64> = (0..dim * 12)
            .map(|at| f64::from(u8::try_from(at * 37 % 101).unwrap()) / 50.0 - 1.0)
            .collect();
        let design = Design::new(&factors, dim, ScoreModel::Biased);
        let step = |shrinkage| UserStep {
            design: &design,
            bias: LocalBias {
                center: 3.0,
                shrinkage,
            },
            penalties: UserPenalties {
                offset: 2.0,
                factor: 0.3,
                factor_per_record: 0.0,
            },
        };
        let table = |without: Option<u8>| {
            let mut builder = InteractionsBuilder::new(12);
            for item in (0..9_u8).filter(|item| Some(*item) != without) {
                builder
                    .push(0, item.into(), f32::from(item * 7 % 5 + 1))
                    .unwrap();
            }
            builder.build().0
        };
        let mut scratch = UserScratch::new(dim).unwrap();
        // around the centre, and around means of ratings
        for shrinkage in [1e12, 30.0] {
            let all = table(None);
            step(shrinkage).solve(all.user(0), &mut scratch);
            let mut found = Vec::new();
            step(shrinkage).leave_one_out(all.user(0), &mut scratch, |at, offset, w| {
                found.push((at, offset, w.to_vec()));
            });
            assert_eq!(found.len(), 9);
            for (at, offset, w) in found {
                let others = table(u8::try_from(at).ok());
                let mut again = UserScratch::new(dim).unwrap();
                let alone = step(1e12).solve(others.user(0), &mut again);
                if shrinkage > 1e6 {
                    assert!(
                        (offset - alone.offset).abs() < 1e-6,
                        "{offset} {}",
                        alone.offset
                    );
                    for (a, b) in w[1..].iter().zip(alone.factor) {
                        assert!((a - b).abs() < 1e-5, "{a} {b}");
                    }
                } else {
                    let mean = step(shrinkage).bias.of(others.user(0).values());
                    assert!((offset - w[0] - mean).abs() < 1e-9, "{offset} {mean}");
                }
            }
        }
    }

    fn double(rows: &[f64]) -> Rows {
        Rows::Double(AlignedVec::from_slice(rows))
    }

    #[test]
    fn single_precision_changes_little_where_it_is_used() {
        for size in [1e-3, 1.0, LARGEST_SINGLE] {
            let (single, double) = (factor(size, Rows::new), factor(size, double));
            let norm = double.iter().map(|x| x * x).sum::<f64>().sqrt();
            for (x, y) in single.iter().zip(&double) {
                assert!((x - y).abs() < 1e-4 * norm, "{size}: {x} {y}");
                assert!(size < 0.1 || x.to_bits() != y.to_bits());
            }
        }
        let large = 1.01 * LARGEST_SINGLE;
        assert_eq!(factor(large, Rows::new), factor(large, double));
    }
}
