//! Records that all have the same number of fields.

use std::borrow::Cow;
use std::ops::Range;

use super::fields::{OpenQuote, Separator, cut};
#[cfg(feature = "parquet")]
use super::parquet::RowGroups;
use super::source::{Input, Lines};
use crate::{ColumnRole, Error, Expected, Result};

/// Records of a file, one at a time.
pub(super) struct Table<'a> {
    rows: Rows<'a>,
    fields: Vec<Range<usize>>,
    n_fields: usize,
    first_is_record: bool,
    /// Names of the columns where the first line does not tell them.
    names: Option<&'static [&'static str]>,
    n_records: usize,
}

/// Where records come from.
enum Rows<'a> {
    /// Lines, and what stands between their fields.
    Text(Lines<'a>, Separator),
    #[cfg(feature = "parquet")]
    Parquet(Box<RowGroups>),
}

/// Columns of `movies.dat`, which has no header and is written in Latin-1.
const MOVIES_DAT: &[&str] = &["item", "title", "genres"];

impl<'a> Table<'a> {
    /// Reads the first line of text and lets `detect` choose the separator from it; or the schema of a Parquet file.
    pub(super) fn open(
        input: Input<'a>,
        name: String,
        detect: impl FnOnce(&[u8]) -> Option<Separator>,
    ) -> Result<Self> {
        #[cfg(not(feature = "parquet"))]
        let Input::Text(text) = input;
        #[cfg(feature = "parquet")]
        let text = match input {
            Input::Text(text) => text,
            Input::Parquet(file) => {
                let groups = RowGroups::open(file, name)?;
                let n_fields = groups.names().len();
                return Ok(Self::of(Rows::Parquet(Box::new(groups)), n_fields));
            }
        };
        let mut lines = Lines::new(text, name)?;
        if !lines.advance()? {
            return Err(Error::Empty {
                path: lines.name().to_owned(),
            });
        }
        let separator = detect(lines.line());
        let rows = Rows::Text(lines, separator.unwrap_or(Separator::Comma));
        let mut table = Self::of(rows, 0);
        if separator.is_none() {
            return Err(table.malformed(0, Expected::Separator));
        }
        table.cut()?;
        table.n_fields = table.fields.len();
        Ok(table)
    }

    const fn of(rows: Rows<'a>, n_fields: usize) -> Self {
        Self {
            rows,
            fields: Vec::new(),
            n_fields,
            first_is_record: false,
            names: None,
            n_records: 0,
        }
    }

    /// A table with a header, separated by tabs if that has one and by commas otherwise; or
    /// `movies.dat` of MovieLens, known by its two `::`.
    pub(super) fn with_header(input: Input<'a>, name: String) -> Result<Self> {
        let mut table = Self::open(input, name, |line| {
            Some(
                if line.windows(2).filter(|pair| pair == b"::").count() == 2 {
                    Separator::DoubleColon
                } else if line.contains(&b'\t') {
                    Separator::Tab
                } else {
                    Separator::Comma
                },
            )
        })?;
        if matches!(table.rows, Rows::Text(_, Separator::DoubleColon)) {
            table.names = Some(MOVIES_DAT);
            table.without_header();
        }
        Ok(table)
    }

    /// Declares that there is no header: the first line will be given as a record.
    pub(super) const fn without_header(&mut self) {
        self.first_is_record = true;
    }

    /// Moves to the next record; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.first_is_record) {
            self.n_records += 1;
            return Ok(true);
        }
        let is_there = match &mut self.rows {
            Rows::Text(lines, _) => lines.advance()?,
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => groups.advance(&mut self.fields)?,
        };
        if !is_there {
            return Ok(false);
        }
        self.cut()?;
        let (found, expected) = (self.fields.len(), self.n_fields);
        if found != expected {
            let column = found.min(expected);
            return Err(self.malformed(column, Expected::Fields { found, expected }));
        }
        self.n_records += 1;
        Ok(true)
    }

    /// Number of fields in each line.
    pub(super) const fn n_fields(&self) -> usize {
        self.n_fields
    }

    /// Records given so far.
    pub(super) const fn n_records(&self) -> usize {
        self.n_records
    }

    /// One field of the current line.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        let place = self.fields[column].clone();
        match &self.rows {
            Rows::Text(lines, _) => &lines.line()[place],
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => &groups.row()[place],
        }
    }

    /// One field as text.
    pub(super) fn text(&self, column: usize) -> Result<Cow<'_, str>> {
        let field = self.field(column);
        match std::str::from_utf8(field) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            // a byte of Latin-1 is the number of its character
            Err(_) if self.names.is_some() => Ok(field.iter().copied().map(char::from).collect()),
            Err(_) => Err(self.malformed(column, Expected::Utf8)),
        }
    }

    /// One field as an id, which may not be empty; whether it is UTF-8 is checked where new ids
    /// are kept.
    pub(super) fn id(&self, column: usize, role: ColumnRole) -> Result<&[u8]> {
        #[cfg(feature = "parquet")]
        if let Rows::Parquet(groups) = &self.rows
            && !groups.can_be_id(column)
        {
            return Err(self.malformed(column, Expected::IdColumn(role)));
        }
        let id = self.field(column);
        if id.is_empty() {
            return Err(self.malformed(column, Expected::Id(role)));
        }
        Ok(id)
    }

    /// One field as a number. What is too large for `f32` becomes infinite.
    pub(super) fn number(&self, column: usize, role: ColumnRole) -> Result<f32> {
        parse_number(self.field(column))
            .ok_or_else(|| self.malformed(column, Expected::Number(role)))
    }

    /// The names of columns: the current line's fields, which must be text, unless the layout has its own.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        if let Some(names) = self.names {
            return Ok(names.iter().map(ToString::to_string).collect());
        }
        #[cfg(feature = "parquet")]
        if let Rows::Parquet(groups) = &self.rows {
            return Ok(groups.names().map(|name| name.trim().to_owned()).collect());
        }
        (0..self.fields.len())
            .map(|column| Ok(self.text(column)?.trim().to_owned()))
            .collect()
    }

    /// Whether the names of columns stand apart from the records, so that none of them can be a record.
    pub(super) const fn has_schema(&self) -> bool {
        !matches!(self.rows, Rows::Text(..))
    }

    /// Declares that only these columns are looked at from now on. Where columns have types, theirs must be of those that are read.
    pub(super) fn read_only(&mut self, columns: impl IntoIterator<Item = usize>) -> Result<()> {
        match &mut self.rows {
            Rows::Text(..) => drop(columns),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => {
                if let Err(column) = groups.read_only(columns.into_iter().collect()) {
                    return Err(self.malformed(column, Expected::PlainColumn));
                }
            }
        }
        Ok(())
    }

    /// The current line's or row's number, counted from 1.
    pub(super) fn line_number(&self) -> usize {
        match &self.rows {
            Rows::Text(lines, _) => lines.number(),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => groups.number().max(1),
        }
    }

    /// The name that errors show.
    pub(super) fn name(&self) -> &str {
        match &self.rows {
            Rows::Text(lines, _) => lines.name(),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => groups.name(),
        }
    }

    /// An error at a field of the current line; `column` counts from 0.
    pub(super) fn malformed(&self, column: usize, expected: Expected) -> Error {
        Error::Malformed {
            path: self.name().to_owned(),
            line: self.line_number(),
            column: column + 1,
            expected,
        }
    }

    /// Cuts a line of text; rows of Parquet come in fields.
    fn cut(&mut self) -> Result<()> {
        let cut = match &mut self.rows {
            Rows::Text(lines, separator) => cut(lines.line_mut(), *separator, &mut self.fields),
            #[cfg(feature = "parquet")]
            Rows::Parquet(_) => Ok(()),
        };
        cut.map_err(|OpenQuote(field)| self.malformed(field - 1, Expected::ClosedQuote))
    }

    /// Fails when the whole table has been read and held no record.
    pub(super) fn require_records(&self) -> Result<()> {
        if self.n_records == 0 {
            return Err(Error::Empty {
                path: self.name().to_owned(),
            });
        }
        Ok(())
    }
}

/// Decimal numbers, `nan` and `inf` in any case, with spaces around them.
pub(super) fn parse_number(field: &[u8]) -> Option<f32> {
    match field {
        [digit @ b'0'..=b'9'] => Some(f32::from(digit - b'0')),
        _ => std::str::from_utf8(field).ok()?.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_words_are_not() {
        for (text, value) in [
            ("4", 4.0),
            ("3.5", 3.5),
            (" -2e1 ", -20.0),
            ("1e400", f32::INFINITY),
            ("-inf", f32::NEG_INFINITY),
        ] {
            let read = parse_number(text.as_bytes()).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{text}");
        }
        assert!(parse_number(b"NaN").unwrap().is_nan());
        for text in ["", " ", "four", "1,5", "0x10", "4 5", "--1", "\u{664}"] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_number(b"\xff"), None);
    }
}
