//! Selects the bin of |N| with an alias table in exact integers.
//!
//! The weights add up to 2^128, so 256 columns hold 2^120 each: column c keeps `keep` of it for bin
//! c and gives the rest to bin `other` (Walker's method with integer masses, nothing is rounded). A
//! draw takes one column by 8 bits and one comparison by the next 120. Only 16 of these are drawn
//! at first; they decide except with probability 2^-16, in which case 104 more are drawn. Each draw
//! costs one load and one comparison, whatever the bin, so the cost reveals nothing about it. (Bins
//! from 5 sigma on are reached only through ties, but 98 of 100 ties end in another bin.)

use super::weights::{N_BINS, WEIGHTS};

/// Mass of one column.
const COLUMN: u128 = 1 << 120;
/// Number of comparison bits that are drawn only on a tie.
pub(super) const TIE_BITS: u32 = 104;

/// The content of a column.
#[derive(Clone, Copy)]
struct Column {
    /// Mass kept for bin c, below 2^120.
    keep: u128,
    /// The bin that gets the remaining mass.
    other: u8,
}

/// First 16 bits of the kept mass above 8 bits for the other bin: one load per draw, 1 KiB in
/// total.
static HEADS: [u32; 256] = heads();
/// The other 104 bits of the kept mass.
static TIES: [u128; 256] = ties();
const COLUMNS: [Column; 256] = columns();

/// The bin determined by `column` and the first 16 bits of the comparison, and whether there is a
/// tie.
#[inline(always)]
pub(super) fn first_pick(column: u8, prefix: u16) -> (u64, bool) {
    let head = head(column);
    let (keep, other) = (head >> 8, head & 0xff);
    let prefix = u32::from(prefix);
    // a mask, not a branch: the outcome is unpredictable and must not affect the timing
    let kept = u32::from(prefix < keep).wrapping_neg();
    let bin = (u32::from(column) & kept) | (other & !kept);
    (u64::from(bin), prefix == keep)
}

/// The bin after a tie, determined by 104 further bits.
pub(super) fn pick_after_tie(column: u8, further: u128) -> u64 {
    if further < tie(column) {
        u64::from(column)
    } else {
        u64::from(head(column) & 0xff)
    }
}

#[allow(clippy::indexing_slicing, reason = "a u8 indexes 256 entries")]
#[inline(always)]
fn head(column: u8) -> u32 {
    HEADS[usize::from(column)]
}

#[allow(clippy::indexing_slicing, reason = "a u8 indexes 256 entries")]
fn tie(column: u8) -> u128 {
    TIES[usize::from(column)]
}

/// Vose's construction: columns below their share are filled up from one above it.
///
/// Both stacks are exhausted together because the masses are integers with the right sum; the
/// columns left at the end contain exactly one share.
#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler, where a fault is a compile error; bins are below 256"
)]
const fn columns() -> [Column; 256] {
    let mut mass = [0_u128; 256];
    let (mut poor, mut n_poor) = ([0_usize; 256], 0);
    let (mut rich, mut n_rich) = ([0_usize; 256], 0);
    let mut bin = 0;
    while bin < 256 {
        mass[bin] = if bin < N_BINS { WEIGHTS[bin] } else { 0 };
        if mass[bin] < COLUMN {
            poor[n_poor] = bin;
            n_poor += 1;
        } else {
            rich[n_rich] = bin;
            n_rich += 1;
        }
        bin += 1;
    }
    let mut columns = [Column { keep: 0, other: 0 }; 256];
    while n_poor > 0 {
        n_poor -= 1;
        let taker = poor[n_poor];
        assert!(n_rich > 0, "the weights do not add up to 2^128");
        let giver = rich[n_rich - 1];
        columns[taker] = Column {
            keep: mass[taker],
            other: giver as u8,
        };
        mass[giver] -= COLUMN - mass[taker];
        if mass[giver] < COLUMN {
            n_rich -= 1;
            poor[n_poor] = giver;
            n_poor += 1;
        }
    }
    while n_rich > 0 {
        n_rich -= 1;
        let full = rich[n_rich];
        assert!(mass[full] == COLUMN, "the weights do not add up to 2^128");
        columns[full].other = full as u8;
    }
    columns
}

#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler; the kept mass is below 2^120, its head below 2^16"
)]
const fn heads() -> [u32; 256] {
    let mut heads = [0; 256];
    let mut c = 0;
    while c < 256 {
        heads[c] = (((COLUMNS[c].keep >> TIE_BITS) as u32) << 8) | COLUMNS[c].other as u32;
        c += 1;
    }
    heads
}

#[allow(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "evaluated by the compiler"
)]
const fn ties() -> [u128; 256] {
    let mut ties = [0; 256];
    let mut c = 0;
    while c < 256 {
        ties[c] = COLUMNS[c].keep & ((1 << TIE_BITS) - 1);
        c += 1;
    }
    ties
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bin for a column and all 120 bits of the comparison, through the production path.
    fn pick(column: u8, bits: u128) -> u64 {
        let (bin, tie) = first_pick(column, u16::try_from(bits >> TIE_BITS).unwrap());
        if tie {
            pick_after_tie(column, bits & ((1 << TIE_BITS) - 1))
        } else {
            bin
        }
    }

    #[test]
    fn every_bin_gets_exactly_its_weight() {
        // the mass of a column switches once, at a position found by bisection through `pick`
        let mut mass = [0_u128; 256];
        for column in 0..=255_u8 {
            let last = pick(column, COLUMN - 1);
            let (mut low, mut high) = (0, COLUMN - 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if pick(column, middle) == last {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            mass[usize::from(column)] += low;
            mass[usize::try_from(last).unwrap()] += COLUMN - low;
            if low > 0 {
                assert_eq!(pick(column, 0), u64::from(column));
                assert_eq!(pick(column, low - 1), u64::from(column));
            }
        }
        for (bin, &m) in mass.iter().enumerate() {
            assert_eq!(m, WEIGHTS.get(bin).copied().unwrap_or(0), "bin {bin}");
        }
    }

    #[test]
    fn the_first_16_bits_tie_once_per_column() {
        for column in 0..=255_u8 {
            let keep = u16::try_from(head(column) >> 8).unwrap();
            assert!(first_pick(column, keep).1);
            assert!(!first_pick(column, keep ^ 1).1);
        }
    }
}
