//! Which user numbers a table was given, and the row of each.

/// Numbers of a block: whole words.
pub(super) const NUMBERS_OF_A_BLOCK: usize = 64 * WORDS_OF_A_BLOCK;
const WORDS_OF_A_BLOCK: usize = 64;

/// A set of user numbers.
#[derive(Default)]
pub(super) struct UserNumbers {
    /// Bit `n % 64` of word `n / 64` stands for number `n`.
    words: Vec<u64>,
}

/// The numbers of a set in order: the row of a number is how many are below it.
pub(super) struct Rows {
    words: Vec<u64>,
    /// Numbers in the words before each.
    before: Vec<usize>,
    n_rows: usize,
}

impl UserNumbers {
    pub(super) fn insert(&mut self, user: u32) {
        let word = user as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (user % 64);
    }

    /// Inserts `0..end`.
    pub(super) fn insert_below(&mut self, end: usize) {
        let whole = end / 64;
        if self.words.len() < end.div_ceil(64) {
            self.words.resize(end.div_ceil(64), 0);
        }
        self.words[..whole].fill(u64::MAX);
        if !end.is_multiple_of(64) {
            self.words[whole] |= (1 << (end % 64)) - 1;
        }
    }

    pub(super) fn into_rows(self) -> Rows {
        let mut n_rows = 0;
        let mut before = Vec::with_capacity(self.words.len());
        for word in &self.words {
            before.push(n_rows);
            n_rows += word.count_ones() as usize;
        }
        Rows {
            words: self.words,
            before,
            n_rows,
        }
    }
}

impl Rows {
    pub(super) const fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Blocks of numbers up to the largest one.
    pub(super) const fn n_blocks(&self) -> usize {
        self.words.len().div_ceil(WORDS_OF_A_BLOCK)
    }

    /// The rows of the numbers of a block.
    pub(super) fn of_block(&self, block: usize) -> std::ops::Range<usize> {
        let first = |block: usize| {
            let word = block * WORDS_OF_A_BLOCK;
            self.before.get(word).copied().unwrap_or(self.n_rows)
        };
        first(block)..first(block + 1)
    }

    /// The numbers in order.
    #[allow(clippy::cast_possible_truncation, reason = "numbers are 32 bits")]
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let bits = (0..64_u32).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| at as u32 * 64 + bit)
        })
    }

    /// Whether no number between the first and the last is missing.
    pub(super) fn are_consecutive(&self) -> bool {
        let first = self.words.iter().position(|&word| word != 0);
        let last = self.words.iter().rposition(|&word| word != 0);
        let (Some(first), Some(last)) = (first, last) else {
            return true;
        };
        let start = first * 64 + self.words[first].trailing_zeros() as usize;
        let end = last * 64 + 64 - self.words[last].leading_zeros() as usize;
        end - start == self.n_rows
    }

    /// The row of a number that was inserted.
    pub(super) fn of(&self, user: usize) -> usize {
        let word = user / 64;
        let below = self.words[word] & ((1 << (user % 64)) - 1);
        self.before[word] + below.count_ones() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_numbers_in_order() {
        let mut numbers = UserNumbers::default();
        let given = [70, 3, 64, 3, 0, 1_000, 127, 128];
        for user in given {
            numbers.insert(user);
        }
        let rows = numbers.into_rows();
        let sorted = std::collections::BTreeSet::from(given);
        assert_eq!(rows.n_rows(), sorted.len());
        for (row, user) in sorted.into_iter().enumerate() {
            assert_eq!(rows.of(user as usize), row);
            assert_eq!(rows.numbers().nth(row), Some(user));
        }
        assert!(!rows.are_consecutive());
    }

    #[test]
    fn numbers_are_consecutive_where_none_is_missing() {
        for (first, end, missing) in [
            (0, 5, None),
            (60, 200, None),
            (60, 200, Some(130)),
            (0, 0, None),
        ] {
            let mut numbers = UserNumbers::default();
            (first..end)
                .filter(|&n| Some(n) != missing)
                .for_each(|n| numbers.insert(n));
            let rows = numbers.into_rows();
            assert_eq!(rows.are_consecutive(), missing.is_none());
        }
    }

    #[test]
    fn ranges_are_inserted_to_their_end() {
        for end in [0, 1, 63, 64, 65, 200] {
            let mut numbers = UserNumbers::default();
            numbers.insert_below(end);
            numbers.insert(500);
            let rows = numbers.into_rows();
            assert_eq!((rows.n_rows(), rows.of(500)), (end + 1, end));
        }
    }
}
