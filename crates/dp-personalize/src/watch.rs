//! Looking at a fit round by round.

use crate::Subspace;

/// A round that is over, with what everybody may know of it.
///
/// # Privacy
/// The subspace is computed from earlier releases, and covered by their guarantee, except at round 0 of a fit whose start was given: that is the start as it
/// came, with its own provenance. Looking moves nothing: later rounds are those of a fit that nobody watched.
#[derive(Debug, Clone, Copy)]
pub struct RoundEnd<'a> {
    /// Rounds made, steps of [`ResidualAltMin`](crate::ResidualAltMin) among them: 0 for the subspace that the first one starts from.
    pub round: usize,
    /// The subspace after them.
    pub model: &'a Subspace,
}

/// Sees the subspace after every round of a fit.
pub type RoundWatch<'a> = dyn FnMut(RoundEnd<'_>) + 'a;
