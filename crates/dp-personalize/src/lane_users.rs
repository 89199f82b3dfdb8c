//! Users for tests of batched computation: of all sizes and numbers of rows, and ways to combine
//! them.

use dp_core::{UserSamples, UserSamplesBuilder};

use crate::batched::{USERS, UserBlock};
use crate::user_rows::UserCells;

/// More features than lanes, and not a multiple of the number of lanes.
pub(crate) const DIM: usize = 19;
/// At most two blocks of five rows and three single rows.
pub(crate) const ROWS: usize = 13;
const N_USERS: u16 = 60;
const N_KINDS: u16 = 11;
const NOT_FINITE: u16 = 7;

/// A pseudo-random number between -1 and 1.
fn number(user: u16, row: u16, column: u16) -> f32 {
    let angle = f32::from(user) * 1.7 + f32::from(row) * 12.9 + f32::from(column) * 78.2;
    (angle.sin() * 43.7).fract()
}

/// Factor of the number (row, column) of a user.
fn size(user: u16, row: u16, column: u16) -> f32 {
    let label = usize::from(column) == DIM;
    match user % N_KINDS {
        2 if row > 0 => 0.5,
        3 => 1e30,
        4 => 1e-30,
        5 => 0.0,
        6 => f32::MAX,
        8 => 1e-42,
        9 if row.is_multiple_of(2) => 1e25,
        9 => 1e-25,
        10 if label => f32::MAX,
        10 if column == row => 0.0,
        _ => 1.0,
    }
}

/// Rows of one user, each followed by its label, with zeros after the last. Some contain values
/// that no table admits: infinities and NaN.
fn table(user: u16) -> Vec<f32> {
    let mut cells = Vec::new();
    for row in 0..1 + user * 7 % 13 {
        let from = if user % N_KINDS == 2 { 0 } else { row }; // the same row repeatedly
        for column in 0..=19 {
            cells.push(number(user, from, column) * size(user, row, column));
        }
    }
    if user % N_KINDS == NOT_FINITE {
        cells[3] = f32::NAN;
        cells[5] = f32::INFINITY;
    }
    cells.resize(ROWS * (DIM + 1), 0.0);
    cells
}

/// The tables of all users.
pub(crate) fn tables() -> Vec<Vec<f32>> {
    (0..N_USERS).map(table).collect()
}

/// Those from `first` on, without rows that are not finite.
pub(crate) fn samples(first: u16) -> UserSamples {
    let mut builder = UserSamplesBuilder::new(DIM, ROWS).unwrap();
    for user in first..N_USERS {
        for row in table(user).chunks(DIM + 1) {
            builder.push(user.into(), &row[..DIM], row[DIM]).unwrap();
        }
    }
    builder.build().0
}

/// A lower triangular matrix.
pub(crate) fn transform() -> Vec<f64> {
    let entry = |at: u16| {
        let (row, column) = (at / 19, at % 19);
        match row.cmp(&column) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.5,
            std::cmp::Ordering::Greater => f64::from(number(77, row, column)),
        }
    };
    (0..19 * 19).map(entry).collect()
}

/// Two columns of that length.
pub(crate) fn columns() -> Vec<f64> {
    (0..38).map(|at| number(88, 0, at).into()).collect()
}

/// Checks that what `write` writes for a user, read by `read`, is bit for bit the same alone and
/// among any others, with fresh scratch memory and with memory that others have used.
pub(crate) fn each_user_alone_decides<S, R: PartialEq>(
    width: usize,
    fresh: impl Fn() -> S,
    write: impl Fn(&mut S, UserBlock<'_>, &mut [f32]),
    read: impl Fn(&[f32]) -> R,
) {
    let tables = tables();
    let users: Vec<_> = tables.iter().map(|x| UserCells::raw(x, DIM)).collect();
    let alone = |own: &mut S, user: &UserCells<'_>| {
        let mut out = vec![f32::NAN; width];
        write(own, UserBlock::alone(user), &mut out);
        read(&out)
    };
    let expected: Vec<R> = users.iter().map(|user| alone(&mut fresh(), user)).collect();
    let mut used = fresh();
    let mut out = Vec::new();
    for first in [0, 1, 5, 16] {
        for (at, block) in users[first..].chunks(USERS).enumerate() {
            let at = first + at * USERS;
            let next = &users[(at + block.len()).min(users.len())..];
            let next = &next[..next.len().min(USERS)];
            for own in [&mut used, &mut fresh()] {
                out.resize(block.len() * width, f32::NAN);
                let users = block;
                write(own, UserBlock { users, next }, &mut out);
                for (at, found) in (at..).zip(out.chunks(width)) {
                    assert!(read(found) == expected[at], "user {at} after {first}");
                }
            }
        }
        for (at, user) in users.iter().enumerate().rev().step_by(3) {
            assert!(alone(&mut used, user) == expected[at], "user {at} again");
        }
    }
}
