//! Reads the lines of a text in parts, on several threads.
//!
//! A part is parsed without knowledge of what comes before it: ids stay whole numbers of the text or
//! numbers within the part, and whoever collects the parts, in order, numbers them. A part that
//! contains anything but plain records is left to [`Table`](super::table::Table), which reads one
//! line at a time and knows every rule.

use std::collections::HashMap;

use super::format::Columns;
use super::table::{Lines, Separator, parse_number_between};
use crate::Result;
use crate::id_numbers::whole_number;

/// Approximate number of bytes in a part, which ends at a line end.
pub(super) const PART: usize = 1 << 19;
/// The largest number of parts that are parsed at a time.
const MOST_PARTS: usize = 16;

/// An id within a part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PartId(u32);

/// What identifies an id.
#[derive(Clone, Copy)]
pub(super) enum Key<'t> {
    /// The whole number of which it is the only text.
    Whole(u32),
    /// Its position among the other ids of the part, and its text.
    Text(usize, &'t [u8]),
}

/// Set in the numbers of ids that are not short whole numbers.
const TEXT: u32 = 1 << 31;

/// Ids that are not short whole numbers.
#[derive(Default)]
pub(super) struct PartIds {
    texts: Vec<u8>,
    ends: Vec<usize>,
}

impl PartIds {
    /// Number of these ids.
    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn key(&self, id: PartId) -> Key<'_> {
        let Some(at) = id.0.checked_sub(TEXT) else {
            return Key::Whole(id.0);
        };
        let at = at as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Key::Text(at, &self.texts[start..self.ends[at]])
    }
}

/// Numbers the ids of a part.
#[derive(Default)]
struct Numbering<'t> {
    ids: PartIds,
    positions: HashMap<&'t [u8], u32>,
}

impl<'t> Numbering<'t> {
    /// `None` for a new id that is empty or not UTF-8.
    fn of_text(&mut self, id: &'t [u8]) -> Option<PartId> {
        if let Some(whole) = whole_number(id) {
            return u32::try_from(whole).ok().map(PartId);
        }
        if let Some(&position) = self.positions.get(id) {
            return Some(PartId(TEXT + position));
        }
        if id.is_empty() || std::str::from_utf8(id).is_err() {
            return None;
        }
        let position = u32::try_from(self.ids.len()).ok()?;
        self.ids.texts.extend_from_slice(id);
        self.ids.ends.push(self.ids.texts.len());
        self.positions.insert(id, position);
        TEXT.checked_add(position).map(PartId)
    }
}

/// The records of a part, in order. Every line of the part is a record.
#[derive(Default)]
pub(super) struct Part {
    /// The user of each run of records, and the length of the run.
    pub(super) runs: Vec<(PartId, usize)>,
    /// Item and value.
    pub(super) records: Vec<(PartId, f32)>,
    pub(super) users: PartIds,
    pub(super) items: PartIds,
}

impl Part {
    #[inline]
    fn push(&mut self, user: PartId, item: PartId, value: f32) {
        match self.runs.last_mut() {
            Some((last, n)) if *last == user => *n += 1,
            _ => self.runs.push((user, 1)),
        }
        self.records.push((item, value));
    }
}

/// The text of a part and its records. The memory is used again for later parts.
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) text: Vec<u8>,
    pub(super) part: Part,
    /// Whether the part has all records; otherwise the text has to be read line by line.
    pub(super) is_plain: bool,
}

/// Passes the rest of the lines to `each`, in parts of about `size` bytes and in order. Parts are parsed on several threads
/// while this one passes on those before them and reads those after them.
pub(super) fn for_each_part(
    lines: &mut Lines<'_>,
    (format, size): (&LineFormat, usize),
    mut each: impl FnMut(&mut Parsed) -> Result<()>,
) -> Result<()> {
    let n_threads = rayon::current_num_threads();
    let n_parts = match n_threads {
        1 => 1,
        _ => (2 * n_threads).min(MOST_PARTS),
    };
    let empty = || (0..n_parts).map(|_| Parsed::default()).collect();
    let (mut before, mut now): (Vec<Parsed>, Vec<Parsed>) = (empty(), empty());
    let mut n_now = read_parts(lines, size, &mut now);
    let mut n_before = 0;
    while n_before + n_now > 0 {
        let mut n_next = 0;
        rayon::in_place_scope(|scope| {
            match &mut now[..n_now] {
                [one] if n_before == 0 || n_threads == 1 => one.parse(format),
                several => {
                    for one in several {
                        scope.spawn(|_| one.parse(format));
                    }
                }
            }
            before[..n_before].iter_mut().try_for_each(&mut each)?;
            if n_now > 0 {
                n_next = read_parts(lines, size, &mut before);
            }
            Ok::<_, crate::Error>(())
        })?;
        std::mem::swap(&mut before, &mut now);
        (n_before, n_now) = (n_now, n_next);
    }
    lines.check()
}

/// Reads the texts of some parts; returns their number, 0 at the end.
fn read_parts(lines: &mut Lines<'_>, size: usize, parts: &mut [Parsed]) -> usize {
    let mut read = parts.iter_mut();
    let end = read.position(|part| !lines.read_part(size, &mut part.text));
    end.unwrap_or(parts.len())
}

impl Parsed {
    fn parse(&mut self, format: &LineFormat) {
        let part = &mut self.part;
        part.runs.clear();
        part.records.clear();
        self.is_plain = format.parse(&self.text, part).is_some();
    }
}

/// What a column is read for.
#[derive(Debug, Clone, Copy)]
enum Role {
    User,
    Item,
    Value,
    Unused,
}

/// How the lines of a part are read.
#[derive(Debug, Clone)]
pub(super) struct LineFormat {
    separator: Separator,
    /// One per field.
    roles: Vec<Role>,
    has_values: bool,
}

impl LineFormat {
    pub(super) fn new(separator: Separator, n_fields: usize, columns: Columns) -> Self {
        let role = |at| match Some(at) {
            user if user == columns.user => Role::User,
            item if item == Some(columns.item) => Role::Item,
            value if value == columns.rating => Role::Value,
            _ => Role::Unused,
        };
        Self {
            separator,
            roles: (0..n_fields).map(role).collect(),
            has_values: columns.rating.is_some(),
        }
    }

    /// Parses whole lines, each with its line end. `None` if any of them is not a plain record: a
    /// blank line, a doubled quote, or an error.
    fn parse(&self, text: &[u8], part: &mut Part) -> Option<()> {
        match self.separator {
            Separator::Comma => self.parse_with::<Byte<b',', true>>(text, part),
            Separator::Semicolon => self.parse_with::<Byte<b';', true>>(text, part),
            Separator::Tab => self.parse_with::<Byte<b'\t', false>>(text, part),
            Separator::DoubleColon => self.parse_with::<DoubleColon>(text, part),
        }
    }

    fn parse_with<S: Between>(&self, text: &[u8], part: &mut Part) -> Option<()> {
        let (mut users, mut items) = (Numbering::default(), Numbering::default());
        // most records take a dozen bytes or more
        part.records.reserve(text.len() / 12);
        let last = self.roles.len() - 1;
        let mut rest = text;
        while !rest.is_empty() {
            let (mut user, mut item) = (None, None);
            let mut value = (!self.has_values).then_some(1.0);
            for (at, &role) in self.roles.iter().enumerate() {
                let field = Field::first::<S>(rest)?;
                match role {
                    Role::User => user = Some(field.id(&mut users)?),
                    Role::Item => item = Some(field.id(&mut items)?),
                    Role::Value => value = Some(field.number(self.separator)?),
                    Role::Unused => {}
                }
                rest = &rest[field.end..];
                rest = if at < last {
                    S::skip(rest)?
                } else {
                    rest.strip_prefix(b"\r")
                        .unwrap_or(rest)
                        .strip_prefix(b"\n")?
                };
            }
            part.push(user?, item?, value?);
        }
        (part.users, part.items) = (users.ids, items.ids);
        Some(())
    }
}

/// The text between two fields.
trait Between {
    /// Whether fields may be quoted.
    const QUOTES: bool;

    /// Whether a field ends before this text, which begins with any byte.
    fn starts(text: &[u8]) -> bool;

    /// The text after the separator, which must come first.
    fn skip(text: &[u8]) -> Option<&[u8]>;
}

/// One byte, and whether fields may be quoted.
struct Byte<const BYTE: u8, const QUOTES: bool>;

impl<const BYTE: u8, const QUOTED: bool> Between for Byte<BYTE, QUOTED> {
    const QUOTES: bool = QUOTED;

    fn starts(text: &[u8]) -> bool {
        text.first() == Some(&BYTE)
    }

    fn skip(text: &[u8]) -> Option<&[u8]> {
        text.split_first()
            .and_then(|(&first, after)| (first == BYTE).then_some(after))
    }
}

/// Two colons.
struct DoubleColon;

impl Between for DoubleColon {
    const QUOTES: bool = false;

    fn starts(text: &[u8]) -> bool {
        text.starts_with(b"::")
    }

    fn skip(text: &[u8]) -> Option<&[u8]> {
        text.strip_prefix(b"::")
    }
}

/// Whether a field ends at this position: a separator or line end comes next.
#[inline(always)]
fn is_end<S: Between>(text: &[u8], at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    S::starts(rest) || rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
}

/// The number of decimal digits at the beginning, and the whole number that they make.
#[inline(always)]
fn leading_digits(bytes: [u8; 8]) -> (usize, u32) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // digits become 0 to 9; adding 118 sets the highest bit of every other byte
    let digits = u64::from_le_bytes(bytes) ^ (0x30 * EACH);
    let others = (((digits & (0x7f * EACH)) + 0x76 * EACH) | digits) & (0x80 * EACH);
    let n_digits = others.trailing_zeros() / 8;
    // moved to the end, with zeros before them; then pairs, fours and eights are combined
    let digits = digits.checked_shl(64 - 8 * n_digits).unwrap_or(0);
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = fours.wrapping_mul(10_000) + (fours >> 32);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the upper half is left over"
    )]
    (n_digits as usize, eight as u32)
}

/// A field at the beginning of a text.
#[derive(Clone, Copy)]
struct Field<'t> {
    text: &'t [u8],
    /// Where it ends in the text, after a closing quote.
    end: usize,
    /// The number that its digits make, if it consists of at most 8 of them.
    digits: Option<u32>,
}

impl<'t> Field<'t> {
    /// The field up to a separator or line end, neither of which is part of it.
    #[inline(always)]
    fn first<S: Between>(rest: &'t [u8]) -> Option<Self> {
        if let Some(bytes) = rest.first_chunk() {
            let (n_digits, number) = leading_digits(*bytes);
            if n_digits > 0 && is_end::<S>(rest, n_digits) {
                return Some(Self {
                    text: &rest[..n_digits],
                    end: n_digits,
                    digits: Some(number),
                });
            }
        }
        Self::any::<S>(rest)
    }

    /// The same for a field that is not a whole number, or close to the end.
    #[inline(never)]
    fn any<S: Between>(rest: &'t [u8]) -> Option<Self> {
        let unquoted = |end| Self {
            text: &rest[..end],
            end,
            digits: None,
        };
        if S::QUOTES && rest.first() == Some(&b'"') {
            // neither the first of two quotes nor one before other text closes the field
            let closing = 1 + memchr::memchr2(b'"', b'\n', &rest[1..])?;
            let is_closed = rest[closing] == b'"' && is_end::<S>(rest, closing + 1);
            return is_closed.then(|| Self {
                text: &rest[1..closing],
                ..unquoted(closing + 1)
            });
        }
        let end = (0..rest.len()).find(|&at| is_end::<S>(rest, at))?;
        Some(unquoted(end))
    }

    #[inline]
    fn id(self, numbering: &mut Numbering<'t>) -> Option<PartId> {
        match self.digits {
            Some(whole) if self.text[0] != b'0' || self.text.len() == 1 => Some(PartId(whole)),
            _ => numbering.of_text(self.text),
        }
    }

    #[inline]
    fn number(self, separator: Separator) -> Option<f32> {
        match self.digits {
            // exact in single precision
            Some(whole) if whole < 1 << 24 => Some(whole as f32),
            _ => match *self.text {
                // a quotient of exact numbers is rounded once, as the decimal number would be
                [whole @ b'0'..=b'9', b'.', tenth @ b'0'..=b'9'] => {
                    Some(f32::from(10 * (whole - b'0') + (tenth - b'0')) / 10.0)
                }
                _ => parse_number_between(self.text, separator),
            },
        }
    }
}
