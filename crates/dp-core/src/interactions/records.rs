//! Records on their way into a table, kept so that building takes little more than they do.

use super::user_numbers::{NUMBERS_OF_A_BLOCK, Rows};

/// Records in the order given, by blocks of user numbers: 8 bytes each, and 4 for every run of
/// records of one user. A block is sorted by itself and given back before the next, so the sorted
/// copy of the whole never stands beside the whole.
#[derive(Default)]
pub(super) struct Records {
    blocks: Vec<Vec<Chunk>>,
    len: usize,
}

/// At most [`LARGEST_CHUNK`] records; nothing is moved when there are more.
#[derive(Default)]
struct Chunk {
    /// Item and value.
    records: Vec<(u32, f32)>,
    /// Number within the block and how many records of that user follow.
    runs: Vec<(u16, u16)>,
}

const SMALLEST_CHUNK: usize = 16;
const LARGEST_CHUNK: usize = 1 << 12;

impl Chunk {
    fn push(&mut self, number: u16, item: u32, value: f32) {
        match self.runs.last_mut() {
            Some((last, n)) if *last == number => *n += 1, // a chunk has far fewer than 2^16
            _ => self.runs.push((number, 1)),
        }
        self.records.push((item, value));
    }

    /// Number within the block and the records of each run.
    fn runs(&self) -> impl Iterator<Item = (usize, &[(u32, f32)])> {
        let mut start = 0;
        self.runs.iter().map(move |&(number, n)| {
            let own = start..start + usize::from(n);
            start = own.end;
            (usize::from(number), &self.records[own])
        })
    }
}

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
        #[allow(clippy::cast_possible_truncation, reason = "a block has 2^12 numbers")]
        let number = (user as usize % NUMBERS_OF_A_BLOCK) as u16;
        let chunks = &mut self.blocks[block];
        if let Some(chunk) = chunks.last_mut()
            && chunk.records.len() < chunk.records.capacity().min(LARGEST_CHUNK)
        {
            return chunk.push(number, item, value);
        }
        let before = chunks.last().map_or(0, |chunk| chunk.records.len());
        let mut chunk = Chunk::default();
        let capacity = (2 * before).clamp(SMALLEST_CHUNK, LARGEST_CHUNK);
        chunk.records.reserve_exact(capacity);
        chunk.push(number, item, value);
        chunks.push(chunk);
    }

    /// Shows each row's records, rows in order, a user's records in the order given; rows without
    /// any too.
    pub(super) fn for_each_row(self, rows: &Rows, mut each: impl FnMut(&mut [(u32, f32)])) {
        let mut blocks = self.blocks.into_iter();
        for block in 0..rows.n_blocks() {
            let chunks = blocks.next().unwrap_or_default();
            let (starts, mut sorted) = by_row(&chunks, rows, block);
            drop(chunks);
            for range in starts.windows(2) {
                each(&mut sorted[range[0]..range[1]]);
            }
        }
    }
}

/// Counting sort of a block by row.
fn by_row(chunks: &[Chunk], rows: &Rows, block: usize) -> (Vec<usize>, Vec<(u32, f32)>) {
    let own = rows.of_block(block);
    let row_of = |number: usize| rows.of(block * NUMBERS_OF_A_BLOCK + number) - own.start;
    let mut starts = vec![0; own.len() + 1];
    for (number, run) in chunks.iter().flat_map(Chunk::runs) {
        starts[row_of(number) + 1] += run.len();
    }
    for row in 0..own.len() {
        starts[row + 1] += starts[row];
    }
    let mut next = starts.clone();
    let mut sorted = vec![(0, 0.0); starts[own.len()]];
    for (number, run) in chunks.iter().flat_map(Chunk::runs) {
        let slot = &mut next[row_of(number)];
        sorted[*slot..*slot + run.len()].copy_from_slice(run);
        *slot += run.len();
    }
    (starts, sorted)
}
