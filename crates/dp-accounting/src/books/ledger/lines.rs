//! The lines of a ledger file and the hash that ends each of them.
//!
//! Every line is one JSON object whose last member is `"hash":"<SHA-256 of the line's bytes up to
//! this member>"`. Every line except the first also contains the previous line's hash, so a change
//! anywhere breaks the chain from that line on.

use dp_core::{Adjacency, DpEvent};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::budget::BudgetKind;
use crate::Pace;

/// Version of the line format in the header of new ledgers. Older files are read and continued in
/// their own format: version 1 supports Gaussian budgets only, version 2 cannot hold releases; up
/// to version 3 the id of a release is the hash of its line, lines have no time, and there are no
/// notes; up to version 4 there are no paced lifetimes.
pub const LEDGER_SCHEMA: u32 = 5;

/// First version whose records may be paced lifetimes and which has [`Night`] lines.
pub(super) const PACED_SCHEMA: u32 = 5;

/// First version whose releases have their own ids, whose lines have a time, and which has [`Note`]
/// lines.
pub(super) const NAMING_SCHEMA: u32 = 4;

/// First version whose records may be held and which has [`Taken`] lines.
pub(super) const HOLDING_SCHEMA: u32 = 3;

/// The beginning of every header. It distinguishes a half-written ledger from an unrelated file.
const HEADER_START: &[u8] = br#"{"ledger":"dp-personal","schema_version":"#;
pub(super) const LEDGER_NAME: &str = "dp-personal";

/// The beginning of every [`Taken`] line, and of no other.
pub(super) const TAKEN_START: &[u8] = br#"{"taken":"#;

/// The beginning of every [`Note`] line, and of no other.
pub(super) const NOTE_START: &[u8] = br#"{"note":"#;

/// The beginning of every [`Night`] line, and of no other.
pub(super) const NIGHT_START: &[u8] = br#"{"night":"#;

/// The beginning of every [`Closed`] line, and of no other.
pub(super) const CLOSED_START: &[u8] = br#"{"closed":"#;

/// Separates torn bytes from the seal on their line. JSON text never contains this byte.
const SEAL_MARK: u8 = 0x1e;

/// The first line: the budget and what it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) ledger: String,
    pub(super) schema_version: u32,
    pub(super) data_set: String,
    pub(super) adjacency: Adjacency,
    pub(super) epsilon: f64,
    pub(super) delta: f64,
    /// Absent in version 1, where every budget is Gaussian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<BudgetKind>,
    /// The part of delta that covers what was released under this ledger's predecessors. Since
    /// version 4.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) carried_delta: f64,
    /// The predecessors of this ledger. Since version 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) follows: Vec<Followed>,
    /// Nanoseconds since 1970. Up to version 3 it makes release ids of different files distinct.
    pub(super) created: u64,
}

impl Header {
    /// When the first of the ledgers that this one continues was created, as far as it is known.
    pub(super) fn since(&self) -> u64 {
        let earlier = self.follows.iter().map(|of| of.created);
        earlier.fold(self.created, u64::min)
    }
}

/// A ledger whose spends are continued in this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Followed {
    pub(super) schema_version: u32,
    pub(super) epsilon: f64,
    pub(super) delta: f64,
    pub(super) filter: BudgetKind,
    pub(super) created: u64,
    pub(super) n_releases: u64,
    /// Hash of its last line.
    pub(super) head: String,
}

/// One release that was charged to the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) seq: u64,
    /// Random id of the release. Since version 4; before, the id is the line's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Nanoseconds since 1970. Since version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<u64>,
    pub(super) data_set: String,
    pub(super) label: String,
    pub(super) event: DpEvent,
    pub(super) n_draws: u64,
    /// Cost in a ledger with a Gaussian budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mu_squared: Option<f64>,
    /// Cost in a ledger with a Renyi budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rdp: Option<f64>,
    /// The release was charged and not handed out: that requires a [`Taken`] line first. Since
    /// version 3.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) held: bool,
    /// Terms of a paced lifetime, which stays held: [`Night`] lines hand out its nights. Since
    /// version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paced: Option<PacedTerms>,
    /// The run that the release belongs to. Since version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<String>,
    /// Hash of the line of an older ledger that recorded the release first. Since version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paid_by: Option<String>,
    pub(super) previous_hash: String,
}

/// The terms under which a paced lifetime was reserved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PacedTerms {
    pub(super) pace: Pace,
    /// MAC of the store of first nights when the lifetime began.
    pub(super) first_seen: String,
}

/// Hands out a night of a paced lifetime, or records that its store of first nights has changed.
/// Since version 5.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Night {
    /// The lifetime's release id.
    pub(super) night: String,
    /// Absent if only the store has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<u32>,
    /// MAC of the store from this line on. Absent only if a rewritten file continues after an
    /// interrupted line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_seen: Option<String>,
    pub(super) n_draws: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<u64>,
    pub(super) previous_hash: String,
}

/// Hands out a held release, named by its id. Since version 3.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) taken: String,
    /// Nanoseconds since 1970. Since version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<u64>,
    pub(super) previous_hash: String,
}

/// Records a text about the data set or its runs, at no cost. Since version 4.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) note: String,
    pub(super) text: String,
    pub(super) time: u64,
    pub(super) previous_hash: String,
}

/// Records that the spends of this ledger are continued in another one, and that this one accepts
/// no more charges. The last line of a file of any version.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Closed {
    /// Name of the other ledger's file.
    pub(super) closed: String,
    pub(super) time: u64,
    pub(super) previous_hash: String,
}

/// Records that the bytes before it on its line are the remains of an interrupted write.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Seal {
    sealed_bytes: usize,
    sealed_sha256: String,
    pub(super) previous_hash: String,
}

/// SHA-256 in lowercase hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in lowercase hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Returns the line for `body`, including the newline, and its hash.
///
/// # Panics
/// Never: JSON can represent everything in the bodies above.
pub(super) fn close<T: Serialize>(body: &T) -> (String, String) {
    let mut line = serde_json::to_string(body).expect("ledger lines are plain JSON");
    line.pop();
    let hash = sha256_hex(line.as_bytes());
    line.push_str(&hash_member(&hash));
    line.push('\n');
    (line, hash)
}

/// Reads a line without its newline. Returns the body and the hash, or `None` if either is wrong.
pub(super) fn read<T: DeserializeOwned>(line: &[u8]) -> Option<(T, String)> {
    const MEMBER_LEN: usize = r#","hash":""}"#.len() + 64;
    let (body, member) = line.split_at_checked(line.len().checked_sub(MEMBER_LEN)?)?;
    let hash = sha256_hex(body);
    if member != hash_member(&hash).as_bytes() {
        return None;
    }
    Some((parsed(line)?, hash))
}

/// Through text as everything else here: JSON read from bytes would be further code for every type.
fn parsed<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_str(std::str::from_utf8(line).ok()?).ok()
}

fn hash_member(hash: &str) -> String {
    format!(r#","hash":"{hash}"}}"#)
}

/// What must follow `torn` bytes on their line so that the chain can continue, and its hash.
pub(super) fn seal(torn: &[u8], previous_hash: &str) -> (Vec<u8>, String) {
    let (line, hash) = close(&Seal {
        sealed_bytes: torn.len(),
        sealed_sha256: sha256_hex(torn),
        previous_hash: previous_hash.to_owned(),
    });
    let mut bytes = vec![SEAL_MARK];
    bytes.extend(line.into_bytes());
    (bytes, hash)
}

/// Reads a sealed line: the torn bytes, the seal and its hash; `None` if the line is not an intact
/// sealed line.
pub(super) fn read_sealed(line: &[u8]) -> Option<(&[u8], Seal, String)> {
    let mark = line.iter().rposition(|&byte| byte == SEAL_MARK)?;
    let (torn, marked) = line.split_at(mark);
    let (seal, hash): (Seal, String) = read(&marked[1..])?;
    let matches = seal.sealed_bytes == torn.len() && seal.sealed_sha256 == sha256_hex(torn);
    matches.then_some((torn, seal, hash))
}

/// The part of torn bytes that precedes a seal which was itself interrupted.
pub(super) fn before_seal(torn: &[u8]) -> &[u8] {
    torn.split(|&byte| byte == SEAL_MARK).next().unwrap_or(torn)
}

/// Whether a last line without newline can be the result of an interrupted write: a JSON object
/// that is never closed, perhaps followed by an interrupted seal. A complete object followed by
/// anything is not: its spend may have been handed out.
pub(super) fn is_torn(tail: &[u8]) -> bool {
    let start = before_seal(tail);
    start.starts_with(b"{") && object_end(start).is_none()
}

/// The position after the last brace that closes the outermost object in `text`, ignoring braces
/// inside strings; `None` if it is not closed.
fn object_end(text: &[u8]) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Whether a file contains at most an incomplete header: it is empty, or has a header without
/// newline, complete or in part. Nothing can have been handed out from such a file. A header
/// followed by anything but a newline is a damaged ledger.
pub(super) fn is_unborn(bytes: &[u8]) -> bool {
    let begun = HEADER_START.starts_with(bytes) || bytes.starts_with(HEADER_START);
    let end = object_end(bytes).unwrap_or(bytes.len());
    begun && !bytes.contains(&b'\n') && end == bytes.len()
}

/// The members of a record that are needed to compute its cost. The rest of the line may be
/// missing.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Remains {
    pub(super) seq: u64,
    pub(super) data_set: String,
    pub(super) event: DpEvent,
    pub(super) n_draws: u64,
    #[serde(default)]
    pub(super) mu_squared: Option<f64>,
    #[serde(default)]
    pub(super) rdp: Option<f64>,
}

/// The member of a [`Taken`] line that names what it hands out.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct TakenRemains {
    pub(super) taken: String,
}

/// The members of a [`Night`] line that name what it hands out.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct NightRemains {
    pub(super) night: String,
    #[serde(default)]
    pub(super) number: Option<u32>,
    #[serde(default)]
    pub(super) first_seen: Option<String>,
    #[serde(default)]
    pub(super) n_draws: u64,
}

/// Reads the complete members of a truncated line; `None` if they do not form a `T`.
///
/// The truncated member is left out, because a shortened number would read as another number.
pub(super) fn remains<T: DeserializeOwned>(torn: &[u8]) -> Option<T> {
    let line = before_seal(torn);
    member_ends(line).into_iter().rev().find_map(|end| {
        let mut closed = line.get(..end)?.to_vec();
        closed.push(b'}');
        // a damaged byte in a member that is not read must not lose what was spent
        serde_json::from_str(&String::from_utf8_lossy(&closed)).ok()
    })
}

/// Positions of the commas between the members of the outermost object.
fn member_ends(line: &[u8]) -> Vec<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut ends = Vec::new();
    for (at, &byte) in line.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            b',' if !in_string && depth == 1 => ends.push(at),
            _ => {}
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            ledger: LEDGER_NAME.to_owned(),
            schema_version: LEDGER_SCHEMA,
            data_set: "d".to_owned(),
            adjacency: Adjacency::AddRemoveUser,
            epsilon: 0.1 + 0.2,
            delta: 1e-300,
            filter: Some(BudgetKind::Rdp { order: 1.5 }),
            carried_delta: 0.0,
            follows: Vec::new(),
            created: 7,
        }
    }

    #[test]
    fn lines_read_back_exactly() {
        let (line, hash) = close(&header());
        assert!(line.as_bytes().starts_with(HEADER_START));
        let found = read::<Header>(line.trim_end().as_bytes()).unwrap();
        assert_eq!(found, (header(), hash));
    }

    #[test]
    fn sha256_is_the_published_one() {
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), expected);
    }

    #[test]
    fn only_beginnings_of_objects_are_torn() {
        assert!(is_torn(b"{") && is_torn(br#"{"seq":1,"mu_squared":0."#));
        assert!(is_torn(b"{\"a\x1e{\"sealed_by"));
        assert!(!is_torn(br#"{"seq":1}x"#) && !is_torn(b"{\"seq\":1}\x1e") && !is_torn(b"garbage"));
        assert!(is_torn(br#"{"label":"}\"}"#) && !is_torn(br#"{"label":"}\"}"}"#));
    }

    #[test]
    fn only_our_own_first_line_is_unborn() {
        let (line, _) = close(&header());
        for cut in 0..line.len() {
            assert!(is_unborn(&line.as_bytes()[..cut]), "{cut}");
        }
        assert!(!is_unborn(line.as_bytes()));
        assert!(!is_unborn(b"shopping list"));
        // a ledger in which every newline was destroyed
        assert!(!is_unborn(
            format!("{} {{\"seq\":0", line.trim_end()).as_bytes()
        ));
        assert!(!is_unborn(line.replace('\n', "J").as_bytes()));
    }

    const LINE: &str = concat!(
        r#"{"seq":4,"data_set":"a,}\"b","label":"x","event":{"mechanism":"gaussian","#,
        r#""noise_multiplier":100.0,"replace_factor":"two"},"n_draws":3456,"mu_squared":0.25,"#,
        r#""previous_hash":"00ff","hash":"ab"#
    );

    #[test]
    fn a_cost_is_read_as_soon_as_its_members_are_whole() {
        let enough = LINE.find(r#","mu_squared"#).unwrap() + 1;
        for cut in 0..LINE.len() {
            let found: Option<Remains> = remains(&LINE.as_bytes()[..cut]);
            assert_eq!(found.is_some(), cut >= enough, "{cut}");
            let Some(found) = found else { continue };
            assert_eq!((found.seq, found.n_draws), (4, 3456), "{cut}");
            assert_eq!(found.data_set, "a,}\"b");
            assert_eq!(found.event, DpEvent::gaussian(100.0));
            let with_cost = cut > LINE.find(r#","previous"#).unwrap();
            assert_eq!(found.mu_squared, with_cost.then_some(0.25), "{cut}");
        }
    }

    #[test]
    fn a_damaged_byte_in_a_label_does_not_lose_the_cost() {
        let mut torn = LINE.as_bytes().to_vec();
        let label = LINE.find(r#""x""#).unwrap() + 1;
        torn[label] = 0xff;
        let found: Option<Remains> = remains(&torn);
        assert!(found.is_some() && found == remains(LINE.as_bytes()));
    }

    #[test]
    fn a_taken_release_is_read_once_its_id_is_whole() {
        let line = r#"{"taken":"00ff","previous_hash":"ab"#;
        for cut in 0..line.len() {
            let found: Option<TakenRemains> = remains(&line.as_bytes()[..cut]);
            assert_eq!(found.is_some(), cut > line.find(',').unwrap(), "{cut}");
        }
        assert!(remains::<TakenRemains>(LINE.as_bytes()).is_none());
    }

    #[test]
    fn a_seal_begun_after_the_remains_is_not_part_of_them() {
        let sealed = [LINE.as_bytes(), b"\x1e{\"sealed_bytes\":7,\"sealed"].concat();
        let whole: Option<Remains> = remains(LINE.as_bytes());
        assert!(whole.is_some() && remains(&sealed) == whole);
    }
}
