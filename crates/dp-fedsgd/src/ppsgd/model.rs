//! What a run leaves: shared parameters, which are released, and local ones, which are not.

use dp_accounting::Certificate;
use dp_core::Private;

/// How shared parameters came about, and with it who may see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Released under the guarantee of their certificate.
    Private,
    /// Released with seeded noise: no guarantee.
    SeededNoise,
    /// Computed without noise.
    NonPrivate,
    /// Nothing was released: all zeros.
    NotTrained,
}

/// Released shared parameters.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SharedModel {
    pub(crate) last: Vec<f64>,
    pub(crate) average: Option<Vec<f64>>,
    pub(crate) clip_norm: f64,
    pub(crate) n_rounds: usize,
    pub(crate) kept: Vec<KeptRound>,
    pub(crate) provenance: Provenance,
}

/// A released model on the way.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct KeptRound {
    /// Rounds made.
    pub round: usize,
    /// `w` after them.
    pub shared: Vec<f64>,
}

impl SharedModel {
    /// `w_T`.
    #[must_use]
    pub fn last(&self) -> &[f64] {
        &self.last
    }

    /// The mean of `w_0, ..., w_(T-1)`, if the settings asked for it.
    #[must_use]
    pub fn average(&self) -> Option<&[f64]> {
        self.average.as_deref()
    }

    /// The clip norm that a further round would have.
    #[must_use]
    pub const fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Rounds made.
    #[must_use]
    pub const fn n_rounds(&self) -> usize {
        self.n_rounds
    }

    /// The models kept on the way, in order.
    #[must_use]
    pub fn kept(&self) -> &[KeptRound] {
        &self.kept
    }

    /// Who may see it.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }
}

/// Every user's local parameters, as a simulation holds them: private, one user's for that user alone.
#[derive(PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds private models; printing them is never wanted"
)]
pub struct LocalModels {
    pub(crate) n_local: usize,
    pub(crate) last: Vec<f64>,
    pub(crate) average: Option<Vec<f64>>,
}

impl LocalModels {
    /// `theta_i` after the last round.
    ///
    /// # Panics
    /// When there is no such user.
    #[must_use]
    pub fn last(&self, user: usize) -> &[f64] {
        &self.last[user * self.n_local..][..self.n_local]
    }

    /// The mean of `theta_i` over the starts of all rounds, if the settings asked for it.
    ///
    /// # Panics
    /// When there is no such user.
    #[must_use]
    pub fn average(&self, user: usize) -> Option<&[f64]> {
        let all = self.average.as_ref()?;
        Some(&all[user * self.n_local..][..self.n_local])
    }
}

/// A run's shared model with its certificate, and the local models of the simulated users.
#[allow(
    missing_debug_implementations,
    reason = "holds private models; printing them is never wanted"
)]
pub struct FittedPpSgd {
    /// What was released.
    pub model: SharedModel,
    /// Under which guarantee; none where nothing was released or there was no privacy.
    pub certificate: Option<Certificate>,
    /// Every user's own parameters. They stay with their users.
    pub personal: Private<LocalModels>,
}
