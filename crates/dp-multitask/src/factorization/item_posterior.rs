//! Posterior of items' parameters given all noisy sums, with a prior that is learned from the same
//! sums. Post-processing of releases.

use dp_core::parallel;
use dp_linalg::{
    PlainLoops, cholesky_in_place, cholesky_solve_in_place, symmetric_eigen,
    with_vector_instructions,
};

use crate::Result;

/// Candidate initial spreads: the number of them, the ratio between successive ones, and the
/// largest in units of the label bound.
const SPREADS: (usize, f64, f64) = (40, 0.84, 10.0);
/// Number of EM steps starting from the most likely spread.
const N_STEPS: usize = 30;
/// The same if every night starts over and there are many columns.
const N_QUICK_STEPS: usize = 10;
/// Minimum variance along an axis, relative to the largest.
const LEAST_VARIANCE: f64 = 1e-9;
/// Regularises the equations of collinear columns, relative to their diagonal.
const TIE: f64 = 1e-9;
/// Minimum eigenvalue of `C` used as a divisor, relative to the mean eigenvalue.
const LEAST_EIGENVALUE: f64 = 0.02;
/// Number of items that one thread processes at a time.
const PART: usize = 512;
/// Initial prior variance of a public column, and its minimum and maximum, relative to the variance
/// of an item's own part.
const COLUMN: (f64, f64, f64) = (0.1, 1e-9, 1e3);

/// Squares of the candidate spreads, largest first.
pub(super) fn spreads(unit: f64) -> impl Iterator<Item = f64> {
    let (n, ratio, largest) = SPREADS;
    std::iter::successors(Some((largest * unit).powi(2)), move |v| {
        Some(v * ratio * ratio)
    })
    .take(n)
}

/// Evidence about the items from the rounds so far: the mean of `y_it`, weighted by the precision
/// of the noise.
///
/// ```text
/// y_it = r_it / pi + W_i C x_it ~ N(W_i u_i, s_t^2 I + t_i C)       u_i = C x_i;  x_it the coefficients of a round, r_it the sums around them
/// u_i ~ N(beta z_i, M)                                      z_i = [1, ln W_i, public columns]
/// beta_kj ~ N(0, gamma_j D_k) in the axes of M = Q D Q^T    for public columns; flat for the trend
/// ```
///
/// `pi` is approximately the part of residuals that is not clipped; `s_t` is the standard deviation
/// of the noise divided by it. `t_i` is what residuals of other users would change: it does not
/// become smaller by more rounds, and along each axis of `M` only its own variance is counted.
/// `W_i` are the items' released total weights, at least the standard
/// deviation of their noise. `M` and the `gamma_j` maximise the marginal likelihood of the sums of
/// all items, found by expectation and maximisation (Dempster, Laird and Rubin 1977) and the fixed
/// point of `MacKay` (1992): sums that show nothing above their noise leave no differences between
/// items, and uninformative columns get no weight. Source: Efron and Morris 1973 for one parameter
/// per item.
#[derive(Debug, Clone, Default)]
pub(super) struct ItemEvidence {
    sums: Vec<f64>,
    precision: f64,
    prior: Option<Prior>,
    uncertainty: Option<Uncertainty>,
    is_quick: bool,
}

/// Posterior covariances of the items' own parts: `C^-1 Q diag(v_i) Q^T C^-1`.
#[derive(Debug, Clone)]
struct Uncertainty {
    /// Rows of `Q^T`.
    vectors: Vec<f64>,
    /// Rows of `Q^T C^-1`.
    axes: Vec<f64>,
    /// `v_i`, rows of length `dim`.
    variances: Vec<f64>,
}

/// Derivatives of items' estimates with respect to their sums:
/// `dx_i / dy_i = C^-1 Q diag(g_i) Q^T` with `g_ik = W_i D_k / (W_i^2 D_k + s^2 + t_i c_k)`.
pub(super) struct Response {
    /// `g_i`, rows of length `dim`.
    gains: Vec<f64>,
    /// Rows of `Q^T`.
    vectors: Vec<f64>,
    /// Rows of `Q^T C^-1`.
    axes: Vec<f64>,
}

impl Response {
    /// Subtracts from `x` what `scale` times `part` adds to the estimate of an item if it is added to
    /// its sums.
    pub(super) fn subtract(&self, item: usize, (scale, part): (f64, &[f64]), x: &mut [f64]) {
        let dim = x.len();
        let gains = &self.gains[item * dim..][..dim];
        let axes = self.axes.chunks_exact(dim);
        let pairs = self.vectors.chunks_exact(dim).zip(axes).zip(gains);
        for ((vector, axis), gain) in pairs {
            add_scaled(-scale * gain * dot(vector, part), axis, x);
        }
    }
}

/// The learned prior of all items.
#[derive(Debug, Clone)]
struct Prior {
    /// `M`, row-major.
    spread: Vec<f64>,
    /// `gamma_j` of the public columns.
    columns: Vec<f64>,
}

/// Sums of a round, and the point around which they were computed.
pub(super) struct RoundSums<'a> {
    /// Rows of length `dim`, in the coordinates of users' factors.
    pub(super) sums: &'a [f64],
    /// The same of the coefficients `x_it`.
    pub(super) around: &'a [f64],
    pub(super) noise_stddev: f64,
    /// `pi`.
    pub(super) passes: f64,
}

/// Known quantities of the items other than their sums.
pub(super) struct Known<'a> {
    /// `W_i`, above 0.
    pub(super) weights: &'a [f64],
    /// `C`, row-major, of trace 1.
    pub(super) matrix: &'a [f64],
    /// `t_i`, the sampling variances of the sums; empty for 0.
    pub(super) sampling: &'a [f64],
    /// Public columns, row by row.
    pub(super) columns: &'a [f64],
    /// The bound on labels.
    pub(super) unit: f64,
}

impl<'a> Known<'a> {
    /// For items that have only biases.
    pub(super) const fn of_biases(weights: &'a [f64], unit: f64) -> Self {
        Self {
            weights,
            matrix: &[1.0],
            sampling: &[],
            columns: &[],
            unit,
        }
    }

    fn n_columns(&self) -> usize {
        self.columns.len() / self.weights.len()
    }

    /// `z_i` of all items, trend first.
    fn regressors(&self) -> Vec<f64> {
        let n = self.n_columns();
        let rows = self.weights.iter().enumerate();
        rows.flat_map(|(item, w)| {
            let own = &self.columns[item * n..][..n];
            [1.0, w.ln()].into_iter().chain(own.iter().copied())
        })
        .collect()
    }
}

/// Number of regressors that depend on the weights.
const TREND: usize = 2;

impl ItemEvidence {
    /// Means `y_i`, with noise of this precision.
    pub(super) fn of(sums: Vec<f64>, precision: f64) -> Self {
        Self {
            sums,
            precision,
            prior: None,
            uncertainty: None,
            is_quick: false,
        }
    }

    /// The same with candidate spreads compared without the public columns, and fewer steps from
    /// there.
    pub(super) const fn quick(mut self) -> Self {
        self.is_quick = true;
        self
    }

    /// Adds a round.
    pub(super) fn observe(&mut self, of: &RoundSums<'_>, known: &Known<'_>) {
        let dim = of.sums.len() / known.weights.len();
        if self.sums.len() != of.sums.len() {
            *self = Self::of(vec![0.0; of.sums.len()], 0.0);
        }
        let precision = (of.noise_stddev / of.passes).powi(-2);
        self.precision += precision;
        let share = precision / self.precision;
        let rows = of.sums.chunks_exact(dim).zip(of.around.chunks_exact(dim));
        let items = self.sums.chunks_exact_mut(dim).zip(rows).zip(known.weights);
        for ((mean, (r, x)), w) in items {
            for ((mean, r), c) in mean.iter_mut().zip(r).zip(known.matrix.chunks_exact(dim)) {
                let y = r / of.passes + w * dot(c, x);
                *mean += share * (y - *mean);
            }
        }
    }

    /// The same evidence for item biases alone, if all users' factors have the constant coordinate
    /// `constant`.
    pub(super) fn of_constant(&self, dim: usize, constant: f64) -> Self {
        let sums = self.sums.iter().step_by(dim).map(|y| y / constant);
        Self::of(sums.collect(), self.precision * constant * constant)
    }

    /// How the last [`estimates`](Self::estimates) depend on the sums, treating the learned prior as
    /// fixed. `None` before there are any estimates.
    pub(super) fn response(&self, known: &Known<'_>) -> Option<Response> {
        let Uncertainty {
            vectors,
            axes,
            variances,
        } = self.uncertainty.as_ref()?;
        let dim = axes.len().isqrt();
        let shares = shares(vectors, known.matrix, dim);
        let noise = self.precision.recip();
        let items = variances.chunks_exact(dim).zip(known.weights).enumerate();
        let gains = items.flat_map(|(item, (variances, w))| {
            let t = known.sampling.get(item).copied().unwrap_or_default();
            let along = variances.iter().zip(&shares);
            along.map(move |(v, c)| w * v / (noise + t * c))
        });
        Some(Response {
            gains: gains.collect(),
            vectors: vectors.clone(),
            axes: axes.clone(),
        })
    }

    /// The posterior means `x_i`, rows of length `dim`.
    ///
    /// # Errors
    /// When a released value is not finite.
    pub(super) fn estimates(&mut self, known: &Known<'_>) -> Result<Vec<f64>> {
        let dim = self.sums.len() / known.weights.len();
        let fit = self.fit(known)?;
        self.uncertainty = Some(Uncertainty {
            axes: divided(&fit.axes, known.matrix, dim)?,
            vectors: fit.axes,
            variances: fit.variances,
        });
        divided(&fit.posterior, known.matrix, dim)
    }

    /// Posterior standard deviations of the last [`estimates`](Self::estimates) after a linear map
    /// of rows, for every coordinate, treating the learned prior as fixed. `None` before there are
    /// any estimates.
    ///
    /// # Errors
    /// Errors of the map.
    pub(super) fn standard_deviations(
        &self,
        map: impl FnOnce(Vec<f64>) -> Result<Vec<f64>>,
    ) -> Result<Option<Vec<f64>>> {
        let Some(Uncertainty {
            axes, variances, ..
        }) = &self.uncertainty
        else {
            return Ok(None);
        };
        let axes = map(axes.clone())?;
        let dim = axes.len().isqrt();
        let mut out = vec![0.0; variances.len()];
        for (row, v) in out.chunks_exact_mut(dim).zip(variances.chunks_exact(dim)) {
            for (axis, v) in axes.chunks_exact(dim).zip(v) {
                row.iter_mut()
                    .zip(axis)
                    .for_each(|(sd, a)| *sd += v * a * a);
            }
            row.iter_mut().for_each(|sd| *sd = sd.sqrt());
        }
        Ok(Some(out))
    }

    /// The posterior means and variances of items that have only biases, treating the learned prior
    /// as fixed.
    ///
    /// # Errors
    /// As [`estimates`](Self::estimates).
    pub(super) fn of_biases(&mut self, known: &Known<'_>) -> Result<Vec<(f64, f64)>> {
        let fit = self.fit(known)?;
        Ok(fit.posterior.into_iter().zip(fit.variances).collect())
    }

    fn fit(&mut self, known: &Known<'_>) -> Result<Fit> {
        let dim = self.sums.len() / known.weights.len();
        let problem = Problem {
            sums: &self.sums,
            noise: self.precision.recip(),
            weights: known.weights,
            sampling: known.sampling,
            matrix: known.matrix,
            regressors: known.regressors(),
            dim,
        };
        let n_steps = if self.is_quick {
            N_QUICK_STEPS
        } else {
            N_STEPS
        };
        let mut prior = problem.most_likely(known, self.prior.take())?;
        let mut fit = problem.fit(&prior)?;
        for _ in 0..n_steps {
            prior = problem.maximised(&prior, &fit);
            fit = problem.fit(&prior)?;
        }
        self.prior = Some(prior);
        Ok(fit)
    }
}

/// The sums of all items in one model.
struct Problem<'a> {
    sums: &'a [f64],
    /// Variance of the noise.
    noise: f64,
    weights: &'a [f64],
    /// `t_i`, or empty.
    sampling: &'a [f64],
    /// `C`.
    matrix: &'a [f64],
    regressors: Vec<f64>,
    dim: usize,
}

/// Result of a fit with one prior.
struct Fit {
    /// `u_i`, rows of length `dim`.
    posterior: Vec<f64>,
    /// Axes of `M`, one a row.
    axes: Vec<f64>,
    /// Variances of the items' own parts along the axes.
    variances: Vec<f64>,
    /// Mean over items of the second moments of the own part, row-major.
    second_moments: Vec<f64>,
    /// For each public column: `sum_k beta_kj^2 / D_k`, and the effective number of these that the
    /// sums determine.
    columns: Vec<(f64, f64)>,
}

/// Eigenvectors of a prior covariance, and the items' sums in that basis.
struct Axes {
    /// One per row.
    vectors: Vec<f64>,
    /// Prior variance along each of them.
    variances: Vec<f64>,
    /// The items' sums in the basis of the eigenvectors, rows of length `dim`.
    along: Vec<f64>,
    /// The diagonal of `C` in this basis.
    shares: Vec<f64>,
}

impl Axes {
    fn sums(&self) -> AlongAxes<'_> {
        (&self.along, &self.shares)
    }
}

/// The items' sums along the axes, and the diagonal of `C` there.
type AlongAxes<'a> = (&'a [f64], &'a [f64]);

/// Regression of the sums on the regressors, separately along each axis.
struct Trend {
    /// `beta`, one row of length `dim` per regressor.
    beta: Vec<f64>,
    /// See [`Fit`].
    columns: Vec<(f64, f64)>,
}

impl Problem<'_> {
    /// The most likely initial prior: either one with the same spread in all directions, compared
    /// without public columns, or that of the previous round. The latter alone would not suffice:
    /// sums that showed nothing leave a spread near 0, from which EM hardly moves.
    fn most_likely(&self, known: &Known<'_>, before: Option<Prior>) -> Result<Prior> {
        let (dim, c) = (self.dim, known.matrix);
        let squared: Vec<f64> = (0..dim * dim)
            .map(|at| dot(&c[at / dim * dim..][..dim], &c[at % dim * dim..][..dim]))
            .collect();
        let trend_alone = Known {
            columns: &[],
            ..*known
        };
        let of_trend = Problem {
            regressors: trend_alone.regressors(),
            ..*self
        };
        // the axes are those of `C^2` for every spread
        let axes = self.axes(&squared)?;
        let scales: Vec<f64> = spreads(known.unit).collect();
        let scaled = parallel::map(scales.len(), |at| {
            let scale = scales[at];
            let variances: Vec<f64> = axes.variances.iter().map(|v| v * scale).collect();
            let trend = of_trend.trend(axes.sums(), &variances, &[])?;
            let value = of_trend.log_likelihood(axes.sums(), &variances, &trend);
            Ok((value, scale))
        });
        let scale = largest(scaled.into_iter().collect::<Result<Vec<_>>>()?)?;
        let isotropic = Prior {
            spread: squared.iter().map(|c| c * scale).collect(),
            columns: vec![COLUMN.0; known.n_columns()],
        };
        let Some(before) = before else {
            return Ok(isotropic);
        };
        let starts = [isotropic, before].into_iter().map(|prior| {
            let axes = self.axes(&prior.spread)?;
            let trend = self.trend(axes.sums(), &axes.variances, &prior.columns)?;
            let value = self.log_likelihood(axes.sums(), &axes.variances, &trend);
            Ok((value, prior))
        });
        largest(starts.collect::<Result<Vec<_>>>()?)
    }

    fn axes(&self, spread: &[f64]) -> Result<Axes> {
        let dim = self.dim;
        let eigen = symmetric_eigen(spread, dim)?;
        let largest = eigen.values.last().copied().unwrap_or_default();
        let least = (LEAST_VARIANCE * largest).max(1e-100);
        let transposed: Vec<f64> = (0..dim * dim)
            .map(|at| eigen.vectors[at % dim * dim + at / dim])
            .collect();
        Ok(Axes {
            along: rows_times(self.sums, &transposed, dim),
            variances: eigen.values.iter().map(|v| v.max(least)).collect(),
            shares: shares(&eigen.vectors, self.matrix, dim),
            vectors: eigen.vectors,
        })
    }

    /// The items in parts of fixed size, so that sums over parts have the same bits on any number of threads.
    fn of_parts<'s, R: Send>(
        &'s self,
        (along, shares): AlongAxes<'s>,
        of: impl Fn(Items<'s>) -> R + Sync,
    ) -> Vec<R> {
        let n = self.weights.len();
        let p = self.regressors.len() / n;
        parallel::map(n.div_ceil(PART), |part| {
            let (first, last) = (part * PART, n.min((part + 1) * PART));
            of(Items {
                along: &along[first * self.dim..last * self.dim],
                weights: &self.weights[first..last],
                sampling: self.sampling.get(first..last).unwrap_or_default(),
                shares,
                regressors: &self.regressors[first * p..last * p],
                noise: self.noise,
                dim: self.dim,
            })
        })
    }

    /// The regression, given the prior variances of the items' own parts and the relative prior variances of the public columns.
    fn trend(&self, along: AlongAxes<'_>, variances: &[f64], columns: &[f64]) -> Result<Trend> {
        let dim = self.dim;
        let p = self.regressors.len() / self.weights.len();
        let parts: Vec<Vec<f64>> = self.of_parts(along, |items| {
            with_vector_instructions(NormalEquations { items, variances })
        });
        let sums = sum_of(parts.iter().map(Vec::as_slice));
        let (rhs, gram) = sums.split_at(p * dim);
        let mut trend = Trend {
            beta: vec![0.0; p * dim],
            columns: vec![(0.0, 0.0); columns.len()],
        };
        for (k, &variance) in variances.iter().enumerate() {
            let mut g = vec![0.0; p * p];
            let pairs = (0..p).flat_map(|a| (0..=a).map(move |b| (a, b)));
            for ((a, b), entry) in pairs.zip(gram.chunks_exact(dim)) {
                g[a * p + b] = entry[k];
                g[b * p + a] = entry[k];
            }
            for a in 0..p {
                g[a * (p + 1)] *= 1.0 + TIE;
                g[a * (p + 1)] += f64::MIN_POSITIVE;
            }
            for (j, gamma) in columns.iter().enumerate() {
                g[(TREND + j) * (p + 1)] += (gamma * variance).recip();
            }
            let mut beta: Vec<f64> = rhs.iter().skip(k).step_by(dim).copied().collect();
            cholesky_in_place(&mut g, p)?;
            cholesky_solve_in_place(&g, p, &mut beta)?;
            for (j, gamma) in columns.iter().enumerate() {
                let mut unit = vec![0.0; p];
                unit[TREND + j] = 1.0;
                cholesky_solve_in_place(&g, p, &mut unit)?;
                trend.columns[j].0 += beta[TREND + j].powi(2) / variance;
                trend.columns[j].1 += 1.0 - unit[TREND + j] / (gamma * variance);
            }
            for (to, b) in trend.beta.iter_mut().skip(k).step_by(dim).zip(beta) {
                *to = b;
            }
        }
        Ok(trend)
    }

    /// Twice the log-likelihood of the sums, up to a constant.
    fn log_likelihood(&self, along: AlongAxes<'_>, variances: &[f64], trend: &Trend) -> f64 {
        let of = |items: Items<'_>| items.log_likelihood(variances, &trend.beta);
        self.of_parts(along, of).iter().sum()
    }

    /// The posterior under `prior`.
    fn fit(&self, prior: &Prior) -> Result<Fit> {
        let (dim, n) = (self.dim, self.weights.len());
        let axes = self.axes(&prior.spread)?;
        let trend = self.trend(axes.sums(), &axes.variances, &prior.columns)?;
        let parts = self.of_parts(axes.sums(), |items| {
            with_vector_instructions(Posterior {
                items,
                prior_variances: &axes.variances,
                beta: &trend.beta,
            })
        });
        // in the basis of the eigenvectors of M, then transformed back
        let moments = sum_of(parts.iter().map(|of| &of.moments[..]));
        let moments: Vec<f64> = moments.iter().map(|m| m / n as f64).collect();
        let turned = rows_times(&moments, &axes.vectors, dim);
        let mut second_moments = vec![0.0; dim * dim];
        for (axis, row) in axes.vectors.chunks_exact(dim).zip(turned.chunks_exact(dim)) {
            for (to, x) in second_moments.chunks_exact_mut(dim).zip(axis) {
                to.iter_mut().zip(row).for_each(|(m, y)| *m += x * y);
            }
        }
        let means: Vec<f64> = parts.iter().flat_map(|of| &of.means).copied().collect();
        Ok(Fit {
            posterior: rows_times(&means, &axes.vectors, dim),
            variances: parts.into_iter().flat_map(|of| of.variances).collect(),
            axes: axes.vectors,
            second_moments,
            columns: trend.columns,
        })
    }

    fn maximised(&self, prior: &Prior, fit: &Fit) -> Prior {
        let (_, least, most) = COLUMN;
        let columns = fit.columns.iter().zip(&prior.columns);
        let columns = columns.map(|((squares, n), gamma)| match squares / n {
            next if next.is_finite() => next.clamp(least, most),
            _ => *gamma,
        });
        Prior {
            spread: fit.second_moments.clone(),
            columns: columns.collect(),
        }
    }
}

/// The diagonal of `matrix` in the basis of `vectors`, one a row.
fn shares(vectors: &[f64], matrix: &[f64], dim: usize) -> Vec<f64> {
    let rows = vectors.chunks_exact(dim);
    rows.map(|axis| dot(axis, &rows_times(axis, matrix, dim)).max(0.0))
        .collect()
}

/// A part of the items: sums along the axes, weights and regressors.
struct Items<'a> {
    along: &'a [f64],
    weights: &'a [f64],
    sampling: &'a [f64],
    shares: &'a [f64],
    regressors: &'a [f64],
    noise: f64,
    dim: usize,
}

impl<'a> Items<'a> {
    /// For each item its sums, weight, sampling variance and regressors.
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = (&'a [f64], f64, f64, &'a [f64])> + use<'a> {
        let p = self.regressors.len() / self.weights.len();
        let none = std::iter::repeat(0.0);
        let weights = self.weights.iter().copied();
        let weights = weights.zip(self.sampling.iter().copied().chain(none));
        (self.along.chunks_exact(self.dim).zip(weights))
            .zip(self.regressors.chunks_exact(p))
            .map(|((y, (w, t)), z)| (y, w, t, z))
    }

    fn log_likelihood(&self, variances: &[f64], beta: &[f64]) -> f64 {
        let mut mean = vec![0.0; self.dim];
        let mut total = 0.0;
        for (y, w, t, z) in self.iter() {
            write_combination(z, beta, &mut mean);
            let axes = variances.iter().zip(self.shares);
            for ((y, mean), (v, c)) in y.iter().zip(&mean).zip(axes) {
                let (spread, rest) = (w * w * v + self.noise + t * c, y - w * mean);
                total -= spread.ln() + rest * rest / spread;
            }
        }
        total
    }
}

/// Right-hand sides and Gram matrices of the regressions along all axes: `p` rows of length `dim`, then `p (p + 1) / 2` rows for the lower triangle.
struct NormalEquations<'a> {
    items: Items<'a>,
    variances: &'a [f64],
}

impl PlainLoops for NormalEquations<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn run(self) -> Vec<f64> {
        let (dim, noise) = (self.items.dim, self.items.noise);
        let p = self.items.regressors.len() / self.items.weights.len();
        let mut sums = vec![0.0; (p + p * (p + 1) / 2) * dim];
        let (rhs, gram) = sums.split_at_mut(p * dim);
        let (variances, shares) = (&self.variances[..dim], &self.items.shares[..dim]);
        let (mut weight, mut scaled) = (vec![0.0; dim], vec![0.0; dim]);
        let (weight, scaled) = (&mut weight[..dim], &mut scaled[..dim]);
        for (y, w, t, z) in self.items.iter() {
            for k in 0..dim {
                let share = w / (w * w * variances[k] + noise + t * shares[k]);
                (scaled[k], weight[k]) = (share * y[k], share * w);
            }
            let mut row = 0;
            for (a, za) in z.iter().enumerate() {
                add_scaled(*za, scaled, &mut rhs[a * dim..][..dim]);
                for zb in &z[..=a] {
                    add_scaled(za * zb, weight, &mut gram[row * dim..][..dim]);
                    row += 1;
                }
            }
        }
        sums
    }
}

/// Posterior of the items in the basis of the prior's eigenvectors.
struct Posterior<'a> {
    items: Items<'a>,
    prior_variances: &'a [f64],
    beta: &'a [f64],
}

struct PosteriorPart {
    /// Rows of length `dim`, as the next.
    means: Vec<f64>,
    variances: Vec<f64>,
    /// Sum of the second moments of the items' own parts.
    moments: Vec<f64>,
}

impl PlainLoops for Posterior<'_> {
    type Output = PosteriorPart;

    #[inline(always)]
    fn run(self) -> PosteriorPart {
        let (dim, noise) = (self.items.dim, self.items.noise);
        let n = self.items.along.len();
        let mut part = PosteriorPart {
            means: vec![0.0; n],
            variances: vec![0.0; n],
            moments: vec![0.0; dim * dim],
        };
        let (prior, shares) = (&self.prior_variances[..dim], &self.items.shares[..dim]);
        let (mut own, mut uncertain) = (vec![0.0; dim], vec![0.0; dim]);
        let own = &mut own[..dim];
        let out = (part.means.chunks_exact_mut(dim)).zip(part.variances.chunks_exact_mut(dim));
        for ((means, variances), (y, w, t, z)) in out.zip(self.items.iter()) {
            write_combination(z, self.beta, means);
            for k in 0..dim {
                let v = prior[k];
                let noise = noise + t * shares[k];
                let spread = w * w * v + noise;
                own[k] = w * v * (y[k] - w * means[k]) / spread;
                means[k] += own[k];
                variances[k] = v * noise / spread;
            }
            for (k, x) in own.iter().enumerate() {
                add_scaled(*x, own, &mut part.moments[k * dim..][..dim]);
            }
        }
        for of in part.variances.chunks_exact(dim) {
            uncertain.iter_mut().zip(of).for_each(|(sum, v)| *sum += v);
        }
        for (k, sum) in uncertain.iter().enumerate() {
            part.moments[k * (dim + 1)] += sum;
        }
        part
    }
}

/// Adds `scale` times `row` to `out`. An indexed loop, because the compiler does not always inline chains of iterators here.
#[inline(always)]
pub(super) fn add_scaled(scale: f64, row: &[f64], out: &mut [f64]) {
    let row = &row[..out.len()];
    for k in 0..out.len() {
        out[k] += scale * row[k];
    }
}

/// Writes `sum_a z_a row_a`.
#[inline(always)]
fn write_combination(z: &[f64], rows: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    let dim = out.len();
    for (a, z) in z.iter().enumerate() {
        add_scaled(*z, &rows[a * dim..], out);
    }
}

/// Multiplies every row by a square matrix.
fn rows_times(rows: &[f64], matrix: &[f64], dim: usize) -> Vec<f64> {
    let mut out = vec![0.0; rows.len()];
    let parts = out.chunks_mut(PART * dim).zip(rows.chunks(PART * dim));
    parallel::for_each(parts, |(out, rows)| {
        with_vector_instructions(RowsTimes {
            rows,
            matrix,
            dim,
            out,
        });
    });
    out
}

struct RowsTimes<'a> {
    rows: &'a [f64],
    matrix: &'a [f64],
    dim: usize,
    out: &'a mut [f64],
}

impl PlainLoops for RowsTimes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.rows.chunks_exact(self.dim);
        for (row, out) in rows.zip(self.out.chunks_exact_mut(self.dim)) {
            write_combination(row, self.matrix, out);
        }
    }
}

/// The sum of vectors of one length, in their order.
fn sum_of<'a>(mut parts: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
    let mut sum = parts.next().map_or_else(Vec::new, <[f64]>::to_vec);
    for part in parts {
        add_scaled(1.0, part, &mut sum);
    }
    sum
}

/// The one of the largest value, of numbers that are finite.
fn largest<T>(all: Vec<(f64, T)>) -> Result<T> {
    let finite = all.into_iter().filter(|(value, _)| !value.is_nan());
    let best = finite.reduce(|best, next| if next.0 > best.0 { next } else { best });
    let (_, one) = best.ok_or(crate::Error::Unsupported {
        what: "sums that are not finite",
    })?;
    Ok(one)
}

/// `C^-1 u_i` of all rows, with eigenvalues bounded below relative to their mean.
fn divided(rows: &[f64], matrix: &[f64], dim: usize) -> Result<Vec<f64>> {
    let eigen = symmetric_eigen(matrix, dim)?;
    let least = LEAST_EIGENVALUE * eigen.values.iter().sum::<f64>() / dim as f64;
    let mut out = vec![0.0; rows.len()];
    for (x, u) in out.chunks_exact_mut(dim).zip(rows.chunks_exact(dim)) {
        for (axis, value) in eigen.vectors.chunks_exact(dim).zip(&eigen.values) {
            let along = dot(axis, u) / value.max(least);
            x.iter_mut().zip(axis).for_each(|(x, a)| *x += along * a);
        }
    }
    Ok(out)
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use rand::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    const N_ITEMS: usize = 4000;
    const ALONE: [f64; 1] = [1.0];
    /// Trace 1, eigenvalues .7 and .3.
    const MATRIX: [f64; 4] = [0.5, 0.2, 0.2, 0.5];

    /// Weights from 2 to 200.
    fn weights() -> Vec<f64> {
        (0..N_ITEMS)
            .map(|i| 2.0 * 100.0_f64.powf(i as f64 / N_ITEMS as f64))
            .collect()
    }

    fn normals(seed: u64, n: usize) -> Vec<f64> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        (0..n).map(|_| StandardNormal.sample(&mut rng)).collect()
    }

    fn rms(a: &[f64], b: &[f64]) -> f64 {
        let squares: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
        (squares / a.len() as f64).sqrt()
    }

    /// The derivative of an estimate, with the prior fixed, from a second fit with other sums.
    #[test]
    fn the_response_is_what_sums_change_in_estimates() {
        let (weights, truth) = (weights(), normals(50, 2 * N_ITEMS));
        let sampling = vec![0.2; N_ITEMS];
        let known = Known {
            weights: &weights,
            matrix: &MATRIX,
            sampling: &sampling,
            columns: &[],
            unit: 1.0,
        };
        let (x, evidence) = learnt_from(&truth, &known, 1.0, 3.0);
        let response = evidence.response(&known).unwrap();
        let (prior, part) = (evidence.prior.clone().unwrap(), [3.0, -1.0]);
        for item in [10, 2000, 3990] {
            let mut sums = evidence.sums.clone();
            sums[2 * item] += 0.5 * part[0];
            sums[2 * item + 1] += 0.5 * part[1];
            let problem = Problem {
                sums: &sums,
                noise: evidence.precision.recip(),
                weights: &weights,
                sampling: &sampling,
                matrix: &MATRIX,
                regressors: known.regressors(),
                dim: 2,
            };
            let fit = problem.fit(&prior).unwrap();
            let with_part = divided(&fit.posterior, &MATRIX, 2).unwrap();
            let mut without = with_part[2 * item..][..2].to_vec();
            let changed = rms(&without, &x[2 * item..][..2]);
            response.subtract(item, (0.5, &part), &mut without);
            // the trend has moved by about one in 4,000
            let left = rms(&without, &x[2 * item..][..2]);
            assert!(left < 0.01 * changed, "item {item}: {left} {changed}");
        }
    }

    /// Estimates after five rounds in which the share `passing` of the residuals is not clipped,
    /// with noise of standard deviation `noise`.
    fn learnt(truth: &[f64], known: &Known<'_>, passing: f64, noise: f64) -> Vec<f64> {
        learnt_from(truth, known, passing, noise).0
    }

    /// The same with all evidence.
    fn learnt_from(
        truth: &[f64],
        known: &Known<'_>,
        passing: f64,
        noise: f64,
    ) -> (Vec<f64>, ItemEvidence) {
        let dim = truth.len() / N_ITEMS;
        let mut evidence = ItemEvidence::default();
        let mut x = vec![0.0; truth.len()];
        for round in 0..5 {
            let noises = normals(round, truth.len());
            let sums: Vec<f64> = (0..truth.len())
                .map(|at| {
                    let (item, k) = (at / dim, at % dim);
                    let left = (0..dim).map(|l| {
                        known.matrix[k * dim + l] * (truth[item * dim + l] - x[item * dim + l])
                    });
                    passing * known.weights[item] * left.sum::<f64>() + noise * noises[at]
                })
                .collect();
            let of = RoundSums {
                sums: &sums,
                around: &x,
                noise_stddev: noise,
                passes: 0.5,
            };
            evidence.observe(&of, known);
            x = evidence.estimates(known).unwrap();
        }
        (x, evidence)
    }

    /// Biases around a trend in the logarithm of the weights.
    fn biases([a, b]: [f64; 2], tau: f64) -> Vec<f64> {
        let own = normals(77, N_ITEMS);
        (weights().iter().zip(own))
            .map(|(w, z)| a + b * w.ln() + tau * z)
            .collect()
    }

    fn known<'a>(weights: &'a [f64], matrix: &'a [f64], columns: &'a [f64]) -> Known<'a> {
        Known {
            weights,
            matrix,
            sampling: &[],
            columns,
            unit: 1.0,
        }
    }

    #[test]
    fn errors_are_those_of_the_posterior() {
        // half of each residual is not clipped, as assumed; the noise of five rounds together is
        // that of one of 2 sqrt(1/5) times 3
        let (tau, noise, weights) = (0.3_f64, 3.0, weights());
        let spread = |w: &f64| ((tau * tau).recip() + w * w / (0.8 * noise * noise)).recip();
        let expected = (weights.iter().map(spread).sum::<f64>() / N_ITEMS as f64).sqrt();
        let truth = biases([0.2, 0.1], tau);
        let found = rms(
            &learnt(&truth, &known(&weights, &ALONE, &[]), 0.5, noise),
            &truth,
        );
        // the root mean square of 4,000 numbers has a relative standard error of .011; five of them
        assert!((found / expected - 1.0).abs() < 0.056, "{found} {expected}");
    }

    #[test]
    fn sampling_counts_as_noise_that_more_rounds_do_not_reduce() {
        let (weights, truth) = (weights(), biases([0.2, 0.1], 0.3));
        let sums: Vec<f64> = (truth.iter().zip(&weights).zip(normals(79, N_ITEMS)))
            .map(|((x, w), z)| w * x + 2.0 * z)
            .collect();
        let sampling = vec![3.0; N_ITEMS];
        let of = |precision: f64, sampling: &[f64]| {
            let known = Known {
                sampling,
                ..known(&weights, &ALONE, &[])
            };
            ItemEvidence::of(sums.clone(), precision)
                .of_biases(&known)
                .unwrap()
        };
        // noise of variance 1 with sampling of 3 is noise of variance 4, and not less
        let (found, expected) = (of(1.0, &sampling), of(0.25, &[]));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found.0 - expected.0).abs() < 1e-9 && (found.1 - expected.1).abs() < 1e-9);
        }
        let whole = |of: &[(f64, f64)]| of.iter().map(|(_, variance)| variance).sum::<f64>();
        assert!(whole(&found) > 1.1 * whole(&of(1.0, &[])));
        // along an axis it is that part of C: 2 of 3 along the first
        let (matrix, turned) = ([2.0 / 3.0, 0.0, 0.0, 1.0 / 3.0], normals(80, 2 * N_ITEMS));
        let both: Vec<f64> = (turned.chunks_exact(2).zip(&weights))
            .flat_map(|(z, w)| [w * 0.4 * z[0], w * 0.1 * z[1]])
            .collect();
        let variances = |sampling: &[f64]| {
            let known = Known {
                sampling,
                ..known(&weights, &matrix, &[])
            };
            let mut evidence = ItemEvidence::of(both.clone(), 1e6);
            evidence.estimates(&known).unwrap();
            evidence.standard_deviations(Ok).unwrap().unwrap()
        };
        let found = variances(&sampling);
        // with next to no noise and a wide prior, x_k = y_k / (w c_k) has the variance t c_k / (w c_k)^2
        let most = (0..N_ITEMS)
            .max_by(|a, b| weights[*a].total_cmp(&weights[*b]))
            .unwrap();
        let ratio = (found[2 * most + 1] / found[2 * most]).powi(2);
        assert!((1.2..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn tastes_that_vary_together_are_estimated_together() {
        // x_1 = 2 x_0 + a small term, and noise that leaves little of x_1 by itself: errors are
        // those of the posterior under the true covariance
        let weights = weights();
        let (noise, z) = (2.0, normals(78, 2 * N_ITEMS));
        let truth: Vec<f64> = (z.chunks_exact(2))
            .flat_map(|z| [0.4 * z[0], 0.8 * z[0] + 0.1 * z[1]])
            .collect();
        let found = rms(
            &learnt(&truth, &known(&weights, &MATRIX, &[]), 0.5, noise),
            &truth,
        );
        let variance = 0.8 * noise * noise;
        let prior = [0.16, 0.32, 0.32, 0.65];
        let determinant = prior[0] * prior[3] - prior[1] * prior[2];
        // C C
        let squared = [0.29, 0.2, 0.2, 0.29];
        let trace_of_posterior = |w: &f64| {
            let scale = w * w / variance;
            let p = [
                prior[3] / determinant + scale * squared[0],
                -prior[1] / determinant + scale * squared[1],
                prior[0] / determinant + scale * squared[3],
            ];
            (p[0] + p[2]) / (p[0] * p[2] - p[1] * p[1])
        };
        let expected = weights.iter().map(trace_of_posterior).sum::<f64>();
        let expected = (expected / (2 * N_ITEMS) as f64).sqrt();
        // five standard errors, doubled for two numbers per item that are strongly correlated; a
        // covariance that is a multiple of the identity has .25 more
        assert!((found / expected - 1.0).abs() < 0.08, "{found} {expected}");
    }

    #[test]
    fn standard_deviations_are_those_of_the_errors_in_every_coordinate_of_a_map() {
        let weights = weights();
        let known = known(&weights, &MATRIX, &[]);
        let z = normals(80, 2 * N_ITEMS);
        let truth: Vec<f64> = (z.chunks_exact(2))
            .flat_map(|z| [0.4 * z[0], 0.3 * z[0] + 0.2 * z[1]])
            .collect();
        let (found, evidence) = learnt_from(&truth, &known, 0.5, 2.0);
        // rows [x_0, x_1] become [x_0 + x_1, 3 x_1]
        let map = |rows: Vec<f64>| {
            let mapped = rows.chunks_exact(2).flat_map(|x| [x[0] + x[1], 3.0 * x[1]]);
            Ok(mapped.collect::<Vec<_>>())
        };
        let deviations = evidence.standard_deviations(map).unwrap().unwrap();
        let (found, truth) = (map(found).unwrap(), map(truth).unwrap());
        for k in 0..2 {
            let of = |rows: &[f64]| rows.iter().skip(k).step_by(2).copied().collect::<Vec<_>>();
            let errors = rms(&of(&found), &of(&truth));
            let expected = rms(&of(&deviations), &[0.0; N_ITEMS]);
            // seven relative standard errors of a root mean square of 4,000 numbers
            assert!(
                (errors / expected - 1.0).abs() < 0.08,
                "{errors} {expected}"
            );
        }
    }

    #[test]
    fn sums_of_noise_alone_leave_no_differences() {
        let weights = weights();
        let truth = vec![0.0; N_ITEMS];
        let found = rms(
            &learnt(&truth, &known(&weights, &ALONE, &[]), 0.5, 30.0),
            &truth,
        );
        // the remaining error is that of the trend: its slope has a standard error of .013, and the
        // root mean square over these weights one of .029; sums over weights have 4
        assert!(found < 0.1, "{found}");
    }

    #[test]
    fn residuals_of_which_less_passes_are_followed_all_the_same() {
        let (weights, truth) = (weights(), biases([0.0, 0.3], 0.3)); // a root mean square of 1.3
        for passing in [0.3, 0.7, 1.0] {
            let found = learnt(&truth, &known(&weights, &ALONE, &[]), passing, 1.0);
            let found = rms(&found, &truth);
            assert!(found < 0.25, "{passing}: {found}");
        }
    }

    #[test]
    fn public_columns_count_by_what_they_say() {
        let (weights, noise) = (weights(), 20.0);
        let truth = biases([0.0, 0.0], 0.5);
        let errors = |columns: &[f64]| {
            rms(
                &learnt(&truth, &known(&weights, &ALONE, columns), 0.5, noise),
                &truth,
            )
        };
        let without = errors(&[]);
        // the truth plus an equal amount of noise
        let public: Vec<f64> = (truth.iter().zip(normals(79, N_ITEMS)))
            .map(|(h, z)| 2.0 * h + z)
            .collect();
        let mut elsewhere = public.clone();
        elsewhere.rotate_left(N_ITEMS / 3);
        let (with, by_others) = (errors(&public), errors(&elsewhere));
        assert!(with < 0.8 * without, "{with} {without}");
        assert!(by_others < 1.005 * without, "{by_others} {without}");
    }

    #[test]
    fn a_first_round_that_shows_nothing_does_not_decide_the_spread_of_later_ones() {
        let (weights, truth) = (weights(), biases([0.0, 0.0], 0.5));
        let known = known(&weights, &ALONE, &[]);
        let mut evidence = ItemEvidence::default();
        let mut round = |sums: &[f64], noise_stddev: f64| {
            let of = RoundSums {
                sums,
                around: &[0.0; N_ITEMS],
                noise_stddev,
                passes: 1.0,
            };
            evidence.observe(&of, &known);
            rms(&evidence.estimates(&known).unwrap(), &truth)
        };
        // less than noise alone would have: the most likely spread is 0
        let nothing = round(&[0.0; N_ITEMS], 300.0);
        assert!((nothing / 0.5 - 1.0).abs() < 0.06, "{nothing}"); // the truth itself
        let noise = normals(81, N_ITEMS);
        let sums = (weights.iter().zip(&truth)).zip(noise);
        let sums: Vec<f64> = sums.map(|((w, h), z)| w * h + 30.0 * z).collect();
        let found = round(&sums, 30.0);
        let spread = |w: &f64| (4.0 + w * w / 900.0).recip();
        let expected = (weights.iter().map(spread).sum::<f64>() / N_ITEMS as f64).sqrt();
        // five relative standard errors of a root mean square of 4,000 numbers
        assert!((found / expected - 1.0).abs() < 0.056, "{found} {expected}");
    }

    #[test]
    fn estimates_have_the_same_bits_on_any_number_of_threads() {
        let weights = weights();
        let truth = normals(82, 2 * N_ITEMS);
        let columns = normals(83, N_ITEMS);
        let on = |n_threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
            let known = known(&weights, &MATRIX, &columns);
            let found = pool.build().unwrap();
            found.install(|| learnt(&truth, &known, 0.5, 2.0))
        };
        let alone = on(1);
        assert!(alone.len() > 4 * PART);
        for n_threads in [2, 8] {
            assert_eq!(on(n_threads), alone, "{n_threads} threads");
        }
    }

    #[test]
    fn one_weight_for_all_items_has_no_trend() {
        let weights = [5.0; 3];
        let known = known(&weights, &ALONE, &[]);
        let mut evidence = ItemEvidence::default();
        let of = RoundSums {
            sums: &[2.5, 2.5, 2.5],
            around: &[0.0; 3],
            noise_stddev: 0.1,
            passes: 0.5,
        };
        evidence.observe(&of, &known);
        for h in evidence.estimates(&known).unwrap() {
            assert!((h - 1.0).abs() < 1e-6, "{h}");
        }
    }
}
