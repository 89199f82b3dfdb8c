//! Tables in memory, and the source of a table: a file or memory.

use std::fmt::{self, Display};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::table::{Input, open_table};
use crate::Result;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// True or false.
    Boolean,
    /// Whole numbers, signed or not.
    Integer,
    /// Floating-point numbers.
    Float,
    /// Text.
    Text,
}

impl ColumnKind {
    /// Whether its values can be ids: for floats, `7` and `7.0` would be two users.
    pub(super) const fn can_be_id(self) -> bool {
        matches!(self, Self::Integer | Self::Text)
    }
}

/// Rows of a table in memory, read in place: only the row that is being read is copied.
pub trait TableRows: Send + Sync {
    /// Names and types of the columns; `None` for types that are not read, such as dates and lists.
    fn columns(&self) -> &[(String, Option<ColumnKind>)];

    /// Number of rows.
    fn n_rows(&self) -> usize;

    /// Appends a field as it would appear in a csv file of the same table: nothing for a missing
    /// value, `1` and `0` for booleans, and for floating-point numbers the shortest digits that
    /// read back as the same number. `row` and `column` count from 0, and the column has a known
    /// type.
    fn write_field(&self, row: usize, column: usize, out: &mut Vec<u8>);
}

/// Appends a whole number as text, for use in [`TableRows::write_field`].
pub fn write_whole(value: i64, out: &mut Vec<u8>) {
    const MOST: usize = 19;
    let (mut digits, mut at, mut rest) = ([0; MOST], MOST, value.unsigned_abs());
    while at == MOST || rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a floating-point number as the shortest text that reads back as the same number, for use
/// in [`TableRows::write_field`]. Whole and half numbers, which most ratings are, take a tenth of
/// the time of others.
pub fn write_float(value: f64, out: &mut Vec<u8>) {
    if value > 0.0 && value < 1e9 && (2.0 * value).fract() <= 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "below 10^9")]
        write_whole(value as i64, out);
        if value.fract() > 0.0 {
            out.extend_from_slice(b".5");
        }
        return;
    }
    write_display(value, out);
}

/// Appends the printed form of a value, for use in [`TableRows::write_field`].
///
/// # Panics
/// If the value cannot be formatted.
pub fn write_display(value: impl Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a buffer in memory takes everything");
}

/// A column that owns its values.
#[derive(Clone)]
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub enum Column {
    /// True or false.
    Boolean(Vec<bool>),
    /// Whole numbers.
    Integer(Vec<i64>),
    /// Floating-point numbers; NaN does not count as a missing value.
    Float(Vec<f64>),
    /// Texts; empty if a value is missing.
    Text(Vec<String>),
}

impl Column {
    const fn kind(&self) -> ColumnKind {
        match self {
            Self::Boolean(_) => ColumnKind::Boolean,
            Self::Integer(_) => ColumnKind::Integer,
            Self::Float(_) => ColumnKind::Float,
            Self::Text(_) => ColumnKind::Text,
        }
    }

    const fn len(&self) -> usize {
        match self {
            Self::Boolean(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }
}

/// Columns of equal length.
struct OwnedRows {
    columns: Vec<(String, Option<ColumnKind>)>,
    values: Vec<Column>,
}

impl TableRows for OwnedRows {
    fn columns(&self) -> &[(String, Option<ColumnKind>)] {
        &self.columns
    }

    fn n_rows(&self) -> usize {
        self.values.first().map_or(0, Column::len)
    }

    fn write_field(&self, row: usize, column: usize, out: &mut Vec<u8>) {
        match &self.values[column] {
            Column::Boolean(values) => out.push(b'0' + u8::from(values[row])),
            Column::Integer(values) => write_whole(values[row], out),
            Column::Float(values) => write_float(values[row], out),
            Column::Text(values) => out.extend_from_slice(values[row].as_bytes()),
        }
    }
}

/// A table in memory, which every reader accepts in place of a file. Copies share the rows.
///
/// # Examples
/// ```
/// use dp_data::{Column, MemoryTable, RatingsFormat, TableSource, read_ratings};
/// let table = MemoryTable::of_columns("stars", vec![
///     ("user".to_owned(), Column::Text(vec!["ann".to_owned(), "bob".to_owned()])),
///     ("item".to_owned(), Column::Integer(vec![7, 8])),
///     ("rating".to_owned(), Column::Float(vec![4.0, 2.5])),
/// ])?;
/// let ratings = read_ratings(table, &RatingsFormat::default())?;
/// assert_eq!(ratings.catalogue().ids(), ["7", "8"]);
/// # Ok::<(), dp_data::Error>(())
/// ```
#[derive(Clone)]
pub struct MemoryTable {
    name: Arc<str>,
    rows: Arc<dyn TableRows>,
}

impl MemoryTable {
    /// Creates a table with these rows; `name` is shown instead of the path in errors.
    pub fn new(name: impl Into<Arc<str>>, rows: impl TableRows + 'static) -> Self {
        Self {
            name: name.into(),
            rows: Arc::new(rows),
        }
    }

    /// Creates a table of named columns.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] if their lengths differ.
    pub fn of_columns(
        name: impl Into<Arc<str>>,
        columns: impl IntoIterator<Item = (String, Column)>,
    ) -> Result<Self> {
        let (names, values): (Vec<String>, Vec<Column>) = columns.into_iter().unzip();
        let n_rows = values.first().map_or(0, Column::len);
        if let Some(uneven) = values.iter().find(|column| column.len() != n_rows) {
            let error = dp_core::ShapeError::new("rows of a column", uneven.len(), n_rows);
            return Err(error.into());
        }
        let kinds = values.iter().map(|column| Some(column.kind()));
        let columns = names.into_iter().zip(kinds).collect();
        Ok(Self::new(name, OwnedRows { columns, values }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of its columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = &str> {
        self.rows.columns().iter().map(|(name, _)| name.as_str())
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.rows.n_rows()
    }

    /// The table as a csv file, for uses that require a file: public lists of items. Columns of
    /// unsupported types are left out.
    #[must_use]
    #[allow(
        clippy::missing_panics_doc,
        reason = "a buffer in memory takes everything"
    )]
    pub fn to_csv(&self) -> Vec<u8> {
        let columns = self.rows.columns().iter().enumerate();
        let (places, names): (Vec<usize>, Vec<&str>) = columns
            .filter(|(_, (_, kind))| kind.is_some())
            .map(|(at, (name, _))| (at, name.as_str()))
            .unzip();
        let mut writer = csv::Writer::from_writer(Vec::new());
        let memory = "a buffer in memory takes everything";
        writer.write_record(names).expect(memory);
        let mut field = Vec::new();
        for row in 0..self.n_rows() {
            for &column in &places {
                field.clear();
                self.rows.write_field(row, column, &mut field);
                writer.write_field(&field).expect(memory);
            }
            writer.write_record(None::<&[u8]>).expect(memory);
        }
        writer.into_inner().expect(memory)
    }
}

impl fmt::Debug for MemoryTable {
    /// Shows the name, never the contents.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MemoryTable")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PartialEq for MemoryTable {
    /// Whether both share the same rows.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows)
    }
}

/// The source of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableSource {
    /// In a file, in any of the [formats](crate#formats).
    File(PathBuf),
    /// In memory.
    Memory(MemoryTable),
}

impl TableSource {
    /// The path, if it is a file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Memory(_) => None,
        }
    }

    pub(super) fn open(self) -> Result<(Input<'static>, String)> {
        match self {
            Self::File(path) => open_table(&path),
            Self::Memory(table) => {
                let name = table.name.to_string();
                Ok((Input::Memory(MemoryReader::new(table)), name))
            }
        }
    }
}

impl fmt::Display for TableSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Memory(table) => table.name.fmt(out),
        }
    }
}

impl<P: AsRef<Path>> From<P> for TableSource {
    fn from(path: P) -> Self {
        Self::File(path.as_ref().to_owned())
    }
}

impl From<&Self> for TableSource {
    fn from(source: &Self) -> Self {
        source.clone()
    }
}

impl From<MemoryTable> for TableSource {
    fn from(table: MemoryTable) -> Self {
        Self::Memory(table)
    }
}

/// The rows of a table in memory, one after the other, as text fields.
pub(super) struct MemoryReader {
    table: MemoryTable,
    /// Positions of the columns that are read.
    wanted: Vec<usize>,
    number: usize,
    row: Vec<u8>,
}

impl MemoryReader {
    const fn new(table: MemoryTable) -> Self {
        Self {
            table,
            wanted: Vec::new(),
            number: 0,
            row: Vec::new(),
        }
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.table.columns()
    }

    /// Declares which columns are read; the others are empty in every row. The first unsupported
    /// column is returned as an error.
    pub(super) fn read_only(&mut self, wanted: Vec<usize>) -> Result<(), usize> {
        let columns = self.table.rows.columns();
        match wanted.iter().find(|&&at| columns[at].1.is_none()) {
            Some(&at) => Err(at),
            None => {
                self.wanted = wanted;
                Ok(())
            }
        }
    }

    pub(super) fn can_be_id(&self, column: usize) -> bool {
        let (_, kind) = self.table.rows.columns()[column];
        kind.is_some_and(ColumnKind::can_be_id)
    }

    /// Moves to the next row, whose fields are ranges of [`row`](Self::row); false at the end.
    pub(super) fn advance(&mut self, fields: &mut Vec<Range<usize>>) -> bool {
        if self.number == self.table.n_rows() {
            return false;
        }
        self.row.clear();
        fields.clear();
        fields.resize(self.table.rows.columns().len(), 0..0);
        for &column in &self.wanted {
            let start = self.row.len();
            let rows = &self.table.rows;
            rows.write_field(self.number, column, &mut self.row);
            fields[column] = start..self.row.len();
        }
        self.number += 1;
        true
    }

    pub(super) fn row(&self) -> &[u8] {
        &self.row
    }

    /// The current row's number, counted from 1.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    pub(super) fn name(&self) -> &str {
        self.table.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error, RatingsFormat, SampleColumns, read_ratings, read_ratings_from, read_samples,
    };

    fn column(name: &str, values: Column) -> (String, Column) {
        (name.to_owned(), values)
    }

    fn texts(values: &[&str]) -> Column {
        Column::Text(values.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_table_in_memory_is_read_as_the_csv_of_it() {
        let text = "user,item,rating\n7,b,0.1\n8,a,1\n7,a,-3.25\n";
        let format = RatingsFormat::default();
        let from_text = read_ratings_from(text.as_bytes(), "r.csv", &format, None).unwrap();
        let table = MemoryTable::of_columns(
            "r",
            [
                column("user", Column::Integer(vec![7, 8, 7])),
                column("item", texts(&["b", "a", "a"])),
                column("rating", Column::Float(vec![0.1, 1.0, -3.25])),
            ],
        );
        let in_memory = read_ratings(table.unwrap(), &format).unwrap();
        assert_eq!(in_memory.catalogue().ids(), from_text.catalogue().ids());
        assert_eq!(in_memory.user_ids().expose(), from_text.user_ids().expose());
        let (mine, theirs) = (in_memory.interactions(), from_text.interactions());
        for (own, other) in mine.expose().users().zip(theirs.expose().users()) {
            assert!(own.iter().eq(other.iter()));
        }
    }

    #[test]
    fn errors_name_table_row_and_column() {
        let read = |user: Column, rating: Column| {
            let item = Column::Integer(vec![1, 2]);
            let columns = [
                column("user", user),
                column("item", item),
                column("rating", rating),
            ];
            let table = MemoryTable::of_columns("stars", columns).unwrap();
            let read = read_ratings(table, &RatingsFormat::default());
            read.err().unwrap().to_string()
        };
        let four = || Column::Float(vec![4.0, 4.0]);
        for (user, rating, said) in [
            (
                texts(&["ann", ""]),
                four(),
                "stars:2:1: expected an id for the user; the field is empty",
            ),
            (
                texts(&["ann", "bob"]),
                texts(&["4", "four"]),
                "stars:2:3: expected a number for the rating",
            ),
            (
                Column::Float(vec![1.0, 2.0]),
                four(),
                "stars:1:1: expected a column of text or whole numbers for the user's id",
            ),
        ] {
            assert_eq!(read(user, rating), said);
        }
        let uneven = [
            column("user", texts(&["ann"])),
            column("item", texts(&["a", "b"])),
        ];
        assert!(matches!(
            MemoryTable::of_columns("t", uneven),
            Err(Error::Shape(_))
        ));
        let debugged = format!(
            "{:?}",
            MemoryTable::of_columns("t", [column("user", texts(&["ann"]))]).unwrap()
        );
        assert_eq!(debugged, "MemoryTable { name: \"t\", .. }");
    }

    #[test]
    fn numbers_are_written_as_rust_writes_them() {
        let whole = [0, 7, 10, -1, 1_234_567_890_123, i64::MAX, i64::MIN];
        for value in whole {
            let mut out = Vec::new();
            write_whole(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
        let floats = [
            0.0,
            -0.0,
            4.0,
            3.5,
            0.5,
            -2.5,
            0.1,
            1e9,
            999_999_999.5,
            1e300,
            f64::NAN,
        ];
        for value in floats {
            let mut out = Vec::new();
            write_float(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn a_list_of_items_is_a_csv_file_that_reads_back() {
        let table = MemoryTable::of_columns(
            "items",
            [
                column("item", Column::Integer(vec![7, 8])),
                column("title", texts(&["Say \"hi\", twice", ""])),
            ],
        );
        let csv = String::from_utf8(table.unwrap().to_csv()).unwrap();
        assert_eq!(csv, "item,title\n7,\"Say \"\"hi\"\", twice\"\n8,\n");
    }

    #[test]
    fn labelled_rows_come_from_memory_too() {
        let table = MemoryTable::of_columns(
            "rows",
            [
                column("user", texts(&["ann", "bob", "ann"])),
                column("x", Column::Float(vec![1.5, f64::NAN, 2.0])),
                column("y", Column::Boolean(vec![true, false, false])),
            ],
        );
        let read = read_samples(table.unwrap(), &SampleColumns::default()).unwrap();
        let rows: Vec<_> = read.users().expose()[0].rows(1).collect();
        assert_eq!(rows, [(&[1.5][..], 1.0), (&[2.0], 0.0)]);
        assert_eq!(*read.n_not_finite().expose(), 1);
    }

    #[test]
    fn a_missing_rating_is_left_out_and_a_missing_id_is_an_error() {
        let table = |users: &[&str]| {
            let columns = [
                column("user", texts(users)),
                column("item", Column::Integer(vec![1, 1])),
                column("rating", texts(&["4", ""])),
            ];
            MemoryTable::of_columns("r", columns).unwrap()
        };
        let read = read_ratings(table(&["ann", "bob"]), &RatingsFormat::default()).unwrap();
        assert_eq!(read.summary().expose().dropped.not_finite, 1);
        assert_eq!(read.interactions().expose().n_records(), 1);
        assert!(read_ratings(table(&["ann", ""]), &RatingsFormat::default()).is_err());
    }
}
