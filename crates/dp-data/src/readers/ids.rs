//! Numbers for ids in order of first appearance.

use std::collections::HashMap;

use crate::Expected;

/// Gives each new id the next number.
#[derive(Default)]
pub(super) struct Interner {
    ids: Vec<String>,
    numbers: HashMap<Box<[u8]>, u32>,
    last: u32,
}

impl Interner {
    /// The number of `id`. A run of equal ids, usual in files sorted by user, is answered
    /// without hashing.
    ///
    /// # Panics
    /// At the 2^32-nd id.
    pub(super) fn number(&mut self, id: &[u8]) -> Result<u32, Expected> {
        let last = self.ids.get(self.last as usize);
        if last.is_some_and(|last| last.as_bytes() == id) {
            return Ok(self.last);
        }
        self.last = match self.numbers.get(id) {
            Some(&number) => number,
            None => self.insert(id)?,
        };
        Ok(self.last)
    }

    /// All ids by number.
    pub(super) fn into_ids(self) -> Vec<String> {
        self.ids
    }

    fn insert(&mut self, id: &[u8]) -> Result<u32, Expected> {
        let text = std::str::from_utf8(id).map_err(|_| Expected::Utf8)?;
        let number = u32::try_from(self.ids.len()).expect("fewer than 2^32 ids");
        self.ids.push(text.to_owned());
        self.numbers.insert(id.into(), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_first_appearance() {
        let mut ids = Interner::default();
        let numbers: Vec<_> = ["b", "b", "a", "b", "a", "c"]
            .map(|id| ids.number(id.as_bytes()).unwrap())
            .into();
        assert_eq!(numbers, [0, 0, 1, 0, 1, 2]);
        assert_eq!(ids.into_ids(), ["b", "a", "c"]);
    }

    #[test]
    fn ids_are_text() {
        let mut ids = Interner::default();
        assert_eq!(ids.number(b"\xff"), Err(Expected::Utf8));
        assert_eq!(ids.number(b"ok"), Ok(0));
    }
}
