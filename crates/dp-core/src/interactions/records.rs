//! Records on their way into a table, kept so that building takes little more than they do.

use super::user_numbers::{NUMBERS_OF_A_BLOCK, Rows};

/// One record: user number, item, value.
type Record = (u32, u32, f32);

/// Records in the order given, by blocks of user numbers: 12 bytes each. A block is sorted by itself
/// and given back before the next, so the sorted copy of the whole never stands beside the
/// whole.
#[derive(Default)]
pub(super) struct Records {
    blocks: Vec<Chunks>,
    len: usize,
}

/// Chunks of at most [`LARGEST_CHUNK`] records; nothing is moved when there are more.
type Chunks = Vec<Vec<Record>>;

const SMALLEST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1 << 12;

impl Records {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, user: u32, item: u32, value: f32) {
        let block = user as usize / NUMBERS_OF_A_BLOCK;
        if block >= self.blocks.len() {
            self.blocks.resize_with(block + 1, Vec::new);
        }
        self.len += 1;
        let chunks = &mut self.blocks[block];
        if let Some(chunk) = chunks.last_mut()
            && chunk.len() < chunk.capacity()
        {
            chunk.push((user, item, value));
            return;
        }
        let before = chunks.last().map_or(0, Vec::capacity);
        let capacity = (2 * before).clamp(SMALLEST_CHUNK, LARGEST_CHUNK);
        let mut chunk = Vec::with_capacity(capacity);
        chunk.push((user, item, value));
        chunks.push(chunk);
    }

    /// Shows each row's records, rows in order, a user's records in the order given; rows without
    /// any too.
    pub(super) fn for_each_row(self, rows: &Rows, mut each: impl FnMut(&mut [(u32, f32)])) {
        let mut blocks = self.blocks.into_iter();
        for block in 0..rows.n_blocks() {
            let chunks = blocks.next().unwrap_or_default();
            let own = rows.of_block(block);
            let (starts, mut sorted) = by_row(&chunks, rows, own);
            drop(chunks);
            for range in starts.windows(2) {
                each(&mut sorted[range[0]..range[1]]);
            }
        }
    }
}

/// Counting sort by row.
fn by_row(
    chunks: &Chunks,
    rows: &Rows,
    own: std::ops::Range<usize>,
) -> (Vec<usize>, Vec<(u32, f32)>) {
    let mut starts = vec![0; own.len() + 1];
    for &(user, ..) in chunks.iter().flatten() {
        starts[rows.of(user) - own.start + 1] += 1;
    }
    for row in 0..own.len() {
        starts[row + 1] += starts[row];
    }
    let mut next = starts.clone();
    let mut sorted = vec![(0, 0.0); starts[own.len()]];
    for &(user, item, value) in chunks.iter().flatten() {
        let slot = &mut next[rows.of(user) - own.start];
        sorted[*slot] = (item, value);
        *slot += 1;
    }
    (starts, sorted)
}
