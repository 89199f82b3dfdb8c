//! Looking at runs.

use dp_multitask::{Observed, Observer};

/// Shows every release to a function.
pub(crate) struct See<F>(pub(crate) F);

impl<F: FnMut(&Observed<'_>)> Observer for See<F> {
    fn release(&mut self, seen: &Observed<'_>) {
        (self.0)(seen);
    }
}
