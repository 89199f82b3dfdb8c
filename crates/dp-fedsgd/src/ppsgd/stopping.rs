//! Stopping early by what is public.

/// A round that is over, with what everybody may know of it.
#[derive(Debug, Clone, Copy)]
pub struct RoundEnd<'a> {
    /// Rounds made.
    pub round: usize,
    /// `w` after them, as released.
    pub shared: &'a [f64],
    /// Clip norm of the round.
    pub clip_norm: f64,
}

/// Stops when a loss on **public** data has not fallen for some rounds.
///
/// # Privacy
/// The number of rounds is a released value. It follows from released models and `public_loss`, so it costs nothing more as long as
/// the data in `public_loss` are public: rows of the users that are being protected must not be in it. All rounds are paid for
/// before the first, and rounds not made stay paid for.
///
/// # Examples
/// ```
/// use dp_fedsgd::{PublicEarlyStopping, RoundEnd};
/// let mut stopping = PublicEarlyStopping::new(2, |w: &[f64]| (w[0] - 1.0).powi(2));
/// let mut stop = |round, w: f64| {
///     stopping.stops(RoundEnd { round, shared: &[w], clip_norm: 1.0 })
/// };
/// let path = [0.0, 0.7, 0.9, 0.8, 0.85, 0.95];
/// let stopped = (1..).zip(path).find(|&(round, w)| stop(round, w));
/// assert_eq!(stopped, Some((5, 0.85))); // two rounds without a new best
/// ```
#[allow(missing_debug_implementations, reason = "holds a function")]
pub struct PublicEarlyStopping<F> {
    patience: usize,
    public_loss: F,
    best: f64,
    since: usize,
}

impl<F: FnMut(&[f64]) -> f64> PublicEarlyStopping<F> {
    /// Stops after `patience` rounds in a row (at least one) without a new least value of `public_loss`.
    pub const fn new(patience: usize, public_loss: F) -> Self {
        Self {
            patience,
            public_loss,
            best: f64::INFINITY,
            since: 0,
        }
    }

    /// Whether to stop after this round: for [`PpSgd::fit_until`](crate::PpSgd::fit_until).
    pub fn stops(&mut self, end: RoundEnd<'_>) -> bool {
        let loss = (self.public_loss)(end.shared);
        if loss < self.best {
            (self.best, self.since) = (loss, 0);
        } else {
            self.since += 1;
        }
        self.since >= self.patience.max(1)
    }
}
