//! Tracks whose contributions a sum contains, so that nobody's are added twice.

use dp_core::{Interactions, Origin};

use crate::{Error, Result};

/// The users of a sum, identified by the origins of the tables that it was computed over.
#[derive(Clone)]
pub(crate) enum SummedUsers {
    /// Those of tables of this process; an empty list means no users.
    Of(Vec<Origin>),
    /// Clients elsewhere.
    Unknown,
}

impl SummedUsers {
    pub(crate) const fn nobody() -> Self {
        Self::Of(Vec::new())
    }

    pub(crate) fn of(table: &Interactions) -> Self {
        Self::Of(vec![table.origin().clone()])
    }

    /// Includes the users of another sum; rejects users that are not known to be different: (K23).
    ///
    /// # Errors
    /// [`Error::SameUsers`], which depends on how tables were created and not on their contents.
    pub(crate) fn join(&mut self, other: Self) -> Result<()> {
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("merge-of-the-same-users") {
            return Ok(());
        }
        match (&mut *self, other) {
            (_, Self::Of(others)) if others.is_empty() => Ok(()),
            (Self::Of(own), other) if own.is_empty() => {
                *self = other;
                Ok(())
            }
            (Self::Of(own), Self::Of(others)) => {
                if own.iter().any(|a| others.iter().any(|b| a.overlaps(b))) {
                    return Err(Error::SameUsers);
                }
                own.extend(others);
                Ok(())
            }
            _ => Err(Error::SameUsers),
        }
    }
}
