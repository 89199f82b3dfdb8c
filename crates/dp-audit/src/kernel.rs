//! Views of the kernel's own releases, for audits at the kernel.

use dp_accounting::Spend;
use dp_core::{Interactions, Private, UserRow};
use dp_linalg::{packed_index, packed_len};
use dp_mechanism::{
    FactorContribution, GramContribution, GramGrids, GramLayout, GramSums, Grid, NoiseSource,
    ReleasedGrams, ReleasedVector, VectorContribution, VectorSum, gram_contribution,
    vector_contribution,
};

use crate::Result;
use crate::view::{Entries, Layout, View};

/// Releases a vector sum of `data` and returns its view.
///
/// # Errors
/// As [`VectorSum::release`].
pub fn observe_vector<C: VectorContribution>(
    data: &Private<Interactions>,
    n_coordinates: usize,
    clip_norm: f64,
    contribution: &C,
    spend: Spend,
    noise: &mut NoiseSource,
) -> Result<View> {
    let multiplier = spend.noise_multiplier()?;
    let label = spend.label().to_owned();
    let grid = Grid::new(multiplier, clip_norm)?;
    let sum = VectorSum::accumulate(data, n_coordinates, grid, contribution)?;
    let released = sum.release(spend, noise)?;
    let mut view = vector_view(&label, multiplier, &grid, &released);
    add_users(&mut view.exact, data.expose(), |row| {
        Ok(vector_contribution(&grid, n_coordinates, contribution, row))
    })?;
    Ok(view)
}

/// A view of a released vector whose exact sum has not been filled in.
#[must_use]
pub fn vector_view(label: &str, multiplier: f64, grid: &Grid, released: &ReleasedVector) -> View {
    View {
        label: label.to_owned(),
        layout: Layout::Vector {
            sigma: grid.sigma(),
        },
        noise_multiplier: multiplier,
        integers: released.integers().to_vec(),
        exact: vec![0; released.len()],
        canaries: Vec::new(),
    }
}

/// Releases Gram sums of `data` and returns the views of matrices and right-hand sides.
///
/// # Arguments
/// * `clips` - clip norms of matrices and right-hand sides
/// * `spends` - their spends, in the same order
///
/// # Errors
/// As [`GramSums::release`].
pub fn observe_grams<C: FactorContribution>(
    data: &Private<Interactions>,
    clips: (f64, f64),
    contribution: &C,
    spends: (Spend, Spend),
    noise: &mut NoiseSource,
) -> Result<[View; 2]> {
    let multipliers = (spends.0.noise_multiplier()?, spends.1.noise_multiplier()?);
    let labels = (spends.0.label().to_owned(), spends.1.label().to_owned());
    let grids = GramGrids::new(multipliers.0, clips.0, multipliers.1, clips.1)?;
    let sums = GramSums::accumulate(data, grids, contribution)?;
    let released = sums.release(spends.0, spends.1, noise)?;
    let mut views = gram_views((&labels.0, &labels.1), multipliers, &grids, &released);
    let one_user = |row: UserRow<'_>| gram_contribution(&grids, contribution, row);
    fill_grams(
        &mut views,
        data.expose(),
        None,
        contribution.dim(),
        &one_user,
    )?;
    Ok(views)
}

/// Views of released Gram sums whose exact sums have not been filled in.
pub(crate) fn gram_views(
    labels: (&str, &str),
    multipliers: (f64, f64),
    grids: &GramGrids,
    released: &ReleasedGrams,
) -> [View; 2] {
    let view = |label: &str, layout, noise_multiplier, integers: &[i64]| View {
        label: label.to_owned(),
        layout,
        noise_multiplier,
        integers: integers.to_vec(),
        exact: vec![0; integers.len()],
        canaries: Vec::new(),
    };
    let packed = Layout::Packed {
        diagonal: grids.matrix().sigma(),
        off_diagonal: grids.matrix().off_diagonal_sigma(),
        dim: released.dim(),
    };
    let plain = Layout::Vector {
        sigma: grids.rhs().sigma(),
    };
    [
        view(labels.0, packed, multipliers.0, released.matrix_integers()),
        view(labels.1, plain, multipliers.1, released.rhs_integers()),
    ]
}

/// Fills in exact sums over the users of `data` and what each of `canaries` contributes if present;
/// `one_user` returns one user's integers.
pub(crate) fn fill_grams(
    views: &mut [View; 2],
    data: &Interactions,
    canaries: Option<&Interactions>,
    dim: usize,
    one_user: &dyn Fn(UserRow<'_>) -> dp_mechanism::Result<GramContribution>,
) -> Result<()> {
    let [matrix, rhs] = views;
    for row in data.users() {
        let one = one_user(row)?;
        let (a, b) = gram_entries(&one, dim);
        add(&mut matrix.exact, &a);
        add(&mut rhs.exact, &b);
    }
    for row in canaries.into_iter().flat_map(Interactions::users) {
        let one = one_user(row)?;
        let (a, b) = gram_entries(&one, dim);
        matrix.canaries.push(a);
        rhs.canaries.push(b);
    }
    Ok(())
}

/// The entries of one user's Gram contribution, in the matrices and in the right-hand sides.
pub(crate) fn gram_entries(one: &GramContribution, dim: usize) -> (Entries, Entries) {
    let (mut matrix, mut rhs) = (Entries::new(), Entries::new());
    let records = one.factors.chunks_exact(dim.max(1)).zip(&one.labels);
    for (record, ((x, &label), &item)) in records.zip(&one.items).enumerate() {
        let item = item as usize;
        match one.layout {
            GramLayout::PerItem => push_outer_product(&mut matrix, item, x),
            GramLayout::Pooled if record == 0 => push_outer_product(&mut matrix, 0, x),
            GramLayout::Pooled => {}
        }
        for (a, &x_a) in x.iter().enumerate() {
            rhs.push((item * dim + a, label.wrapping_mul(x_a)));
        }
    }
    (matrix, rhs)
}

fn push_outer_product(matrix: &mut Entries, place: usize, x: &[i64]) {
    let dim = x.len();
    for (a, &x_a) in x.iter().enumerate() {
        for (b, &x_b) in x.iter().enumerate().skip(a) {
            let at = place * packed_len(dim) + packed_index(dim, a, b);
            matrix.push((at, x_a.wrapping_mul(x_b)));
        }
    }
}

pub(crate) fn add_users<'a>(
    sums: &mut [i64],
    data: &'a Interactions,
    entries: impl Fn(dp_core::UserRow<'a>) -> Result<Entries>,
) -> Result<()> {
    for row in data.users() {
        add(sums, &entries(row)?);
    }
    Ok(())
}

pub(crate) fn add(sums: &mut [i64], entries: &Entries) {
    for &(at, z) in entries {
        if let Some(sum) = sums.get_mut(at) {
            *sum = sum.wrapping_add(z);
        }
    }
}
