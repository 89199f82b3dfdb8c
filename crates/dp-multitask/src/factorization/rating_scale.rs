//! The scale of ratings, learned within the budget: how far users' ratings are from their means,
//! and where the means are.

use dp_core::UserRow;
use dp_mechanism::{ReleasedVector, SparseBuffer, VectorContribution};

/// Buckets of distances: the first begins at `2^(FIRST_DISTANCE / 2)`, each is half an octave wide.
const FIRST_DISTANCE: i32 = -20;
const N_DISTANCES: usize = 55;
/// Buckets of means of one sign, from `2^(FIRST_MEAN / 2)` on; means closer to zero have a separate
/// bucket.
const FIRST_MEAN: i32 = -6;
const N_MEANS: usize = 41;
/// Number of positions within an octave, for means far from zero.
const N_PLACES: usize = 32;
/// A user's shares of distances are multiplied by this, as far as norm 1 permits.
const SHARES: f64 = 2.0;
/// Units that can be learned, in half octaves: from 1/256 to 1,024, for which default settings stay
/// in their ranges.
const UNITS: std::ops::RangeInclusive<i32> = -16..=20;
/// Keeps rounding from pushing a contribution over its bound, in which case the kernel would drop
/// it.
const INSIDE: f64 = 1.0 - 1e-12;
/// Number of standard deviations of noise above which a unit is accepted: among 37, a false one in
/// 1 % of the runs on uninformative ratings.
const LEAST_OF_UNIT: f64 = 3.5;
/// The same for a centre, which may be anywhere, if the unit does not change: among 81, a false one
/// in less than 1 of 10,000 runs.
const LEAST_OF_CENTER: f64 = 5.0;
/// The unit is raised until at most this share of ratings is far from their user's mean: most
/// distances may be far smaller than the ones that matter.
const MOST_FAR: f64 = 0.025;
/// A unit is accepted if at least this share of the users has distances, so that a few users with
/// extreme ratings do not determine it.
const LEAST_USERS: f64 = 0.1;
/// One user's contribution to the sum from which the scale of ratings is learned.
///
/// ```text
/// d_i = |y_i - m| sqrt(n / (n - 1))            distance of rating i from the user's mean m of n ratings, where n > 1
/// h_b = share of the n ratings with 2^((b-20)/2) <= d_i < 2^((b-19)/2),     b = 0..54, the ends include everything beyond
/// u   = min(2, 1/||h||) h                      1 in the bucket of m, half an octave wide and signed,
///                                              and 1 in the 32nd of its octave that |m| is in, the same for all octaves
/// ```
///
/// # Privacy
/// `||u|| <= 1` and the mean adds two coordinates of 1, so that the norm is at most `sqrt(3)` whatever the ratings are: the L2
/// sensitivity under add/remove of one user. The kernel checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaleContribution;

impl ScaleContribution {
    /// Length of the sum.
    pub const LEN: usize = N_DISTANCES + 2 * N_MEANS + 1 + N_PLACES;

    /// The bound on a user's norm.
    pub const CLIP_NORM: f64 = 1.732_050_807_568_877_2;
}

/// The bucket of a positive number among `n`.
#[allow(
    clippy::cast_possible_truncation,
    reason = "floats saturate, and the ends take what lies beyond"
)]
fn bucket(x: f64, first: i32, n: usize) -> usize {
    let at = ((2.0 * x.log2()).floor() as i32).saturating_sub(first);
    usize::try_from(at).unwrap_or(0).min(n - 1)
}

/// The position of a positive number in its octave.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at least 0 and below the number of places"
)]
fn place(x: f64) -> usize {
    let octaves = x.log2();
    ((octaves - octaves.floor()) * N_PLACES as f64) as usize % N_PLACES
}

/// Geometric centre of a bucket.
fn middle(at: usize, first: i32) -> f64 {
    2_f64.powf((f64::from(first) + at as f64 + 0.5) / 2.0)
}

impl VectorContribution for ScaleContribution {
    type Scratch = Vec<f64>;

    fn scratch(&self) -> Vec<f64> {
        vec![0.0; N_DISTANCES]
    }

    #[allow(clippy::cast_possible_truncation, reason = "170 coordinates")]
    fn contribute(&self, user: UserRow<'_>, shares: &mut Vec<f64>, out: &mut SparseBuffer) {
        let n = user.len() as f64;
        if n < 1.0 {
            return;
        }
        let mean = user.values().iter().copied().map(f64::from).sum::<f64>() / n;
        shares.fill(0.0);
        let apart = (n / (n - 1.0).max(1.0)).sqrt();
        for &y in user.values() {
            let distance = apart * (f64::from(y) - mean).abs();
            if distance > 0.0 {
                shares[bucket(distance, FIRST_DISTANCE, N_DISTANCES)] += 1.0 / n;
            }
        }
        let norm = shares.iter().map(|h| h * h).sum::<f64>().sqrt();
        let scale = INSIDE * SHARES.min(norm.recip());
        let all = (0_u32..).zip(shares.iter());
        out.extend(
            all.filter(|(_, h)| **h > 0.0)
                .map(|(at, h)| (at, scale * h)),
        );
        let side = match mean.abs() < middle(0, FIRST_MEAN) {
            true => 0,
            false if mean > 0.0 => 1 + bucket(mean, FIRST_MEAN, N_MEANS),
            false => 1 + N_MEANS + bucket(-mean, FIRST_MEAN, N_MEANS),
        };
        out.push((N_DISTANCES + side) as u32, INSIDE);
        if side > 0 {
            let place = place(mean.abs());
            out.push((N_DISTANCES + 2 * N_MEANS + 1 + place) as u32, INSIDE);
        }
    }
}

/// The location and scale of ratings, from a release. Public.
///
/// The unit is the standard deviation of the normal distribution whose distances fit the released
/// ones best, to half an octave, raised until one rating in forty is further than `sqrt(8)` units
/// from its user's mean. It is used if it fits clearly better than the unit of the settings,
/// differs from that by more than half an octave, and a tenth of the users have distances. The
/// centre is the mean of the users' means in the window of three units that is furthest above the
/// noise, known to 1 part in 45; the settings' centre is kept if that is within a unit of it and
/// the unit does not change, or if the window is not clearly above the noise.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatingScale {
    /// Centre of the ratings, in data units.
    pub center: f64,
    /// Whether the centre was learned instead of taken from the settings.
    pub center_is_learnt: bool,
    /// The unit of labels, in data units: corresponds to 1 for ratings from 1 to 5.
    pub unit: f64,
    /// Whether the unit was learned instead of taken from the settings.
    pub unit_is_learnt: bool,
    /// Whether the unit was learned and is at least twice the one that fits most ratings.
    pub has_long_tails: bool,
    /// Estimated share of ratings further than `sqrt(8)` units from their user's mean, and the
    /// standard deviation of its noise; users with few ratings have less weight. `None` if noise
    /// hides the number of users. Single ratings are clipped to three units.
    pub share_far: Option<[f64; 2]>,
    /// Whether most ratings are beyond what can be learned: further than 4,096 from their user's
    /// mean, or means beyond 131,072. The scale then says nothing of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_out_of_reach: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde requires")]
const fn is_false(x: &bool) -> bool {
    !*x
}

impl RatingScale {
    /// The scale of settings with this centre and this unit of labels.
    pub(super) const fn of_settings(center: f64, unit: f64) -> Self {
        Self {
            center,
            center_is_learnt: false,
            unit,
            unit_is_learnt: false,
            has_long_tails: false,
            share_far: None,
            is_out_of_reach: false,
        }
    }

    /// Whether anything was learned.
    #[must_use]
    pub const fn is_learnt(&self) -> bool {
        self.center_is_learnt || self.unit_is_learnt
    }

    /// The same, half an octave closer to `unit`, or `unit` itself if it is near.
    pub(super) fn nearer(self, unit: f64) -> Self {
        let half_octave = std::f64::consts::SQRT_2;
        Self {
            unit: if self.unit > unit {
                (self.unit / half_octave).max(unit)
            } else {
                (self.unit * half_octave).min(unit)
            },
            ..self
        }
    }

    /// The scale learned from a released sum. Post-processing.
    pub(super) fn learnt_from(&self, released: &ReleasedVector) -> Self {
        self.learnt_from_sums(&released.values(), released.noise_stddev())
    }

    fn learnt_from_sums(&self, sums: &[f64], noise: f64) -> Self {
        let (distances, rest) = sums.split_at(N_DISTANCES);
        let (means, places) = rest.split_at(2 * N_MEANS + 1);
        let distances = Distances::new(distances, noise);
        let found = distances.unit(self.unit, means.iter().sum());
        let (unit, has_long_tails) = found.unwrap_or((self.unit, false));
        // if ratings show another unit, a smaller signal suffices for the centre
        let least = if found.is_some() {
            LEAST_OF_UNIT
        } else {
            LEAST_OF_CENTER
        };
        let center = center_of(means, least * noise, (self.center, unit));
        let center = center.map(|x| refined(x, places, noise, unit));
        let center = center.filter(|x| found.is_some() || (x - self.center).abs() > unit);
        Self {
            center: center.unwrap_or(self.center),
            center_is_learnt: center.is_some(),
            unit,
            unit_is_learnt: found.is_some(),
            has_long_tails,
            share_far: distances.share_far(unit),
            is_out_of_reach: distances.are_beyond() || means_are_beyond(means, noise),
        }
    }
}

/// Released distances from users' means.
struct Distances<'a> {
    sums: &'a [f64],
    noise: f64,
    /// Distribution of distances of a normal distribution, from `FIRST_OF_SHAPE` on, and its norm.
    shape: Vec<f64>,
    norm: f64,
    /// The standard deviation with the best fit, in half octaves.
    best: i32,
}

impl<'a> Distances<'a> {
    fn new(sums: &'a [f64], noise: f64) -> Self {
        let shape = normal_distances();
        let norm = shape.iter().map(|p| p * p).sum::<f64>().sqrt();
        let mut distances = Self {
            sums,
            noise,
            shape,
            norm,
            best: *UNITS.start(),
        };
        let fits = UNITS.map(|at| (distances.fit(at), at));
        let best = fits.max_by(|a, b| a.0.total_cmp(&b.0));
        distances.best = best.map_or(distances.best, |(_, at)| at);
        distances
    }

    /// How well a standard deviation fits, in units in which the noise is that of one sum.
    fn fit(&self, half_octaves: i32) -> f64 {
        let products = (FIRST_DISTANCE..).zip(self.sums).map(|(at, sum)| {
            let place = usize::try_from(at - half_octaves - FIRST_OF_SHAPE);
            sum * place.ok().and_then(|at| self.shape.get(at)).unwrap_or(&0.0)
        });
        products.sum::<f64>() / self.norm
    }

    /// A unit other than that of the settings, and whether it is far above the one that fits most
    /// ratings. `n_users` is a noisy number of all users.
    fn unit(&self, own: f64, n_users: f64) -> Option<(f64, bool)> {
        #[allow(clippy::cast_possible_truncation, reason = "the logarithm of a number")]
        let own = (2.0 * own.log2()).round() as i32;
        let apart = self
            .shape
            .iter()
            .skip((self.best - own).unsigned_abs() as usize);
        let products = self.shape.iter().zip(apart).map(|(p, q)| p * q);
        let overlap = products.sum::<f64>() / (self.norm * self.norm);
        let (found, least) = (self.fit(self.best), LEAST_OF_UNIT * self.noise);
        let n_means = 2.0 * N_MEANS as f64 + 1.0;
        let n_users = n_users - 2.0 * self.noise * n_means.sqrt();
        let shows = found > least
            && found - self.fit(own) > least * (2.0 - 2.0 * overlap).sqrt()
            && found / self.norm > LEAST_USERS * SHARES * n_users;
        let unit = |half_octaves: i32| 2_f64.powf(f64::from(half_octaves) / 2.0);
        let is_far = |at: i32| {
            self.share_far(unit(at))
                .is_some_and(|[far, noise]| far - 2.0 * noise > MOST_FAR)
        };
        let raised = (self.best..*UNITS.end()).find(|at| !is_far(*at));
        let raised = raised.unwrap_or(*UNITS.end());
        (shows && (raised - own).abs() > 1).then(|| (unit(raised), raised - self.best > 1))
    }

    /// Whether most distances are too large for every unit.
    fn are_beyond(&self) -> bool {
        let first = (UNITS.end() + 4 - FIRST_DISTANCE).unsigned_abs() as usize;
        let beyond = self.sums.get(first..).unwrap_or_default();
        are_most(beyond, self.sums, self.noise)
    }

    /// The share of distances in the buckets from `sqrt(8) unit` on, with the standard deviation of
    /// its noise.
    fn share_far(&self, unit: f64) -> Option<[f64; 2]> {
        let [total, of_total] = [self.fit(self.best), self.noise].map(|x| x / self.norm);
        // the first bucket that contains no smaller distance
        let first = bucket(4.0 * unit * (1.0 - 1e-9), FIRST_DISTANCE, N_DISTANCES);
        let far = self.sums.get(first..)?;
        let share = (far.iter().sum::<f64>() / total).clamp(0.0, 1.0);
        let noise = self.noise * (far.len() as f64).sqrt();
        let noise = noise.hypot(share * of_total) / total;
        (total > 3.0 * of_total).then_some([share, noise])
    }
}

/// Whether most users' means are in the buckets of those that are too large to be known.
fn means_are_beyond(means: &[f64], noise: f64) -> bool {
    let beyond = [N_MEANS, 2 * N_MEANS].map(|at| means[at]);
    are_most(&beyond, means, noise)
}

/// Whether sums with this noise, a part of `all`, are clearly more than half of them.
fn are_most(part: &[f64], all: &[f64], noise: f64) -> bool {
    let sum = |sums: &[f64]| sums.iter().sum::<f64>();
    // the part minus all the others
    let ahead = 2.0 * sum(part) - sum(all);
    ahead > LEAST_OF_CENTER * noise * (all.len() as f64).sqrt()
}

/// The mean of users' means in the window of three units that is furthest above the noise; `None`
/// if none is above it, or not clearly more than the window of the settings: by `least` for one
/// sum.
fn center_of(means: &[f64], least: f64, (own, unit): (f64, f64)) -> Option<f64> {
    let value = |at: usize| match at {
        0 => Some(0.0),
        // values beyond all buckets are unknown
        at if at % N_MEANS == 0 => None,
        at if at < N_MEANS => Some(middle(at - 1, FIRST_MEAN)),
        at => Some(-middle(at - 1 - N_MEANS, FIRST_MEAN)),
    };
    let buckets = means.iter().enumerate();
    let buckets: Vec<_> = buckets
        .filter_map(|(at, n)| Some((value(at)?, *n)))
        .collect();
    let found = best_window(&buckets, unit)?;
    let at_own = Window::around(own, &buckets, unit);
    let is_near = (found.mean - own).abs() <= unit;
    let ahead = found.height() - at_own.height();
    let is_ahead = is_near || ahead > std::f64::consts::SQRT_2 * least;
    (found.height() > least && is_ahead).then_some(found.mean)
}

/// Refines a centre, known to half an octave from its bucket, to a 32nd of an octave, using the
/// positions in their octaves of the means near it.
fn refined(center: f64, places: &[f64], noise: f64, unit: f64) -> f64 {
    let octave = center.abs().log2().floor();
    let octaves = [octave - 1.0, octave, octave + 1.0].into_iter();
    let all = octaves.flat_map(|octave| {
        let value = move |at: usize| 2_f64.powf(octave + (at as f64 + 0.5) / N_PLACES as f64);
        places
            .iter()
            .enumerate()
            .map(move |(at, n)| (value(at), *n))
    });
    // each position once: where it is closest
    let root = std::f64::consts::SQRT_2;
    let near = all.filter(|(x, _)| (center.abs() / root..center.abs() * root).contains(x));
    let found = best_window(&near.collect::<Vec<_>>(), unit);
    let found = found.filter(|of| of.height() > LEAST_OF_UNIT * noise);
    found.map_or(center, |of| of.mean.copysign(center))
}

/// Users whose means are within one and a half units of a value.
struct Window {
    /// Their number with the noise of `k` sums.
    n: f64,
    k: f64,
    mean: f64,
}

impl Window {
    fn around(value: f64, values: &[(f64, f64)], unit: f64) -> Self {
        let near = |x: f64| (x - value).abs() <= 1.5 * unit;
        let near = values.iter().filter(|(x, _)| near(*x));
        let [k, n, sum] = near.fold([0.0; 3], |[k, n, sum], (x, own)| {
            [k + 1.0, n + own, own.mul_add(*x, sum)]
        });
        let mean = (sum / n).clamp(value - 1.5 * unit, value + 1.5 * unit);
        Self { n, k, mean }
    }

    /// The number of users, in units with the noise of one sum.
    fn height(&self) -> f64 {
        self.n / self.k.max(1.0).sqrt()
    }
}

/// The window that is furthest above the noise, around values with noisy numbers of users.
fn best_window(values: &[(f64, f64)], unit: f64) -> Option<Window> {
    let all = values.iter().map(|(x, _)| Window::around(*x, values, unit));
    all.max_by(|a, b| a.height().total_cmp(&b.height()))
}

/// The bucket with which [`normal_distances`] begins, for a standard deviation of 1.
const FIRST_OF_SHAPE: i32 = -12;

/// The probabilities that the absolute value of a standard normal variable is in the buckets from
/// `2^-6` to `2^2`.
fn normal_distances() -> Vec<f64> {
    const STEPS: i32 = 32;
    let density = |x: f64| (-0.5 * x * x).exp() * (2.0 / std::f64::consts::PI).sqrt();
    let probability = |at: i32| {
        let [low, high] = [at, at + 1].map(|at| 2_f64.powf(f64::from(at) / 2.0));
        let step = (high - low) / f64::from(STEPS);
        let middles = (0..STEPS).map(|k| low + (f64::from(k) + 0.5) * step);
        middles.map(|x| density(x) * step).sum()
    };
    (FIRST_OF_SHAPE..4).map(probability).collect()
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use dp_core::{Interactions, InteractionsBuilder};
    use dp_mechanism::{Grid, vector_contribution};
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Normal, StandardNormal};

    use super::*;

    /// Users with 2 to 40 ratings of standard deviation `spread` around means with the same
    /// standard deviation around `center`.
    #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
    fn ratings(n_users: u32, center: f64, spread: f64) -> Interactions {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut builder = InteractionsBuilder::new(40);
        for user in 0..n_users {
            let mean = spread.mul_add(rng.sample::<f64, _>(StandardNormal), center);
            for item in 0..rng.random_range(2..=40) {
                let y = spread.mul_add(rng.sample::<f64, _>(StandardNormal), mean);
                builder.push(user, item, y as f32).unwrap();
            }
        }
        builder.build().0
    }

    fn grid() -> Grid {
        Grid::new(3.0, ScaleContribution::CLIP_NORM).unwrap()
    }

    fn sums(data: &Interactions) -> Vec<f64> {
        let (grid, mut sums) = (grid(), vec![0.0; ScaleContribution::LEN]);
        for user in data.users() {
            for (at, z) in vector_contribution(&grid, sums.len(), &ScaleContribution, user) {
                sums[at] += z as f64 * grid.step();
            }
        }
        sums
    }

    const OWN: RatingScale = RatingScale::of_settings(3.0, 1.0);

    #[test]
    fn a_user_adds_at_most_the_bound_whatever_the_ratings_are() {
        let wild = [
            vec![3.0],
            vec![0.0, 0.0],
            vec![1.0, 2.0],
            vec![f32::MAX, -f32::MAX],
            vec![f32::MIN_POSITIVE, 0.0, 1e-30],
            (0..300).map(|k| (k as f32 - 150.0).powi(5)).collect(),
            vec![-1e9; 50],
        ];
        let mut most: f64 = 0.0;
        for values in wild {
            let mut builder = InteractionsBuilder::new(300);
            for (item, y) in (0..).zip(&values) {
                builder.push(0, item, *y).unwrap();
            }
            let (grid, table) = (grid(), builder.build().0);
            let own = vector_contribution(
                &grid,
                ScaleContribution::LEN,
                &ScaleContribution,
                table.user(0),
            );
            let norm = own
                .iter()
                .map(|(_, z)| (*z as f64).powi(2))
                .sum::<f64>()
                .sqrt();
            // the kernel drops a user above the bound
            assert!(norm > 0.0, "{values:?}");
            most = most.max(norm / grid.l2_bound() as f64);
        }
        assert!(most > 0.999 && most <= 1.0, "{most}"); // and the bound is attained
    }

    #[test]
    fn the_scale_is_found_to_half_an_octave_and_the_centre_to_one_unit() {
        for (center, spread) in [
            (70.0, 20.0),
            (-4.0, 0.1),
            (88.0, 3.0),
            (0.0, 5.0),
            (1500.0, 200.0),
            (5.5, 2.2),
        ] {
            let sums = sums(&ratings(2_000, center, spread));
            let found = OWN.learnt_from_sums(&sums, 20.0);
            assert!(found.unit_is_learnt);
            let ratio = (found.unit / spread).log2().abs();
            assert!(ratio < 0.5, "{spread}: {}", found.unit);
            assert!(
                (found.center - center).abs() < found.unit,
                "{center}: {}",
                found.center
            );
        }
    }

    #[test]
    fn ratings_beyond_every_scale_are_told() {
        let far = |center, spread| {
            let found = OWN.learnt_from_sums(&sums(&ratings(2_000, center, spread)), 20.0);
            found.is_out_of_reach
        };
        for (center, spread) in [(5.5e6, 2e6), (1_000_005.0, 2.0), (-4e5, 2.0), (0.0, 2e4)] {
            assert!(far(center, spread), "{center} {spread}");
        }
        for (center, spread) in [(70.0, 20.0), (1e5, 100.0), (0.0, 1000.0), (3.5, 1.0)] {
            assert!(!far(center, spread), "{center} {spread}");
        }
    }

    #[test]
    fn a_thousand_users_at_epsilon_1_show_a_scale_of_percent_and_where_it_is() {
        // sqrt(3) divided by a hundredth of mu^2 at (1, 1e-5)
        let found = OWN.learnt_from_sums(&sums(&ratings(900, 70.0, 20.0)), 64.6);
        assert!(found.unit_is_learnt && found.center_is_learnt, "{found:?}");
        assert!((found.center - 70.0).abs() < 20.0, "{found:?}");
    }

    #[test]
    fn ratings_on_the_scale_of_the_settings_leave_them_as_they_are() {
        for spread in [0.75, 1.0, 1.3] {
            let found = OWN.learnt_from_sums(&sums(&ratings(2_000, 3.5, spread)), 20.0);
            assert_eq!(
                (found.center, found.unit, found.is_learnt()),
                (3.0, 1.0, false)
            );
            let [far, noise] = found.share_far.unwrap();
            // 1 - erf(2 / spread), for users whose shares have equal weight except those with few
            // ratings
            assert!(
                (far - [0.0002, 0.005, 0.03][(spread > 0.9) as usize + (spread > 1.1) as usize])
                    .abs()
                    < 3.0 * noise,
                "{spread}: {far}"
            );
        }
    }

    /// 1,000 draws of noise alone: more than 40 changed units would indicate a bug. At most 9 are
    /// expected, so a false alarm has probability below 1e-12 (Poisson); and for the shares, at
    /// three deviations, at most 50.
    #[test]
    fn noise_alone_seldom_moves_the_scale() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let noise = Normal::new(0.0, 7.0).unwrap();
        let (mut n_moved, mut n_centers, mut n_shares, mut n_far) = (0, 0, 0, 0);
        for _ in 0..1_000 {
            let sums: Vec<f64> = noise
                .sample_iter(&mut rng)
                .take(ScaleContribution::LEN)
                .collect();
            let found = OWN.learnt_from_sums(&sums, 7.0);
            n_moved += usize::from(found.unit_is_learnt);
            n_centers += usize::from(found.center_is_learnt);
            n_shares += usize::from(found.share_far.is_some());
            n_far += usize::from(found.is_out_of_reach);
        }
        assert!(n_moved <= 40 && n_shares <= 120, "{n_moved} {n_shares}");
        // two sums at five deviations
        assert_eq!(n_far, 0);
        // the probability of one is below 1 in 10,000 draws
        assert!(n_centers <= 3, "{n_centers}");
    }
}
