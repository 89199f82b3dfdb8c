//! Records that all have the same number of fields.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::ops::Range;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::memory::{MemoryReader, write_whole};
use super::parts::Key;
use crate::id_numbers::IdNumbers;
use crate::{ColumnRole, Error, Expected, Result};

#[cfg(feature = "parquet")]
use super::parquet::RowGroups;

/// Records of a file, one at a time.
pub(super) struct Table<'a> {
    rows: Rows<'a>,
    fields: Vec<Range<usize>>,
    n_fields: usize,
    first_is_record: bool,
    /// Names of the columns if they are not in the first line.
    names: Option<Vec<String>>,
    /// Whether text that is not UTF-8 is read as Latin-1.
    may_be_latin1: bool,
    n_records: usize,
}

/// The source of records.
enum Rows<'a> {
    /// Lines, and the separator of their fields.
    Text(Lines<'a>, Separator),
    Memory(MemoryReader),
    #[cfg(feature = "parquet")]
    Parquet(Box<RowGroups>),
}

/// Columns of `movies.dat`, which has no header and is written in Latin-1.
const MOVIES_DAT: [&str; 3] = ["item", "title", "genres"];

impl<'a> Table<'a> {
    /// Reads the first line of text and lets `detect` choose the separator from it, or reads the
    /// schema if there is one.
    pub(super) fn open(
        input: Input<'a>,
        name: String,
        detect: impl FnOnce(&[u8]) -> Option<Separator>,
    ) -> Result<Self> {
        let text = match input {
            Input::Text(text) => text,
            Input::Memory(reader) => {
                let n_fields = reader.names().len();
                return Ok(Self::of(Rows::Memory(reader), n_fields));
            }
            #[cfg(feature = "parquet")]
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
            may_be_latin1: false,
            n_records: 0,
        }
    }

    /// A table with a header, which determines the separator; or MovieLens `movies.dat`, recognised
    /// by its two `::`.
    pub(super) fn with_header(input: Input<'a>, name: String) -> Result<Self> {
        let mut table = Self::open(input, name, |line| {
            let is_movies_dat = line.windows(2).filter(|pair| pair == b"::").count() == 2;
            Some(match is_movies_dat {
                true => Separator::DoubleColon,
                false => Separator::of_header(line).unwrap_or(Separator::Comma),
            })
        })?;
        if matches!(table.rows, Rows::Text(_, Separator::DoubleColon)) {
            table.names = Some(MOVIES_DAT.map(str::to_owned).into());
            table.may_be_latin1 = true;
            table.without_header();
        }
        Ok(table)
    }

    /// A table of lines without a header, whose columns are called `names`. The separator is the
    /// one that splits the first line into as many fields.
    pub(super) fn with_names(input: Input<'a>, name: String, names: &[String]) -> Result<Self> {
        let opened = Self::open(input, name, |line| {
            Some(Separator::of_fields(line, names.len()))
        });
        let mut table = match opened {
            // whether there is a record is private: a text without any is no error
            Err(Error::Empty { path }) => {
                let nothing = (Separator::Comma, names.len());
                let mut table = Self::of_text(Vec::new(), path, 0, nothing);
                table.names = Some(names.to_vec());
                return Ok(table);
            }
            opened => opened?,
        };
        let (found, expected) = (table.n_fields, names.len());
        if table.has_schema() {
            return Err(table.malformed(0, Expected::NoNames));
        }
        if found != expected {
            let column = found.min(expected);
            return Err(table.malformed(column, Expected::Fields { found, expected }));
        }
        let is_name = |(at, name): (usize, &String)| {
            let field = table.field(at).trim_ascii();
            field.eq_ignore_ascii_case(name.as_bytes())
        };
        if names.iter().enumerate().all(is_name) {
            return Err(table.malformed(0, Expected::NoNames));
        }
        table.names = Some(names.to_vec());
        table.without_header();
        Ok(table)
    }

    /// Declares that there is no header: the first line will be returned as a record.
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
            Rows::Memory(reader) => reader.advance(&mut self.fields),
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

    /// Whether the next record has to be read by [`advance`](Self::advance), because it is not in the
    /// [rest of the lines](Self::rest_of_lines).
    pub(super) const fn has_single_records(&self) -> bool {
        self.first_is_record || !matches!(self.rows, Rows::Text(..))
    }

    /// The lines of a text that have not been read, and the separator of their fields.
    pub(super) const fn rest_of_lines(&mut self) -> Option<(&mut Lines<'a>, Separator)> {
        match &mut self.rows {
            Rows::Text(lines, separator) => Some((lines, *separator)),
            Rows::Memory(_) => None,
            #[cfg(feature = "parquet")]
            Rows::Parquet(_) => None,
        }
    }

    /// A table of records in this text, whose first line comes after line `number` of a file.
    pub(super) fn of_text(
        text: Vec<u8>,
        name: String,
        number: usize,
        (separator, n_fields): (Separator, usize),
    ) -> Table<'static> {
        let lines = Lines::of_text(text, name, number);
        Table::of(Rows::Text(lines, separator), n_fields)
    }

    /// Number of fields in each line.
    pub(super) const fn n_fields(&self) -> usize {
        self.n_fields
    }

    /// Number of records returned so far.
    pub(super) const fn n_records(&self) -> usize {
        self.n_records
    }

    /// Counts records of the [rest of the lines](Self::rest_of_lines).
    pub(super) const fn count(&mut self, n_records: usize) {
        self.n_records += n_records;
    }

    /// One field of the current line.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        let place = self.fields[column].clone();
        match &self.rows {
            Rows::Text(lines, _) => &lines.line()[place],
            Rows::Memory(reader) => &reader.row()[place],
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => &groups.row()[place],
        }
    }

    /// One field as text.
    pub(super) fn text(&self, column: usize) -> Result<Cow<'_, str>> {
        let field = self.field(column);
        match std::str::from_utf8(field) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            // a byte of Latin-1 is the code point of its character
            Err(_) if self.may_be_latin1 => Ok(field.iter().copied().map(char::from).collect()),
            Err(_) => Err(self.malformed(column, Expected::Utf8)),
        }
    }

    /// One field as an id, which may not be empty. Whether it is UTF-8 is checked where new ids are
    /// stored.
    pub(super) fn id(&self, column: usize, role: ColumnRole) -> Result<&[u8]> {
        let can_be_id = match &self.rows {
            Rows::Text(..) => true,
            Rows::Memory(reader) => reader.can_be_id(column),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => groups.can_be_id(column),
        };
        if !can_be_id {
            return Err(self.malformed(column, Expected::IdColumn(role)));
        }
        let id = self.field(column);
        if id.is_empty() {
            return Err(self.malformed(column, Expected::Id(role)));
        }
        Ok(id)
    }

    /// One field as a number. A value too large for `f32` becomes infinite. If fields are separated
    /// by semicolons, a decimal comma is accepted as well.
    pub(super) fn number(&self, column: usize, role: ColumnRole) -> Result<f32> {
        let field = self.field(column);
        let number = match &self.rows {
            Rows::Text(_, separator) => parse_number_between(field, *separator),
            _ => parse_number(field),
        };
        number.ok_or_else(|| self.malformed(column, Expected::Number(role)))
    }

    pub(super) const fn is_in_memory(&self) -> bool {
        matches!(self.rows, Rows::Memory(_))
    }

    /// One field as a number; an empty one is a missing value, NaN.
    pub(super) fn number_or_missing(&self, column: usize, role: ColumnRole) -> Result<f32> {
        if self.field(column).trim_ascii().is_empty() {
            return Ok(f32::NAN);
        }
        self.number(column, role)
    }

    /// The names of the columns: the current line's fields, which must be text, unless the layout
    /// has its own names.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        if let Some(names) = &self.names {
            return Ok(names.clone());
        }
        let trimmed = |name: &str| name.trim().to_owned();
        match &self.rows {
            Rows::Text(..) => (0..self.fields.len())
                .map(|column| Ok(trimmed(&self.text(column)?)))
                .collect(),
            Rows::Memory(reader) => Ok(reader.names().map(trimmed).collect()),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => Ok(groups.names().map(trimmed).collect()),
        }
    }

    /// What a column is called, or its number where nothing names the columns.
    pub(super) fn column_name(&self, column: usize) -> String {
        let is_named = self.names.is_some() || !self.first_is_record;
        let names = is_named.then(|| self.names().ok()).flatten();
        let name = names.and_then(|names| names.get(column).cloned());
        name.unwrap_or_else(|| (column + 1).to_string())
    }

    /// Whether the names of columns are stored separately from the records, so that none of them
    /// can be a record.
    pub(super) const fn has_schema(&self) -> bool {
        self.names.is_some() || !matches!(self.rows, Rows::Text(..))
    }

    /// Declares that only these columns are read from now on. If columns have types, theirs must be
    /// supported.
    pub(super) fn read_only(&mut self, columns: impl IntoIterator<Item = usize>) -> Result<()> {
        let columns = columns.into_iter().collect();
        let read_only = match &mut self.rows {
            Rows::Text(..) => Ok(()),
            Rows::Memory(reader) => reader.read_only(columns),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => groups.read_only(columns),
        };
        read_only.map_err(|column| self.malformed(column, Expected::PlainColumn))
    }

    /// The current line's or row's number, counted from 1.
    pub(super) fn line_number(&self) -> usize {
        match &self.rows {
            Rows::Text(lines, _) => lines.number(),
            Rows::Memory(reader) => reader.number().max(1),
            #[cfg(feature = "parquet")]
            Rows::Parquet(groups) => groups.number().max(1),
        }
    }

    /// The name shown in errors.
    pub(super) fn name(&self) -> &str {
        match &self.rows {
            Rows::Text(lines, _) => lines.name(),
            Rows::Memory(reader) => reader.name(),
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
            name: None,
        }
    }

    /// Splits a line of text; other rows are already split into fields.
    fn cut(&mut self) -> Result<()> {
        let cut = match &mut self.rows {
            Rows::Text(lines, separator) => {
                let quotable = lines.has_quote();
                cut(lines.line_mut(), quotable, *separator, &mut self.fields)
            }
            Rows::Memory(_) => Ok(()),
            #[cfg(feature = "parquet")]
            Rows::Parquet(_) => Ok(()),
        };
        cut.map_err(|OpenQuote(field)| self.malformed(field - 1, Expected::ClosedQuote))
    }

    /// Fails if the whole table has been read and contained no record.
    pub(super) fn require_records(&self) -> Result<()> {
        if self.n_records == 0 {
            return Err(Error::Empty {
                path: self.name().to_owned(),
            });
        }
        Ok(())
    }
}

/// Parses decimal numbers, `nan` and `inf` in any case, with surrounding spaces.
pub(super) fn parse_number(field: &[u8]) -> Option<f32> {
    match field {
        [digit @ b'0'..=b'9'] => Some(f32::from(digit - b'0')),
        _ => std::str::from_utf8(field).ok()?.trim().parse().ok(),
    }
}

/// Parses a number in a field between these separators.
pub(super) fn parse_number_between(field: &[u8], separator: Separator) -> Option<f32> {
    let may_have_comma = separator == Separator::Semicolon;
    parse_number(field).or_else(|| may_have_comma.then(|| parse_decimal_comma(field)).flatten())
}

/// Parses a decimal number with a decimal comma. Thousands separators are not accepted.
fn parse_decimal_comma(field: &[u8]) -> Option<f32> {
    let text = std::str::from_utf8(field).ok()?;
    let (whole, decimals) = text.split_once(',')?;
    parse_number(format!("{whole}.{decimals}").as_bytes())
}

/// The separator of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `::`, with fields taken literally.
    DoubleColon,
    /// A tab, with fields taken literally.
    Tab,
    /// A comma; a field may be enclosed in double quotes, with quotes inside it doubled.
    Comma,
    /// A semicolon, with quotes as for the comma.
    Semicolon,
}

impl Separator {
    /// The separator of the names in a header: tabs if there are any, otherwise commas or
    /// semicolons, whichever is more frequent.
    pub(super) fn of_header(line: &[u8]) -> Option<Self> {
        let n_of = |separator| line.iter().filter(|&&byte| byte == separator).count();
        match (n_of(b'\t'), n_of(b','), n_of(b';')) {
            (0, 0, 0) => None,
            (0, commas, semicolons) if semicolons > commas => Some(Self::Semicolon),
            (0, ..) => Some(Self::Comma),
            _ => Some(Self::Tab),
        }
    }

    /// The separator that splits a line without names into `n_fields`. Semicolons are tried before
    /// commas, which may be decimal commas between them.
    fn of_fields(line: &[u8], n_fields: usize) -> Self {
        let candidates = [Self::DoubleColon, Self::Tab, Self::Semicolon, Self::Comma];
        let mut fields = Vec::new();
        let fits = |separator: &Self| {
            cut(&mut line.to_vec(), true, *separator, &mut fields).is_ok()
                && fields.len() == n_fields
        };
        let header = || Self::of_header(line).unwrap_or(Self::Comma);
        candidates.into_iter().find(fits).unwrap_or_else(header)
    }
}

/// The field whose quotes are not closed, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenQuote(pub(super) usize);

/// Splits `line` into `fields`, removing quotes in place; `quotable` if it may contain some.
fn cut(
    line: &mut [u8],
    quotable: bool,
    separator: Separator,
    fields: &mut Vec<Range<usize>>,
) -> Result<(), OpenQuote> {
    fields.clear();
    match separator {
        Separator::DoubleColon => cut_at_double_colons(line, fields),
        Separator::Tab => cut_at(line, b'\t', fields),
        Separator::Comma if quotable => return cut_quotable(line, b',', fields),
        Separator::Semicolon if quotable => return cut_quotable(line, b';', fields),
        Separator::Comma => cut_at(line, b',', fields),
        Separator::Semicolon => cut_at(line, b';', fields),
    }
    Ok(())
}

fn cut_at(line: &[u8], separator: u8, fields: &mut Vec<Range<usize>>) {
    let mut start = 0;
    for (at, &byte) in line.iter().enumerate() {
        if byte == separator {
            fields.push(start..at);
            start = at + 1;
        }
    }
    fields.push(start..line.len());
}

fn cut_at_double_colons(line: &[u8], fields: &mut Vec<Range<usize>>) {
    let (mut start, mut at) = (0, 0);
    while at + 1 < line.len() {
        if line[at] == b':' && line[at + 1] == b':' {
            fields.push(start..at);
            at += 2;
            start = at;
        } else {
            at += 1;
        }
    }
    fields.push(start..line.len());
}

/// Moves the text of quoted fields left over their quotes: the write position never passes the read
/// position.
fn cut_quotable(
    line: &mut [u8],
    separator: u8,
    fields: &mut Vec<Range<usize>>,
) -> Result<(), OpenQuote> {
    if !line.contains(&b'"') {
        cut_at(line, separator, fields);
        return Ok(());
    }
    let (mut read, mut write) = (0, 0);
    loop {
        let start = write;
        if line.get(read) == Some(&b'"') {
            read = unquote(line, read + 1, &mut write).ok_or(OpenQuote(fields.len() + 1))?;
        } else {
            while line.get(read).is_some_and(|&byte| byte != separator) {
                line[write] = line[read];
                (read, write) = (read + 1, write + 1);
            }
        }
        fields.push(start..write);
        match line.get(read) {
            None => break,
            Some(&byte) if byte == separator => read += 1,
            Some(_) => return Err(OpenQuote(fields.len())),
        }
    }
    Ok(())
}

/// Copies a quoted field that begins at `read`; returns the position after its closing quote.
fn unquote(line: &mut [u8], mut read: usize, write: &mut usize) -> Option<usize> {
    loop {
        let mut byte = *line.get(read)?;
        read += 1;
        if byte == b'"' {
            if line.get(read) != Some(&b'"') {
                return Some(read);
            }
            byte = b'"';
            read += 1;
        }
        line[*write] = byte;
        *write += 1;
    }
}

/// Assigns the next number to each new id.
#[derive(Default)]
pub(super) struct Interner {
    ids: Vec<String>,
    numbers: IdNumbers,
    last: u32,
}

impl Interner {
    /// The number of `id`. Runs of equal ids, common in files sorted by user, are answered without
    /// hashing.
    pub(super) fn number(&mut self, id: &[u8]) -> Result<u32, Expected> {
        if let Some(number) = self.numbers.listed(id) {
            return Ok(number);
        }
        let last = self.ids.get(self.last as usize);
        if last.is_some_and(|last| last.as_bytes() == id) {
            return Ok(self.last);
        }
        self.last = match self.numbers.get(id) {
            Some(number) => number,
            None => self.insert(id)?,
        };
        Ok(self.last)
    }

    /// The number of an id in a part; `known` has those found before.
    #[inline]
    pub(super) fn number_of(
        &mut self,
        key: Key<'_>,
        known: &mut [Option<u32>],
    ) -> Result<u32, Expected> {
        let found = match key {
            Key::Whole(whole) => self.numbers.of_whole(whole),
            Key::Text(at, _) => known[at],
        };
        match (found, key) {
            (Some(number), _) => Ok(number),
            (None, Key::Whole(whole)) => {
                let mut text = Vec::new();
                write_whole(whole.into(), &mut text);
                self.number(&text)
            }
            (None, Key::Text(at, text)) => {
                let number = self.number(text)?;
                known[at] = Some(number);
                Ok(number)
            }
        }
    }

    /// All ids by number.
    pub(super) fn into_ids(self) -> Vec<String> {
        self.ids
    }

    fn insert(&mut self, id: &[u8]) -> Result<u32, Expected> {
        let text = std::str::from_utf8(id).map_err(|_| Expected::Utf8)?;
        let number = u32::try_from(self.ids.len()).map_err(|_| Expected::FewerIds)?;
        self.ids.push(text.to_owned());
        self.numbers.insert(id, number);
        Ok(number)
    }
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const PARQUET_MAGIC: &[u8] = b"PAR1";
const UTF8_BOM: &[u8] = b"\xef\xbb\xbf";
const BUFFER: usize = 1 << 16;

/// Opens a file and returns it with the name shown in errors.
pub(super) fn open(path: &Path) -> Result<(File, String)> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((file, name)),
        Err(source) => Err(Error::Open { path: name, source }),
    }
}

/// A table before it is read.
pub(super) enum Input<'a> {
    /// Text, plain or gzip.
    Text(Box<dyn Read + 'a>),
    Memory(MemoryReader),
    #[cfg(feature = "parquet")]
    Parquet(File),
}

/// Opens a file that contains a table. Parquet is recognised by its first four bytes or by its
/// name.
pub(super) fn open_table(path: &Path) -> Result<(Input<'static>, String)> {
    let (mut file, name) = open(path)?;
    let head = head_of(&mut file, &name)?;
    let is_named = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("parquet"));
    if !is_named && head != PARQUET_MAGIC {
        return Ok((Input::Text(Box::new(Cursor::new(head).chain(file))), name));
    }
    #[cfg(feature = "parquet")]
    return Ok((Input::Parquet(file), name));
    #[cfg(not(feature = "parquet"))]
    Err(Error::WithoutParquet { path: name })
}

/// A table from any reader; Parquet has to be a file, because it is read from its end.
pub(super) fn table_from<'a>(mut reader: impl Read + 'a, name: &str) -> Result<Input<'a>> {
    let head = head_of(&mut reader, name)?;
    if head == PARQUET_MAGIC {
        let path = name.to_owned();
        let source = std::io::Error::other("Parquet is read from a file, not from a stream");
        return Err(Error::Parquet { path, source });
    }
    Ok(Input::Text(Box::new(Cursor::new(head).chain(reader))))
}

fn head_of(reader: &mut impl Read, name: &str) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(PARQUET_MAGIC.len());
    let n = PARQUET_MAGIC.len() as u64;
    match reader.by_ref().take(n).read_to_end(&mut head) {
        Ok(_) => Ok(head),
        Err(source) => Err(Error::Read {
            path: name.to_owned(),
            source,
        }),
    }
}

/// The decompressed bytes of a file.
pub(super) struct Source<'a> {
    pub(super) bytes: Box<dyn BufRead + 'a>,
    gzip: bool,
}

/// Gzip is recognised by its two magic bytes, whatever the file's name is.
pub(super) fn plain_or_gzip<'a>(mut reader: impl Read + 'a, name: &str) -> Result<Source<'a>> {
    let mut head = Vec::with_capacity(2);
    if let Err(source) = reader.by_ref().take(2).read_to_end(&mut head) {
        let path = name.to_owned();
        return Err(Error::Read { path, source });
    }
    let gzip = head == GZIP_MAGIC;
    let whole = BufReader::with_capacity(BUFFER, Cursor::new(head).chain(reader));
    let bytes: Box<dyn BufRead + 'a> = if gzip {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(whole)))
    } else {
        Box::new(whole)
    };
    Ok(Source { bytes, gzip })
}

impl Source<'_> {
    /// Distinguishes errors of the operating system, which have a code, from those of the gzip
    /// decoder, which have none.
    pub(super) fn failure(&self, name: &str, source: std::io::Error) -> Error {
        let path = name.to_owned();
        if self.gzip && source.raw_os_error().is_none() {
            Error::Gzip { path, source }
        } else {
            Error::Read { path, source }
        }
    }
}

/// The lines that are not blank, one at a time, in place in a buffer.
pub(super) struct Lines<'a> {
    source: Source<'a>,
    name: String,
    buffer: Vec<u8>,
    /// The current line in the buffer, without its line end.
    line: Range<usize>,
    /// Where the next line begins.
    next: usize,
    /// Whether there is a quote anywhere in the buffer.
    has_quote: bool,
    number: usize,
    /// The error that ended [`read_part`](Self::read_part).
    failed: Option<Error>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(reader: impl Read + 'a, name: String) -> Result<Self> {
        Ok(Self {
            source: plain_or_gzip(reader, &name)?,
            name,
            buffer: Vec::new(),
            line: 0..0,
            next: 0,
            has_quote: false,
            number: 0,
            failed: None,
        })
    }

    /// The lines of this text; the first comes after line `number`.
    fn of_text(text: Vec<u8>, name: String, number: usize) -> Lines<'static> {
        let source = Source {
            bytes: Box::new(std::io::empty()),
            gzip: false,
        };
        Lines {
            source,
            name,
            has_quote: memchr::memchr(b'"', &text).is_some(),
            buffer: text,
            line: 0..0,
            next: 0,
            number,
            failed: None,
        }
    }

    /// Replaces `text` by the next lines that have not been read, all whole and with their line ends:
    /// as many as there are in about `size` bytes, or a single longer one. False at the end, and
    /// after an error, which [`check`](Self::check) reports.
    pub(super) fn read_part(&mut self, mut size: usize, text: &mut Vec<u8>) -> bool {
        text.clear();
        text.extend_from_slice(&self.buffer[self.next..]);
        self.buffer.clear();
        self.next = 0;
        let mut n_searched = 0;
        while self.failed.is_none() {
            let wanted = size.saturating_sub(text.len()).max(1);
            text.reserve(wanted);
            let read = self.source.bytes.by_ref().take(wanted as u64);
            let is_end = match { read }.read_to_end(text) {
                Ok(n_read) => n_read < wanted,
                Err(source) => {
                    self.failed = Some(self.source.failure(&self.name, source));
                    false
                }
            };
            if is_end {
                if text.last().is_some_and(|&last| last != b'\n') {
                    text.push(b'\n');
                }
                return !text.is_empty();
            }
            if let Some(at) = memchr::memrchr(b'\n', &text[n_searched..]) {
                let end = n_searched + at + 1;
                self.buffer.extend_from_slice(&text[end..]);
                text.truncate(end);
                return true;
            }
            n_searched = text.len();
            size *= 2;
        }
        text.clear();
        false
    }

    /// Reports the error that ended [`read_part`](Self::read_part), if there was one.
    pub(super) fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Moves to the next line that contains more than spaces; false at the end. Line ends (`\n` or
    /// `\r\n`) and a leading byte-order mark are removed.
    pub(super) fn advance(&mut self) -> Result<bool> {
        loop {
            if !self.find_line()? {
                return Ok(false);
            }
            self.number += 1;
            if self.line().last() == Some(&b'\r') {
                self.line.end -= 1;
            }
            if self.number == 1 && self.line().starts_with(UTF8_BOM) {
                self.line.start += UTF8_BOM.len();
            }
            if self.line().iter().any(|&byte| byte != b' ') {
                return Ok(true);
            }
        }
    }

    fn find_line(&mut self) -> Result<bool> {
        let mut n_searched = 0;
        loop {
            let rest = &self.buffer[self.next..];
            if let Some(at) = memchr::memchr(b'\n', &rest[n_searched..]) {
                let end = self.next + n_searched + at;
                self.line = self.next..end;
                self.next = end + 1;
                return Ok(true);
            }
            n_searched = rest.len();
            if !self.read_more()? {
                self.line = self.next..self.buffer.len();
                self.next = self.buffer.len();
                return Ok(!self.line.is_empty());
            }
        }
    }

    /// Moves the unread part to the front and reads more after it; false at the end.
    fn read_more(&mut self) -> Result<bool> {
        let n_kept = self.buffer.len() - self.next;
        self.buffer.copy_within(self.next.., 0);
        self.buffer.truncate(n_kept);
        self.next = 0;
        let bytes = loop {
            match self.source.bytes.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let n_read = bytes.map(|bytes| {
            self.buffer.extend_from_slice(bytes);
            bytes.len()
        });
        let n_read = n_read.map_err(|source| self.source.failure(&self.name, source))?;
        self.source.bytes.consume(n_read);
        self.has_quote = memchr::memchr(b'"', &self.buffer).is_some();
        Ok(n_read > 0)
    }

    /// The current line.
    pub(super) fn line(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    /// The current line, for unquoting in place.
    fn line_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.line.clone()]
    }

    /// Whether the current line may have a quote.
    const fn has_quote(&self) -> bool {
        self.has_quote
    }

    /// The current line's number, counted from 1.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// The name shown in errors.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "parquet"))]
    #[test]
    fn without_the_feature_parquet_files_are_known_by_name_or_content_and_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a.parquet", "user,item"), ("a.dat", "PAR1")] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let refused = open_table(&path).err();
            assert!(
                matches!(refused, Some(Error::WithoutParquet { .. })),
                "{name}"
            );
        }
    }

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

    fn cut_text(line: &str, separator: Separator) -> Result<Vec<String>, OpenQuote> {
        let mut buffer = line.as_bytes().to_vec();
        let mut fields = Vec::new();
        cut(&mut buffer, true, separator, &mut fields)?;
        Ok(fields
            .into_iter()
            .map(|f| String::from_utf8(buffer[f].to_vec()).unwrap())
            .collect())
    }

    #[test]
    fn fields_come_out_as_written() {
        use Separator::{Comma, DoubleColon, Semicolon, Tab};
        let table: [(&str, Separator, &[&str]); 13] = [
            ("1;2,5;3", Semicolon, &["1", "2,5", "3"]),
            (r#""a;b";"2,5""#, Semicolon, &["a;b", "2,5"]),
            ("1,2,3", Comma, &["1", "2", "3"]),
            (",,", Comma, &["", "", ""]),
            ("1::2::3", DoubleColon, &["1", "2", "3"]),
            ("a:b::c:", DoubleColon, &["a:b", "c:"]),
            ("::", DoubleColon, &["", ""]),
            ("1\t\"x\"\t", Tab, &["1", "\"x\"", ""]),
            (r#""a,b",c"#, Comma, &["a,b", "c"]),
            (r#"x,"say ""hi""",y"#, Comma, &["x", "say \"hi\"", "y"]),
            (r#"7" disc,z"#, Comma, &["7\" disc", "z"]),
            (r#""","""""#, Comma, &["", "\""]),
            (r#""a","b","#, Comma, &["a", "b", ""]),
        ];
        for (line, separator, fields) in table {
            assert_eq!(cut_text(line, separator).unwrap(), fields, "{line}");
        }
    }

    #[test]
    fn a_header_or_the_number_of_fields_says_what_separates_them() {
        use Separator::{Comma, DoubleColon, Semicolon, Tab};
        for (line, separator) in [
            ("user;item;rating", Some(Semicolon)),
            ("user;item;price, EUR", Some(Semicolon)),
            ("user,item,a;b", Some(Comma)),
            ("a;b,c", Some(Comma)),
            ("a;b\tc,d,e", Some(Tab)),
            ("user", None),
        ] {
            assert_eq!(Separator::of_header(line.as_bytes()), separator, "{line}");
        }
        for (line, separator) in [
            ("a;1,5;2,5", Semicolon),
            ("a,1.5,2.5", Comma),
            ("\"a;b;c\",1.5,2.5", Comma),
            ("a::1::2", DoubleColon),
            ("a\t1,5\t2,5", Tab),
        ] {
            assert_eq!(
                Separator::of_fields(line.as_bytes(), 3),
                separator,
                "{line}"
            );
        }
    }

    #[test]
    fn a_quote_must_close_right_before_the_separator() {
        for (line, field) in [("1,\"2", 2), ("\"1\"2,3", 1), ("1,2,\"", 3)] {
            assert_eq!(cut_text(line, Separator::Comma), Err(OpenQuote(field)));
        }
    }

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

    /// Returns one byte at a time, as a slow pipe may.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let n = out.len().min(1);
            self.0.read(&mut out[..n])
        }
    }

    fn lines(bytes: &[u8]) -> Vec<(usize, String)> {
        let mut lines = Lines::new(Trickle(bytes), "x".into()).unwrap();
        let mut all = Vec::new();
        while lines.advance().unwrap() {
            let text = String::from_utf8(lines.line().to_vec()).unwrap();
            all.push((lines.number(), text));
        }
        all
    }

    #[test]
    fn line_ends_marks_and_blank_lines_are_taken_off() {
        let expected = vec![(1, "a,b".to_owned()), (3, "c".to_owned())];
        assert_eq!(lines(b"a,b\n\nc\n"), expected);
        assert_eq!(lines(b"\xef\xbb\xbfa,b\r\n  \r\nc"), expected);
        assert_eq!(lines(b""), vec![]);
    }

    #[test]
    fn quotes_come_off_wherever_a_read_ends() {
        let text = b"user,item,rating\nann,\"1,5\",4\n\"bob\",2,5\n";
        let format = crate::RatingsFormat::default();
        for reader in [
            Box::new(Trickle(text)) as Box<dyn Read>,
            Box::new(&text[..]),
        ] {
            let ratings = crate::read_ratings_from(reader, "x", &format, None).unwrap();
            assert_eq!(ratings.user_ids().expose(), &["ann", "bob"]);
            assert_eq!(ratings.catalogue().ids(), ["1,5", "2"]);
        }
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes_even_from_a_slow_pipe() {
        use std::io::Write;
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(b"one\ntwo\n").unwrap();
        let member = gz.finish().unwrap();
        let expected = vec![(1, "one".to_owned()), (2, "two".to_owned())];
        assert_eq!(lines(&member), expected);
        let twice = [member.as_slice(), member.as_slice()].concat();
        assert_eq!(lines(&twice).len(), 4, "later members count too");
    }

    #[test]
    fn one_byte_is_not_gzip() {
        assert_eq!(lines(b"a"), vec![(1, "a".to_owned())]);
    }
}
