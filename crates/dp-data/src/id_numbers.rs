//! Numbers for ids: finds the user and item of a record.

use std::collections::HashMap;

/// A number for each id.
///
/// Ids that are short whole numbers, as in most files, are used as indices of a list and found
/// without hashing. The list is at most [`GAPS`] times as long as there are ids, so that sparse ids
/// cost no memory: these, and all others, are hashed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IdNumbers {
    /// Indexed by the whole number of the id: its number plus 1, or 0 if there is no such id or it
    /// is hashed.
    whole: Vec<u32>,
    hashed: HashMap<Box<[u8]>, u32>,
    n_whole: usize,
}

/// Number of list entries allowed per id in the list, in addition to [`FREE`] entries.
const GAPS: usize = 8;
const FREE: usize = 1 << 16;
/// Ids with more digits than this are not used as indices.
const MOST_DIGITS: usize = 8;

impl IdNumbers {
    pub(crate) fn get(&self, id: &[u8]) -> Option<u32> {
        self.listed(id).or_else(|| self.hashed.get(id).copied())
    }

    /// The number of an id that is found without hashing.
    pub(crate) fn listed(&self, id: &[u8]) -> Option<u32> {
        self.of_place(whole_number(id)?)
    }

    /// The number of the id that is the decimal representation of this whole number, if it is found
    /// without hashing.
    #[inline]
    pub(crate) fn of_whole(&self, whole: u32) -> Option<u32> {
        self.of_place(whole as usize)
    }

    #[inline]
    fn of_place(&self, place: usize) -> Option<u32> {
        self.whole.get(place)?.checked_sub(1)
    }

    /// Assigns a number to an id that has none.
    pub(crate) fn insert(&mut self, id: &[u8], number: u32) {
        let most = GAPS * self.n_whole + FREE;
        match (whole_number(id), number.checked_add(1)) {
            (Some(place), Some(entry)) if place < most => {
                if place >= self.whole.len() {
                    self.whole.resize(place + 1, 0);
                }
                self.whole[place] = entry;
                self.n_whole += 1;
            }
            _ => {
                self.hashed.insert(id.into(), number);
            }
        }
    }
}

/// The whole number whose only decimal representation is this id.
pub(crate) fn whole_number(id: &[u8]) -> Option<usize> {
    let is_short = matches!(id.len(), 1..=MOST_DIGITS);
    if !is_short || (id[0] == b'0' && id.len() > 1) {
        return None;
    }
    id.iter().try_fold(0, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| 10 * number + usize::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_its_own_number_however_it_is_written() {
        let far: Vec<String> = (1..200).map(|n| (n * 499_999).to_string()).collect();
        let texts = [
            "7", "07", "007", "+7", " 7", "7 ", "-7", "7.0", "0", "00", "x", "é", "",
        ];
        let long = ["12345678", "123456789", "99999999", "100000000", "65536"];
        let all = texts.into_iter().chain(long).map(str::to_owned);
        let all: Vec<String> = all.chain(far).collect();
        let mut numbers = IdNumbers::default();
        for (number, id) in (0..).zip(&all) {
            assert_eq!(numbers.get(id.as_bytes()), None, "{id}");
            numbers.insert(id.as_bytes(), number);
        }
        for (number, id) in (0..).zip(&all) {
            assert_eq!(numbers.get(id.as_bytes()), Some(number), "{id}");
        }
        assert_eq!(numbers.get(b"8"), None);
    }

    #[test]
    fn ids_far_apart_take_no_memory_and_those_in_order_no_hash() {
        let mut far = IdNumbers::default();
        far.insert(b"99999999", 0);
        assert!(far.whole.is_empty());
        let mut close = IdNumbers::default();
        for number in 0..500_000_u32 {
            close.insert(number.to_string().as_bytes(), number);
        }
        assert!(close.hashed.is_empty());
        close.insert(b"500000", u32::MAX); // one more does not fit
        assert_eq!(close.get(b"500000"), Some(u32::MAX));
    }
}
