//! What a record means: a rating, or a yes.

use dp_core::params;

use super::params::in_public_range;
use crate::Result;

/// What the records of a table mean.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feedback {
    /// Values are ratings to be predicted; items without a record say nothing.
    #[default]
    Explicit,
    /// A record is a yes (its value is not looked at); every other item is a weak no.
    Implicit(ImplicitFeedback),
}

impl Feedback {
    /// The settings of implicit feedback.
    #[must_use]
    pub const fn implicit(&self) -> Option<&ImplicitFeedback> {
        match self {
            Self::Explicit => None,
            Self::Implicit(settings) => Some(settings),
        }
    }
}

/// Whose Gramian the item step divides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemGramian {
    /// Each item's own, `d x d` released numbers per item (Krichene et al. 2023, Algorithm 3).
    PerItem,
    /// One for all items, scaled by each item's released weight (with biases; without, the same for all): `d x d`
    /// released numbers in all.
    Pooled,
}

/// Settings of implicit feedback; public, as all settings.
///
/// ```text
/// sum over records (1 - score_ij)^2  +  a0 sum over all items score_ij^2
/// ```
///
/// Source: implicit alternating least squares (Hu, Koren and Volinsky 2008) as in Krichene et al.
/// 2023. Each `a0` is 0 or from 1e-6 to 1e6.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImplicitFeedback {
    /// `a0` of the user step while training.
    pub training_unobserved_weight: f64,
    /// `a0` of the user step with the finished factors.
    pub fold_in_unobserved_weight: f64,
    /// `a0` of the item step, on the scale of the users' normalised record weights. With
    /// [`ItemGramian::PerItem`] and 0 no Gramian of all users is released.
    pub item_unobserved_weight: f64,
    /// Whose Gramian the item step divides by.
    pub item_gramian: ItemGramian,
    /// Share of each round's budget spent on the Gramian of all users, strictly between 0 and 1.
    pub gramian_share: f64,
}

impl ImplicitFeedback {
    pub(super) fn check(&self) -> Result<()> {
        for (name, value) in [
            (
                "training_unobserved_weight",
                self.training_unobserved_weight,
            ),
            ("fold_in_unobserved_weight", self.fold_in_unobserved_weight),
            ("item_unobserved_weight", self.item_unobserved_weight),
        ] {
            params::finite_non_negative(name, value)?;
            in_public_range(name, value.max(1e-6))?;
        }
        params::open_unit("gramian_share", self.gramian_share)?;
        Ok(())
    }

    /// Whether each round releases the Gramian of all users.
    #[must_use]
    pub fn releases_gramian(&self) -> bool {
        self.item_gramian == ItemGramian::Pooled || self.item_unobserved_weight > 0.0
    }

    /// Whether each round releases the matrices of all items.
    #[must_use]
    pub fn releases_matrices(&self) -> bool {
        self.item_gramian == ItemGramian::PerItem
    }
}
