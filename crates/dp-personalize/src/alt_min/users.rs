//! Who takes part in a step, and with which rows.

use dp_core::SampleRows;

use crate::embedding::RowUse;

/// The users of one step, and the rows it looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepUsers {
    /// The batch and how many there are; none for all users.
    pub(crate) batch: Option<(usize, usize)>,
    /// Rows that personal models are fitted on.
    pub(crate) model_rows: RowUse,
    /// Rows that the embedding is fitted on.
    pub(crate) embedding_rows: RowUse,
}

impl StepUsers {
    /// All users with all rows.
    pub(crate) const ALL: Self = Self {
        batch: None,
        model_rows: RowUse::All,
        embedding_rows: RowUse::All,
    };

    /// Whether the user takes part: a function of the user's own rows.
    pub(crate) fn include(self, rows: SampleRows<'_>) -> bool {
        self.batch.is_none_or(|(batch, n)| rows.batch(n) == batch)
    }
}
