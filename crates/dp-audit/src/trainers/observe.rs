//! Views of what a trainer shows to its watch.

use dp_core::Interactions;
use dp_mechanism::{Observed, ObservedSums, Observer, OffDiagonalNoise};

use crate::Result;
use crate::kernel::{fill_grams_from, fill_vector, gram_views, vector_view};
use crate::view::{Layout, View};

/// Views of one run so far.
pub(super) struct Views<'a> {
    data: &'a Interactions,
    canaries: &'a Interactions,
    views: Result<Vec<View>>,
}

impl<'a> Views<'a> {
    pub(super) const fn of(data: &'a Interactions, canaries: &'a Interactions) -> Self {
        Self {
            data,
            canaries,
            views: Ok(Vec::new()),
        }
    }

    /// Takes in one release.
    pub(super) fn look(&mut self, seen: Observed<'_>) {
        if let Ok(kept) = &mut self.views {
            match look(seen, self.data, self.canaries) {
                Ok(seen) => kept.extend(seen),
                Err(error) => self.views = Err(error),
            }
        }
    }

    /// All of them, as many as were planned.
    /// The views of all releases seen.
    pub(super) fn seen(self) -> Result<Vec<View>> {
        self.views
    }

    /// The views of all releases, as many as were planned.
    pub(super) fn all(self, planned: usize) -> Result<Vec<View>> {
        let views = self.views?;
        dp_core::params::same_size("releases seen", views.len(), planned)?;
        Ok(views)
    }
}

impl Observer for Views<'_> {
    fn release(&mut self, seen: &Observed<'_>) {
        self.look(*seen);
    }
}

/// The views of one release.
fn look(seen: Observed<'_>, data: &Interactions, canaries: &Interactions) -> Result<Vec<View>> {
    let ([label, second], [multiplier, of_rhs]) = (seen.labels, seen.noise_multipliers);
    match seen.sums {
        ObservedSums::Vector {
            grid,
            released,
            one_user,
        } => {
            let mut view = vector_view(label, multiplier, grid, released);
            fill_vector(&mut view, data, Some(canaries), &|row| Ok(one_user(row)))?;
            Ok(vec![view])
        }
        ObservedSums::Triangle {
            grid,
            side,
            off_diagonal,
            released,
            one_user,
        } => {
            let mut view = vector_view(label, multiplier, grid, released);
            if off_diagonal == OffDiagonalNoise::Isometric {
                view.layout = Layout::Packed {
                    diagonal: grid.sigma(),
                    off_diagonal: grid.off_diagonal_sigma(),
                    dim: side,
                };
            }
            fill_vector(&mut view, data, Some(canaries), &|row| Ok(one_user(row)?))?;
            Ok(vec![view])
        }
        ObservedSums::Grams {
            grids,
            released,
            one_user,
        } => {
            let multipliers = (multiplier, of_rhs);
            let mut views = gram_views((label, second), multipliers, grids, released);
            fill_grams_from(&mut views, data, Some(canaries), released.dim(), one_user)?;
            Ok(views.into())
        }
    }
}
