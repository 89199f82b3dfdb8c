//! Reading a ledger back: check the chain, count what was spent.

use dp_core::Adjacency;

use super::lines::{Header, Record, is_torn, read, read_sealed};
use crate::gdp::mu_squared;
use crate::rounding::UpwardSum;

/// The state that the lines so far add up to.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// Hash of the last line.
    pub(super) head: String,
    /// Number of the next record.
    pub(super) next_seq: u64,
    /// Sum of mu^2.
    pub(super) spent: UpwardSum,
    /// Sum of noise draws.
    pub(super) n_draws: u64,
}

/// A line, counted from 1, that cannot be what this crate wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) usize);

/// How the file ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail<'a> {
    /// With a newline.
    Clean,
    /// With a whole record that lacks its newline; it is counted.
    NoNewline,
    /// With the beginning of a line. Its write never returned, so nothing was handed out for it.
    Torn(&'a [u8]),
}

impl Chain {
    pub(super) const fn after_header(hash: String) -> Self {
        Self {
            head: hash,
            next_seq: 0,
            spent: UpwardSum::EMPTY,
            n_draws: 0,
        }
    }

    /// Counts one line. Nothing changes when it does not continue the chain.
    fn absorb(&mut self, line: &[u8], header: &Header) -> Option<()> {
        if let Some((seal, hash)) = read_sealed(line) {
            (seal.previous_hash == self.head).then_some(())?;
            self.head = hash;
            return Some(());
        }
        let (record, hash): (Record, String) = read(line)?;
        let continues = record.previous_hash == self.head
            && record.seq == self.next_seq
            && record.data_set == header.data_set;
        continues.then_some(())?;
        let cost = cost_of(&record, header.adjacency)?;
        self.add(cost, record.n_draws, hash);
        Some(())
    }

    /// Counts one release.
    pub(super) fn add(&mut self, mu_squared: f64, n_draws: u64, hash: String) {
        self.spent = self.spent.plus(mu_squared);
        self.n_draws = self.n_draws.saturating_add(n_draws);
        self.next_seq += 1;
        self.head = hash;
    }
}

/// The larger of the recorded and the recomputed cost.
fn cost_of(record: &Record, adjacency: Adjacency) -> Option<f64> {
    let recomputed = mu_squared(&record.event, adjacency).ok()?;
    Some(recomputed.max(record.mu_squared))
}

/// Reads a whole file that has at least one newline.
pub(super) fn replay(bytes: &[u8]) -> Result<(Header, Chain, Tail<'_>), BadLine> {
    let end = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .ok_or(BadLine(1))?;
    let (whole, tail) = (&bytes[..end], &bytes[end + 1..]);
    let mut lines = whole.split(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let (header, hash): (Header, String) = read(first).ok_or(BadLine(1))?;
    let mut chain = Chain::after_header(hash);
    let mut n_lines = 1;
    for line in lines {
        n_lines += 1;
        chain.absorb(line, &header).ok_or(BadLine(n_lines))?;
    }
    let ending = if tail.is_empty() {
        Tail::Clean
    } else if chain.absorb(tail, &header).is_some() {
        Tail::NoNewline
    } else if is_torn(tail) {
        Tail::Torn(tail)
    } else {
        return Err(BadLine(n_lines + 1));
    };
    Ok((header, chain, ending))
}
