//! One user's rows in double precision, less their means where levels are the user's own.

use dp_core::SampleRows;

use crate::Subspace;
use crate::design::{UserDesign, read_rows, take_off_means};

/// One user's rows: as they are, through the basis, and labels.
pub(super) struct OwnRows {
    pub(super) dim: usize,
    pub(super) rank: usize,
    pub(super) x: Vec<f64>,
    pub(super) z: Vec<f64>,
    pub(super) y: Vec<f64>,
    /// Whether there is a constant that is not penalised: rows are less their means.
    pub(super) own_level: bool,
}

/// Means of a user's rows.
pub(super) struct Means {
    pub(super) x: Vec<f64>,
    z: Vec<f64>,
    pub(super) y: f64,
}

impl OwnRows {
    /// The rows of a design that has read them, and with an own level their means.
    pub(super) fn of(
        rows: SampleRows<'_>,
        subspace: &Subspace,
        design: &UserDesign,
        own_level: bool,
    ) -> (Self, Option<Means>) {
        let mut own = Self {
            dim: subspace.dim(),
            rank: subspace.rank(),
            x: Vec::new(),
            z: design.projected.clone(),
            y: Vec::new(),
            own_level,
        };
        read_rows(rows, &mut own.x, &mut own.y);
        let means = own_level.then(|| own.center());
        (own, means)
    }

    pub(super) fn row(&self, i: usize) -> (&[f64], &[f64], f64) {
        let x = &self.x[i * self.dim..(i + 1) * self.dim];
        let z = &self.z[i * self.rank..(i + 1) * self.rank];
        (x, z, self.y[i])
    }

    /// The rows but one, and that one alone: both less the means of the rows that are kept, where there is an own level.
    pub(super) fn without(&self, left_out: usize) -> (Self, Self) {
        let part = |one: bool| {
            let rows = (0..self.y.len()).filter(|&i| (i == left_out) == one);
            let mut part = Self {
                x: Vec::new(),
                z: Vec::new(),
                y: Vec::new(),
                ..*self
            };
            for i in rows {
                let (x, z, y) = self.row(i);
                part.x.extend_from_slice(x);
                part.z.extend_from_slice(z);
                part.y.push(y);
            }
            part
        };
        let (mut kept, mut one) = (part(false), part(true));
        if self.own_level {
            let Means { x, z, y } = kept.center();
            let cells = one.x.iter_mut().chain(&mut one.z).chain(&mut one.y);
            let means = x.into_iter().chain(z).chain([y]);
            cells.zip(means).for_each(|(cell, mean)| *cell -= mean);
        }
        (kept, one)
    }

    /// Takes the means off.
    fn center(&mut self) -> Means {
        Means {
            x: take_off_means(&mut self.x, self.dim),
            z: take_off_means(&mut self.z, self.rank),
            y: take_off_means(&mut self.y, 1)[0],
        }
    }
}
