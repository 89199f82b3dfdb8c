//! Prior of item vectors given public features.

use dp_accounting::CertificateBuilder;
use dp_core::params;

use crate::features::{below, in_public_range, to_unit_norm};
use crate::problem::Vectors;
use crate::{ItemFeatures, ProblemSetup, Result, SparseKernel, trainer};

const DEFAULTS: &str = "the rules behind the default settings come from MovieLens-1M";
const UNRATED: &str = "which items are said to be without ratings is public knowledge";

/// Prior variances of the parts whose sum is an item's vector, relative to each other. All are
/// public.
///
/// ```text
/// v_j = shared + sum_c (sum of the item's features in category c) + popularity + own_j
/// ```
///
/// An item's weights in a category are scaled to norm 1, so a category's part has its variance
/// however many features an item has there; an item without features in the category lacks the
/// part.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorVariances {
    /// Variance of the part that all items have in common.
    pub shared: f64,
    /// Variance of the part of each category of features.
    pub categories: Vec<f64>,
    /// Variance of the part of a popularity level, which is computed from *released* total weights;
    /// 0 for none. An item between two levels has shares `s` and `1 - s` of them, so
    /// `s^2 + (1 - s)^2` of this variance: half of it in the middle.
    pub popularity: f64,
    /// Variance of an item's own part.
    pub own: f64,
}

/// Categories with at least this many features are assumed to be lists of people.
const MANY: usize = 100;

impl PriorVariances {
    /// .15 for a category of fewer than 100 features (genres, decades), .1 for others (people); .1
    /// shared, .3 popularity, .3 own. As an item lies between two levels of popularity, its
    /// variance there is .15 to .3. Chosen on the validation part of MovieLens-1M.
    #[must_use]
    pub fn for_features(features: &ItemFeatures) -> Self {
        let variance = |c| {
            if features.category(c).len() < MANY {
                0.15
            } else {
                0.1
            }
        };
        Self {
            shared: 0.1,
            categories: (0..features.n_categories()).map(variance).collect(),
            popularity: 0.3,
            own: 0.3,
        }
    }

    /// The same for likes ([`AmImplicitSsp`](crate::AmImplicitSsp)), with .05 for an item's own
    /// part. Chosen on validation users of MovieLens-1M.
    #[must_use]
    pub fn for_likes(features: &ItemFeatures) -> Self {
        Self {
            own: 0.05,
            ..Self::for_features(features)
        }
    }

    fn check(&self, features: &ItemFeatures) -> Result<()> {
        params::same_size(
            "prior variances of categories",
            self.categories.len(),
            features.n_categories(),
        )?;
        let each = [self.shared, self.popularity, self.own];
        for variance in self.categories.iter().copied().chain(each) {
            params::finite_non_negative("prior variance", variance)?;
            in_public_range("prior variance", variance.max(1e-6))?;
        }
        Ok(())
    }
}

/// Public information about the items for the rounds: features, their prior variances, and which
/// items are known to have no ratings yet.
///
/// # Examples
/// ```
/// use dp_pubfeat::{FeaturePrior, ItemFeaturesBuilder, PriorVariances};
/// let mut builder = ItemFeaturesBuilder::new(3, &[2])?; // two genres; item 2 has none
/// builder.push(0, 0, 1.0)?;
/// builder.push(1, 1, 1.0)?;
/// let features = builder.build();
/// let prior = FeaturePrior::new(&features, PriorVariances::for_features(&features))?;
/// assert_eq!(prior.n_items(), 3);
/// assert!(prior.with_unrated([3]).is_err());
/// # Ok::<(), dp_pubfeat::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FeaturePrior {
    variances: PriorVariances,
    sizes: Vec<usize>,
    /// Columns: features, the constant, popularity levels.
    rows: Vec<Vec<(u32, f64)>>,
    unrated: Vec<bool>,
}

/// Popularity levels.
pub(crate) const LEVELS: usize = 10;

/// The kernel of a run, and the weights of its columns for an item that is not in the run.
pub(crate) struct RunKernel {
    pub(crate) kernel: SparseKernel,
    /// Shares of the levels for an item of unknown popularity.
    pub(crate) unknown: [f64; LEVELS],
}

impl FeaturePrior {
    /// The prior of items with these features.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] unless there is one variance per category; [`crate::Error::Param`]
    /// for a variance that is neither 0 nor from 1e-6 to 1e6, or without items. Errors in the
    /// features are reported here, before anything is spent on a fit.
    pub fn new(features: &ItemFeatures, variances: PriorVariances) -> Result<Self> {
        variances.check(features)?;
        let constant = u32::try_from(features.n_features()).unwrap_or(u32::MAX);
        let row = |item: usize| {
            let mut row = Vec::new();
            for (category, variance) in variances.categories.iter().enumerate() {
                let own: Vec<_> = features.item_category(item, category).collect();
                let unit = to_unit_norm(own.iter().map(|&(_, w)| w));
                let each = own.iter().zip(unit);
                row.extend(each.map(|(&(f, _), w)| (f, w * variance.sqrt())));
            }
            row.push((constant, variances.shared.sqrt()));
            row
        };
        let rows: Vec<_> = (0..features.n_items()).map(row).collect();
        SparseKernel::new(rows.clone(), features.n_features() + 1, variances.own)?;
        Ok(Self {
            rows,
            unrated: vec![false; features.n_items()],
            sizes: (0..features.n_categories())
                .map(|c| features.category(c).len())
                .collect(),
            variances,
        })
    }

    /// The same prior with items that are *publicly known* to have no ratings in the data, because
    /// they appeared later: their popularity is unknown, not low.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for an item that does not exist.
    pub fn with_unrated(mut self, items: impl IntoIterator<Item = u32>) -> Result<Self> {
        for item in items {
            below("item", item, self.unrated.len())?;
            self.unrated[item as usize] = true;
        }
        Ok(self)
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.rows.len()
    }

    /// The variances.
    #[must_use]
    pub const fn variances(&self) -> &PriorVariances {
        &self.variances
    }

    /// The certificate of rounds under this prior.
    pub(crate) fn describe(
        &self,
        certificate: CertificateBuilder,
        setup: &ProblemSetup,
        output: &str,
    ) -> CertificateBuilder {
        let unrated = self.unrated.contains(&true).then_some(UNRATED);
        let more: Vec<&str> = [DEFAULTS].into_iter().chain(unrated).collect();
        trainer::describe(certificate, (setup, Vectors::Fitted), (output, &more))
    }

    /// Whether an item is declared to have no ratings.
    pub(crate) fn is_unrated(&self, item: usize) -> bool {
        self.unrated[item]
    }

    pub(crate) fn category_sizes(&self) -> &[usize] {
        &self.sizes
    }

    fn n_features(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Adds features computed from *released* total weights: the two nearest of ten levels on a
    /// logarithmic scale, starting at one standard deviation of their noise. Items declared unrated
    /// get the average popularity of the rated items.
    pub(crate) fn kernel(&self, totals: &[f64], noise: f64) -> Result<RunKernel> {
        let unit = noise.max(1.0);
        let unknown = self.average_levels(totals, unit);
        let first = self.n_features() + 1;
        let column = |level: usize| u32::try_from(first + level).unwrap_or(u32::MAX);
        let weight = self.variances.popularity.sqrt();
        let mut rows = self.rows.clone();
        for ((row, total), unrated) in rows.iter_mut().zip(totals).zip(&self.unrated) {
            if *unrated {
                row.extend((0..LEVELS).map(|l| (column(l), weight * unknown[l])));
            } else {
                let near = nearest_levels(total / unit);
                row.extend(near.map(|(l, share)| (column(l), weight * share)));
            }
        }
        let kernel = SparseKernel::new(rows, first + LEVELS, self.variances.own)?;
        Ok(RunKernel { kernel, unknown })
    }

    /// Mean shares of the levels over items that are not declared unrated, weighted by their
    /// totals.
    fn average_levels(&self, totals: &[f64], unit: f64) -> [f64; LEVELS] {
        let (mut shares, mut whole) = ([0.0; LEVELS], 0.0);
        let rated = totals.iter().zip(&self.unrated).filter(|(_, new)| !**new);
        for (total, _) in rated {
            for (level, share) in nearest_levels(total / unit) {
                shares[level] += total * share;
            }
            whole += total;
        }
        if whole > 0.0 {
            shares.iter_mut().for_each(|share| *share /= whole);
        }
        shares
    }

    /// Multiplies the prior weights into those of features: the contribution of one unit of a
    /// feature (of all of an item's features in its category, norm 1) to a vector, and the part
    /// shared by all items not in the run.
    pub(crate) fn scaled(
        &self,
        theta: &[f64],
        dim: usize,
        unknown: &[f64; LEVELS],
    ) -> (Vec<f64>, Vec<f64>) {
        let mut features = theta[..self.n_features() * dim].to_vec();
        let mut rest = &mut features[..];
        for (size, variance) in self.sizes.iter().zip(&self.variances.categories) {
            let (own, more) = rest.split_at_mut(size * dim);
            own.iter_mut().for_each(|t| *t *= variance.sqrt());
            rest = more;
        }
        let (constant, levels) = theta[self.n_features() * dim..].split_at(dim);
        let root = self.variances.shared.sqrt();
        let mut shared: Vec<f64> = constant.iter().map(|t| root * t).collect();
        let root = self.variances.popularity.sqrt();
        for (share, level) in unknown.iter().zip(levels.chunks_exact(dim)) {
            let each = shared.iter_mut().zip(level);
            each.for_each(|(s, t)| *s += root * share * t);
        }
        (features, shared)
    }
}

/// The two levels around a total weight, and their shares.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the number of levels"
)]
fn nearest_levels(total: f64) -> [(usize, f64); 2] {
    let last = LEVELS as f64 - 1.0;
    let level = total.max(1.0).log2().min(last - 0.001);
    let low = level as usize;
    [(low, 1.0 - level.fract()), (low + 1, level.fract())]
}
