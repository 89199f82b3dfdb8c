//! Independent recomputation of the runs of the trainers in this workspace.

#[cfg(feature = "multitask")]
mod factorization;
#[cfg(feature = "pubfeat")]
mod feature_rounds;
#[cfg(feature = "fedsgd")]
mod private_sgd;
#[cfg(feature = "pubfeat")]
mod public_features;

#[cfg(feature = "multitask")]
pub use factorization::{FactorizationOracle, TuningOracle};
#[cfg(feature = "pubfeat")]
pub use feature_rounds::{FeatureRounds, FeatureRoundsOracle};
#[cfg(feature = "fedsgd")]
pub use private_sgd::{PpSgdOracle, SgdRound, SgdRun};
#[cfg(feature = "pubfeat")]
pub use public_features::{DpSgdOracle, PublicFeatures, PublicFeaturesOracle};

#[cfg(any(feature = "multitask", feature = "pubfeat"))]
pub(crate) mod shares {
    //! Compares each user's contributions with what follows from settings and earlier releases.

    use dp_core::UserRow;
    use dp_mechanism::{
        FactorContribution, GramContribution, GramGrids, Grid, VectorContribution,
        gram_contribution, vector_contribution,
    };

    use crate::Result;
    use crate::kernel::gram_entries;
    use crate::trainer::{AuditedUsers, differs};
    use crate::view::Entries;

    pub(crate) type OneVector<'a> = &'a dyn Fn(UserRow<'_>) -> Vec<(usize, i64)>;
    pub(crate) type OneGrams<'a> =
        &'a dyn Fn(UserRow<'_>) -> dp_mechanism::Result<GramContribution>;

    /// How much the integers of equal formulas may differ, given the bound of a user.
    pub(crate) type Room = fn(u64) -> u64;

    /// The same code applied to the same numbers.
    #[cfg(feature = "multitask")]
    pub(crate) const EXACT: Room = |_| 0;
    /// Allows for a few roundings.
    #[cfg(feature = "pubfeat")]
    pub(crate) const ROUNDED: Room = |bound| bound / 1_000_000 + 2;

    pub(crate) fn same_vectors<C: VectorContribution>(
        users: AuditedUsers<'_>,
        (grid, n): (&Grid, usize),
        contribution: &C,
        one: OneVector<'_>,
        room: Room,
    ) -> Result<()> {
        for row in users.rows() {
            let expected = vector_contribution(grid, n, contribution, row);
            same(&one(row), &expected, room(grid.l2_bound()))?;
        }
        Ok(())
    }

    pub(crate) fn same_grams<C: FactorContribution>(
        users: AuditedUsers<'_>,
        grids: &GramGrids,
        contribution: &C,
        one: OneGrams<'_>,
        room: Room,
    ) -> Result<()> {
        let dim = contribution.dim();
        for row in users.rows() {
            let found = gram_entries(&one(row)?, dim);
            let expected = gram_entries(&gram_contribution(grids, contribution, row)?, dim);
            same(&found.0, &expected.0, room(grids.matrix().l2_bound()))?;
            same(&found.1, &expected.1, room(grids.rhs().l2_bound()))?;
        }
        Ok(())
    }

    /// Checks for equality up to `room`. Entries are in the order of their coordinates.
    fn same(found: &Entries, expected: &Entries, room: u64) -> Result<()> {
        let value = |entries: &Entries, at: usize| match entries.binary_search_by_key(&at, |e| e.0)
        {
            Ok(place) => entries[place].1,
            Err(_) => 0,
        };
        let near = |&(at, _): &(usize, i64)| value(found, at).abs_diff(value(expected, at)) <= room;
        if found.iter().chain(expected).all(near) {
            return Ok(());
        }
        Err(differs(
            "users' shares that follow from settings and earlier releases",
        ))
    }
}
