//! Reads a ledger back: checks the chain and counts what was spent.

use dp_core::DpEvent;

use super::budget::{Account, Budget, BudgetKind};
use super::contents::{Contents, CountedRemains};
use super::ids::is_release_id;
use super::lines::{
    CLOSED_START, Closed, HOLDING_SCHEMA, Header, NAMING_SCHEMA, NIGHT_START, NOTE_START, Night,
    NightRemains, Note, PACED_SCHEMA, Record, Remains, TAKEN_START, Taken, TakenRemains, is_torn,
    read, read_sealed, remains,
};
use super::nights;
use super::summary::LedgerNote;

/// The state after the lines so far.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// Hash of the last line other than the one that closes the ledger.
    pub(super) head: String,
    /// Number of the next record.
    pub(super) next_seq: u64,
    /// What was spent from the budget.
    pub(super) account: Account,
    /// Sum of noise draws.
    pub(super) n_draws: u64,
    /// The ledger in which the spends of this one are continued.
    pub(super) successor: Option<String>,
}

/// The contents of a file.
pub(super) struct Replayed<'a> {
    pub(super) header: Header,
    pub(super) budget: Budget,
    pub(super) chain: Chain,
    pub(super) contents: Contents,
    pub(super) tail: Tail<'a>,
}

/// The number, counted from 1, of a line that this crate cannot have written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine(pub(super) usize);

/// How the file ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail<'a> {
    /// With a newline.
    Clean,
    /// With a complete line that lacks its newline; it is counted.
    NoNewline,
    /// With the beginning of a line; counted if what it charges or hands out can be read.
    Torn(&'a [u8]),
}

impl Chain {
    pub(super) const fn after_header(hash: String, account: Account) -> Self {
        Self {
            head: hash,
            next_seq: 0,
            account,
            n_draws: 0,
            successor: None,
        }
    }

    /// Counts one line and adds its contents to `contents`. Nothing changes if the line does not
    /// continue the chain.
    fn absorb(&mut self, line: &[u8], header: &Header, contents: &mut Contents) -> Option<()> {
        if self.successor.is_some() {
            return None;
        }
        let version = header.schema_version;
        let continues = |previous_hash: &str| (previous_hash == self.head).then_some(());
        if let Some((torn, seal, hash)) = read_sealed(line) {
            continues(&seal.previous_hash)?;
            self.absorb_torn(torn, header, contents);
            self.head = hash;
            return Some(());
        }
        if line.starts_with(TAKEN_START) {
            let (taken, hash): (Taken, String) = read(line)?;
            continues(&taken.previous_hash)?;
            let is_known = version >= HOLDING_SCHEMA;
            let is_timed = taken.time.is_none() || version >= NAMING_SCHEMA;
            (is_known && is_timed && contents.mark_taken(&taken.taken, taken.time)).then_some(())?;
            self.head = hash;
            return Some(());
        }
        if line.starts_with(NIGHT_START) {
            let (night, hash): (Night, String) = read(line)?;
            continues(&night.previous_hash)?;
            (version >= PACED_SCHEMA && contents.replay_night(night)).then_some(())?;
            self.head = hash;
            return Some(());
        }
        if line.starts_with(NOTE_START) {
            let (note, hash): (Note, String) = read(line)?;
            continues(&note.previous_hash)?;
            (version >= NAMING_SCHEMA).then_some(())?;
            contents.notes.push(LedgerNote {
                name: note.note,
                text: note.text,
                time: note.time,
            });
            self.head = hash;
            return Some(());
        }
        if line.starts_with(CLOSED_START) {
            let (closed, _): (Closed, String) = read(line)?;
            continues(&closed.previous_hash)?;
            self.successor = Some(closed.closed); // the last line: the head stays the one that the successor names
            return Some(());
        }
        let (record, hash): (Record, String) = read(line)?;
        continues(&record.previous_hash)?;
        let fits = record.seq == self.next_seq
            && record.data_set == header.data_set
            && (!record.held || version >= HOLDING_SCHEMA)
            && is_named(&record, version)
            && nights::fits(&record, version);
        fits.then_some(())?;
        let recorded = (record.mu_squared, record.rdp);
        let cost = cost_of(&record.event, recorded, &self.account)?;
        let n_draws = record.n_draws;
        contents.add(record, cost, hash.clone()).then_some(())?;
        self.add(cost, n_draws, hash);
        Some(())
    }

    /// Counts what a truncated line charged or handed out, as far as it can be read. The number of
    /// a release is given to the next record.
    fn absorb_torn(&mut self, torn: &[u8], header: &Header, contents: &mut Contents) {
        if let Some(found) = remains::<TakenRemains>(torn) {
            contents.mark_taken(&found.taken, None);
        }
        if let Some(found) = remains::<NightRemains>(torn) {
            contents.replay_torn_night(found);
        }
        let Some(found) = remains::<Remains>(torn) else {
            return;
        };
        if found.seq != self.next_seq || found.data_set != header.data_set {
            return;
        }
        let Ok(recomputed) = self.account.cost(&found.event) else {
            return;
        };
        let cost = found
            .mu_squared
            .or(found.rdp)
            .unwrap_or(recomputed)
            .max(recomputed);
        self.account.count(cost);
        self.n_draws = self.n_draws.saturating_add(found.n_draws);
        contents.remains.push(CountedRemains {
            event: found.event,
            n_draws: found.n_draws,
            cost,
        });
    }

    /// Counts one release.
    pub(super) fn add(&mut self, cost: f64, n_draws: u64, hash: String) {
        self.account.count(cost);
        self.n_draws = self.n_draws.saturating_add(n_draws);
        self.next_seq += 1;
        self.head = hash;
    }
}

/// Whether a record has the ids and times of its version, and no others.
fn is_named(record: &Record, version: u32) -> bool {
    if version >= NAMING_SCHEMA {
        return record.id.as_deref().is_some_and(is_release_id);
    }
    record.id.is_none() && record.time.is_none() && record.run.is_none() && record.paid_by.is_none()
}

/// The larger of the recorded and the recomputed cost. The cost must be recorded in the measure of
/// the budget only.
fn cost_of(
    event: &DpEvent,
    recorded: (Option<f64>, Option<f64>),
    account: &Account,
) -> Option<f64> {
    let recomputed = account.cost(event).ok()?;
    match (account, recorded.0, recorded.1) {
        (Account::Gaussian(_), Some(cost), None) | (Account::Rdp(_), None, Some(cost)) => {
            Some(recomputed.max(cost))
        }
        (Account::Schedule { .. }, None, None) => Some(recomputed),
        _ => None,
    }
}

/// The budget that a header names. Version 1 supports one kind and does not name it.
fn budget_of(header: &Header) -> Option<Budget> {
    let kind = match (header.schema_version, header.filter) {
        (1, None) => BudgetKind::Gaussian,
        (0, _) | (1, Some(_)) | (_, None) => return None,
        (_, Some(kind)) => kind,
    };
    let target = dp_core::ApproxDp {
        epsilon: header.epsilon,
        delta: header.delta,
    };
    let follows = header.carried_delta != 0.0 || !header.follows.is_empty();
    if follows && header.schema_version < NAMING_SCHEMA {
        return None;
    }
    let budget = Budget::of_kind(target, header.adjacency, kind).ok()?;
    budget.carrying(header.carried_delta).ok()
}

/// Reads a whole file.
pub(super) fn replay(bytes: &[u8]) -> Result<Replayed<'_>, BadLine> {
    let end = bytes
        .iter()
        .rposition(|&byte| byte == b'\n')
        .ok_or(BadLine(1))?;
    let (whole, tail) = (&bytes[..end], &bytes[end + 1..]);
    let mut lines = whole.split(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let (header, hash): (Header, String) = read(first).ok_or(BadLine(1))?;
    let budget = budget_of(&header).ok_or(BadLine(1))?;
    let account = Account::new(&budget).map_err(|_| BadLine(1))?;
    let mut chain = Chain::after_header(hash, account);
    let mut contents = Contents::default();
    let mut n_lines = 1;
    for line in lines {
        n_lines += 1;
        chain
            .absorb(line, &header, &mut contents)
            .ok_or(BadLine(n_lines))?;
    }
    let ending = if tail.is_empty() {
        Tail::Clean
    } else if chain.absorb(tail, &header, &mut contents).is_some() {
        Tail::NoNewline
    } else if is_torn(tail) {
        chain.absorb_torn(tail, &header, &mut contents);
        Tail::Torn(tail)
    } else {
        return Err(BadLine(n_lines + 1));
    };
    Ok(Replayed {
        header,
        budget,
        chain,
        contents,
        tail: ending,
    })
}

#[cfg(test)]
mod tests {
    use super::super::lines::{LEDGER_NAME, close, seal};
    use crate::Measure;
    use crate::books::ledger::LedgerSummary;

    /// A header and records with bodies given as JSON, chained and hashed correctly.
    fn chained(header: &str, records: &[String]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut previous: Option<String> = None;
        for body in std::iter::once(header).chain(records.iter().map(String::as_str)) {
            let mut body = body.to_owned();
            if let Some(hash) = &previous {
                body.pop();
                body.push_str(&format!(",\"previous_hash\":\"{hash}\"}}"));
            }
            body.pop();
            let hash = crate::books::ledger::sha256_hex(body.as_bytes());
            bytes.extend(format!("{body},\"hash\":\"{hash}\"}}\n").into_bytes());
            previous = Some(hash);
        }
        bytes
    }

    /// The hash of the last line, which is its release id.
    fn last_hash(bytes: &[u8]) -> String {
        let text = std::str::from_utf8(bytes).unwrap().trim_end();
        text[text.len() - 66..text.len() - 2].to_owned()
    }

    fn header(version: u32, filter: &str) -> String {
        format!(
            "{{\"ledger\":\"{LEDGER_NAME}\",\"schema_version\":{version},\"data_set\":\"d\",\
             \"adjacency\":\"add-remove-user\",\"epsilon\":1.0,\"delta\":0.00001{filter},\"created\":7}}"
        )
    }

    fn record(seq: usize, cost: &str) -> String {
        format!(
            "{{\"seq\":{seq},\"data_set\":\"d\",\"label\":\"r\",\"event\":{{\"mechanism\":\"gaussian\",\
             \"noise_multiplier\":100.0,\"replace_factor\":\"two\"}},\"n_draws\":3{cost}}}"
        )
    }

    const GAUSSIAN: &str = ",\"filter\":{\"kind\":\"gaussian\"}";
    const RDP: &str = ",\"filter\":{\"kind\":\"rdp\",\"order\":16.0}";
    const SCHEDULE: &str = ",\"filter\":{\"kind\":\"schedule\"}";

    #[test]
    fn a_cost_must_be_in_the_measure_of_the_budget() {
        let (mu, rdp) = (",\"mu_squared\":1e-4", ",\"rdp\":1e-4");
        let read = |version, filter: &str, cost: &str| {
            LedgerSummary::from_bytes(&chained(&header(version, filter), &[record(0, cost)]))
        };
        for (version, filter, cost, measure) in [
            (1, "", mu, Measure::MuSquared),
            (2, GAUSSIAN, mu, Measure::MuSquared),
            (3, GAUSSIAN, mu, Measure::MuSquared),
            (2, RDP, rdp, Measure::Rdp),
            (2, SCHEDULE, "", Measure::Epsilon),
        ] {
            assert_eq!(
                read(version, filter, cost).unwrap().balance.measure,
                measure
            );
            for other in [mu, rdp, "", ",\"mu_squared\":0.1,\"rdp\":0.1"] {
                assert_eq!(
                    read(version, filter, other).is_ok(),
                    other == cost,
                    "{filter} {other}"
                );
            }
        }
        for (version, filter) in [
            (0, ""),
            (0, GAUSSIAN),
            (1, GAUSSIAN),
            (2, ""),
            (6, GAUSSIAN),
        ] {
            assert!(read(version, filter, mu).is_err(), "{version} {filter}");
        }
    }

    #[test]
    fn held_and_taken_are_words_of_version_3() {
        let held = |version, word: &str| {
            let cost = format!(",\"mu_squared\":1e-4{word}");
            let bytes = chained(&header(version, GAUSSIAN), &[record(0, &cost)]);
            let id = last_hash(&bytes);
            let bytes = chained(
                &header(version, GAUSSIAN),
                &[record(0, &cost), format!("{{\"taken\":\"{id}\"}}")],
            );
            let without = chained(&header(version, GAUSSIAN), &[record(0, &cost)]);
            (
                LedgerSummary::from_bytes(&without).map(|summary| summary.held),
                LedgerSummary::from_bytes(&bytes).map(|summary| summary.taken == [id]),
            )
        };
        let (without, taken) = held(3, ",\"held\":true");
        assert!(without.unwrap().len() == 1 && taken.unwrap());
        // a release that was handed out when it was reserved cannot be taken
        let (without, taken) = held(3, "");
        assert!(without.unwrap().is_empty() && taken.is_err());
        let (without, taken) = held(2, ",\"held\":true");
        assert!(without.is_err() && taken.is_err());
        let (without, taken) = held(2, "");
        assert!(without.unwrap().is_empty() && taken.is_err());
    }

    #[test]
    fn names_times_runs_and_notes_are_words_of_version_4() {
        let name = |digit: &str| format!(",\"id\":\"{}\"", digit.repeat(64));
        let with = |word: &str| format!(",\"mu_squared\":1e-4{word}");
        let read = |version, words: [String; 2], more: &[String]| {
            let [first, second] = [0, 1].map(|seq| record(seq, &with(&words[seq])));
            let lines = [&[first, second], more].concat();
            LedgerSummary::from_bytes(&chained(&header(version, GAUSSIAN), &lines))
        };
        let none = || [String::new(), String::new()];
        let named = || [name("a"), name("b")];
        let found = read(4, named(), &[]).unwrap();
        assert_eq!(found.releases[1].release_id, "b".repeat(64));
        for version in [2, 3] {
            assert!(read(version, none(), &[]).is_ok() && read(version, named(), &[]).is_err());
        }
        // each release has its own id
        for bad in [
            none(),
            [name("a"), name("a")],
            [name("a"), name("B")],
            [name("a"), ",\"id\":\"b\"".to_owned()],
        ] {
            assert!(read(4, bad, &[]).is_err());
        }
        for word in [",\"time\":7", ",\"run\":\"r\"", ",\"paid_by\":\"00\""] {
            let told = [name("a") + word, name("b")];
            assert!(read(4, told, &[]).is_ok(), "{word}");
            assert!(
                read(3, [word.to_owned(), String::new()], &[]).is_err(),
                "{word}"
            );
        }
        let note = ["{\"note\":\"n\",\"text\":\"t\",\"time\":7}".to_owned()];
        assert_eq!(read(4, named(), &note).unwrap().notes[0].text, "t");
        assert!(read(3, none(), &note).is_err());
        // nothing follows the line that closes a ledger, in any version
        let closed = "{\"closed\":\"next\",\"time\":7}".to_owned();
        let found = read(2, none(), std::slice::from_ref(&closed)).unwrap();
        assert_eq!(found.successor.as_deref(), Some("next"));
        assert!(read(4, named(), &[closed, note[0].clone()]).is_err());
        // only a ledger of version 4 has predecessors
        let follows = |version| {
            let filter = format!("{GAUSSIAN},\"carried_delta\":0.000005,\"follows\":[]");
            let bytes = chained(&header(version, &filter), &[]);
            LedgerSummary::from_bytes(&bytes).map(|found| found.budget.carried_delta())
        };
        assert!(follows(4).is_ok_and(|delta| delta > 4e-6) && follows(3).is_err());
    }

    #[test]
    fn a_recorded_cost_counts_only_where_it_is_the_larger() {
        let spent = |cost: &str| {
            let cost = format!(",\"mu_squared\":{cost}");
            let bytes = chained(&header(2, GAUSSIAN), &[record(0, &cost)]);
            LedgerSummary::from_bytes(&bytes).unwrap().balance.spent
        };
        for (cost, expected) in [
            ("0.01", 0.01),
            ("1e-9", 1e-4),
            ("-5.0", 1e-4),
            ("0.0001", 1e-4),
        ] {
            assert!((spent(cost) / expected - 1.0).abs() < 1e-12, "{cost}");
        }
    }

    #[test]
    fn remains_that_tell_their_cost_are_counted_before_and_after_they_are_sealed() {
        let body = record(1, ",\"mu_squared\":0.0004");
        let torn = body[..body.len() - 1].to_owned() + ",\"previous_hash\":\"00";
        let whole = chained(&header(2, GAUSSIAN), &[record(0, ",\"mu_squared\":1e-4")]);
        let spent = |bytes: &[u8]| LedgerSummary::from_bytes(bytes).unwrap().balance.spent;
        let head = last_hash(&whole);
        let after_draws = body.find(",\"mu_squared").unwrap() + 1;
        for (cut, expected) in [
            (after_draws - 1, 1e-4),
            (after_draws, 2e-4), // recomputed from the event
            (torn.len(), 5e-4),  // the recorded cost is the larger
        ] {
            let bytes = [&whole, &torn.as_bytes()[..cut]].concat();
            assert!((spent(&bytes) / expected - 1.0).abs() < 1e-12, "{cut}");
            let (mend, _) = seal(&torn.as_bytes()[..cut], &head);
            let sealed = [&bytes[..], &mend].concat();
            assert!((spent(&sealed) / expected - 1.0).abs() < 1e-12, "{cut}");
        }
    }

    /// Replaces bytes at a pseudo-random position and recomputes the hash chain, so that the reader
    /// has to detect what is wrong with the contents.
    #[test]
    fn rehashed_mutations_are_errors_and_never_panics() {
        const SNIPPETS: [&str; 14] = [
            "null",
            "-1",
            "0",
            "1e999",
            "1e308",
            "5e-324",
            "18446744073709551615",
            "\"x\"",
            "{}",
            "[]",
            "1.5",
            "\u{1e}",
            "\"rdp\"",
            "{\"mechanism\":\"non-private\"}",
        ];
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut below = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from((state >> 16) % n as u64).unwrap()
        };
        let kinds = [
            (1, "", ",\"mu_squared\":1e-4"),
            (2, GAUSSIAN, ",\"mu_squared\":1e-4"),
            (2, RDP, ",\"rdp\":1e-4"),
            (2, SCHEDULE, ""),
            (3, GAUSSIAN, ",\"mu_squared\":1e-4,\"held\":true"),
        ];
        let mut n_read = 0;
        for round in 0..24_000 {
            let (version, filter, cost) = kinds[round % kinds.len()];
            let mut bodies = [header(version, filter), record(0, cost), record(1, cost)];
            let which = below(bodies.len());
            let body = &mut bodies[which];
            // a whole token, or any range of bytes
            let start = below(body.len());
            let token = |b: u8| b != b',' && b != b':' && b != b'}';
            let length = match below(2) {
                0 => body.as_bytes()[start..]
                    .iter()
                    .take_while(|b| token(**b))
                    .count(),
                _ => below(9).min(body.len() - start),
            };
            body.replace_range(start..start + length, SNIPPETS[below(SNIPPETS.len())]);
            if body.len() < 2 {
                continue;
            }
            let mut bytes = chained(&bodies[0], &bodies[1..]);
            if below(3) == 0 {
                bytes.truncate(below(bytes.len() + 1));
            }
            n_read += usize::from(LedgerSummary::from_bytes(&bytes).is_ok());
        }
        assert!(
            n_read > 500,
            "hardly anything was read, so little was tried: {n_read}"
        );
    }

    #[test]
    fn random_bytes_and_seals_are_errors() {
        let whole = chained(&header(2, GAUSSIAN), &[record(0, ",\"mu_squared\":1e-4")]);
        let (seal_line, _) = seal(b"{\"torn", "not the hash before it");
        for tail in [
            &seal_line[..],
            b"\x1e\x1e\x1e\n",
            b"\n",
            b"\n\n",
            b"{\"a\":1}\n",
        ] {
            let bytes = [&whole[..], tail].concat();
            assert!(LedgerSummary::from_bytes(&bytes).is_err(), "{tail:?}");
        }
        let (line, _) = close(&serde_json::json!({"ledger": "dp-personal"}));
        assert!(LedgerSummary::from_bytes(line.as_bytes()).is_err());
    }
}
