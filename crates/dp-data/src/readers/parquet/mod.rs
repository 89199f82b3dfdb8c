//! Rows of a Parquet file, row group by row group, as text fields: the same as in a csv file of the
//! table.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, TypePtr};

use crate::{Error, Result};

/// The rows of a file. Only a batch of values of each wanted column, and a page, are held in
/// memory.
pub(super) struct RowGroups {
    file: Box<dyn FileReader>,
    /// Bytes of the file.
    length: u64,
    name: String,
    columns: Vec<Declared>,
    /// Positions in `columns` of those that are read, increasing.
    wanted: Vec<usize>,
    /// Columns of the current row group, one for each wanted column.
    group: Vec<Column>,
    n_groups: usize,
    left_in_group: u64,
    number: usize,
    row: Vec<u8>,
}

/// A column as declared in the schema.
struct Declared {
    name: String,
    /// Position among the leaves, and the type stored there; `None` for unsupported columns:
    /// nested, repeated, dates, decimals.
    leaf: Option<(usize, Kind)>,
}

impl RowGroups {
    /// Reads the file's footer.
    pub(super) fn open(file: File, name: String) -> Result<Self> {
        Self::of(file, name)
    }

    fn of(file: impl ChunkReader + 'static, name: String) -> Result<Self> {
        let length = file.len();
        let opened = contained(|| {
            let file = SerializedFileReader::new(file)?;
            let columns = declared(file.metadata());
            let file: Box<dyn FileReader> = Box::new(file);
            Ok::<_, ParquetError>((file, columns))
        });
        // without the decoder's message, because footers contain the minimum and maximum values of
        // columns
        let Some(Ok((file, columns))) = opened else {
            return Err(invalid(&name, "no footer, or a damaged or encrypted one"));
        };
        if !rows_agree(file.metadata()) {
            return Err(invalid(&name, "its numbers of rows do not agree"));
        }
        Ok(Self {
            file,
            length,
            name,
            columns,
            wanted: Vec::new(),
            group: Vec::new(),
            n_groups: 0,
            left_in_group: 0,
            number: 0,
            row: Vec::new(),
        })
    }

    /// Names of the columns.
    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Declares which columns are read; the others are empty in every row. The first unsupported
    /// column is returned as an error.
    pub(super) fn read_only(&mut self, mut wanted: Vec<usize>) -> Result<(), usize> {
        wanted.sort_unstable();
        wanted.dedup();
        let is_other = |&&at: &&usize| self.columns[at].leaf.is_none();
        if let Some(&at) = wanted.iter().find(is_other) {
            return Err(at);
        }
        self.wanted = wanted;
        Ok(())
    }

    /// Whether a column's values can be ids.
    pub(super) fn can_be_id(&self, column: usize) -> bool {
        let kind = self.columns[column].leaf.map(|(_, kind)| kind);
        kind.is_some_and(Kind::can_be_id)
    }

    /// Moves to the next row, whose fields are ranges of [`row`](Self::row); false at the end.
    pub(super) fn advance(&mut self, fields: &mut Vec<Range<usize>>) -> Result<bool> {
        while self.left_in_group == 0 {
            self.close_group()?;
            if self.n_groups == self.file.num_row_groups() {
                return Ok(false);
            }
            self.open_group()?;
        }
        self.left_in_group -= 1;
        self.number += 1;
        self.row.clear();
        fields.clear();
        fields.resize(self.columns.len(), 0..0);
        match contained(|| self.write_row(fields)) {
            Some(Ok(())) => Ok(true),
            _ => Err(self.damaged_group()),
        }
    }

    fn write_row(&mut self, fields: &mut [Range<usize>]) -> Result<(), ParquetError> {
        for (&at, column) in self.wanted.iter().zip(&mut self.group) {
            let start = self.row.len();
            column.write_next(&mut self.row)?;
            fields[at] = start..self.row.len();
        }
        Ok(())
    }

    /// The current row's fields, concatenated.
    pub(super) fn row(&self) -> &[u8] {
        &self.row
    }

    /// The current row's number, counted from 1.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// The name shown in errors.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn open_group(&mut self) -> Result<()> {
        let at = self.n_groups;
        self.n_groups += 1;
        let group = contained(|| self.columns_of(at));
        self.group = group.unwrap_or_else(|| Err(self.damaged_group()))?;
        let n_rows = self.file.metadata().row_group(at).num_rows();
        self.left_in_group = u64::try_from(n_rows).map_err(|_| self.damaged_group())?;
        Ok(())
    }

    /// The wanted columns of the current row group, the `at`-th, counted from 0.
    fn columns_of(&self, at: usize) -> Result<Vec<Column>> {
        let metadata = self.file.metadata().row_group(at);
        let leaves = self.wanted.iter().filter_map(|&at| self.columns[at].leaf);
        for (leaf, _) in leaves.clone() {
            let column = metadata.columns().get(leaf);
            let Some(column) = column.filter(|column| lies_within(column, self.length)) else {
                return Err(self.damaged_group());
            };
            let codec = column.compression();
            if is_unread(&codec) {
                let codec = format!("compressed by {codec}: snappy, gzip and zstd are read");
                return Err(damaged(&self.name, io::Error::other(codec)));
            }
        }
        let opened = |(leaf, kind)| Column::open(self.file.get_row_group(at)?.as_ref(), leaf, kind);
        let group: Result<Vec<Column>, ParquetError> = leaves.map(opened).collect();
        group.map_err(|_| self.damaged_group())
    }

    /// Finishes a row group all of whose rows were read: none of its columns may have more values.
    fn close_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        match contained(|| group.iter_mut().all(Column::has_ended)) {
            Some(true) => Ok(()),
            _ => Err(self.damaged_group()),
        }
    }

    /// Without the decoder's message, which may contain values.
    fn damaged_group(&self) -> Error {
        let place = format!("row group {} cannot be decoded", self.n_groups);
        invalid(&self.name, &place)
    }
}

fn damaged(name: &str, source: io::Error) -> Error {
    Error::Parquet {
        path: name.to_owned(),
        source,
    }
}

fn invalid(name: &str, reason: &str) -> Error {
    let source = io::Error::new(io::ErrorKind::InvalidData, reason);
    damaged(name, source)
}

/// Whether no row count is negative and the row groups together have as many rows as the file.
fn rows_agree(metadata: &ParquetMetaData) -> bool {
    let mut groups = metadata.row_groups().iter().map(|of| of.num_rows());
    let sum = groups.try_fold(0_i64, |sum, n| sum.checked_add(n).filter(|_| n >= 0));
    sum == Some(metadata.file_metadata().num_rows())
}

const fn is_unread(codec: &Compression) -> bool {
    !matches!(
        codec,
        Compression::UNCOMPRESSED
            | Compression::SNAPPY
            | Compression::GZIP(_)
            | Compression::ZSTD(_)
    )
}

/// Whether a column's pages lie within a file of this length, which the decoder takes for granted.
fn lies_within(column: &ColumnChunkMetaData, length: u64) -> bool {
    let offsets = [
        Some(column.data_page_offset()),
        column.dictionary_page_offset(),
    ];
    let lengths = [
        column.compressed_size(),
        column.uncompressed_size(),
        column.num_values(),
    ];
    let starts = offsets.into_iter().flatten();
    starts.chain(lengths).all(|number| number >= 0) && {
        let (start, n_bytes) = column.byte_range();
        start.checked_add(n_bytes).is_some_and(|end| end <= length)
    }
}

/// Top-level columns, each with its leaf if it is one.
fn declared(metadata: &ParquetMetaData) -> Vec<Declared> {
    let schema = metadata.file_metadata().schema_descr();
    let fields: &[TypePtr] = schema.root_schema().get_fields();
    let mut columns: Vec<Declared> = fields
        .iter()
        .map(|field| Declared {
            name: field.name().to_owned(),
            leaf: None,
        })
        .collect();
    for (leaf, column) in schema.columns().iter().enumerate() {
        let root = schema.get_column_root_idx(leaf);
        if fields[root].is_primitive() && column.max_rep_level() == 0 {
            columns[root].leaf = Kind::of(column).map(|kind| (leaf, kind));
        }
    }
    columns
}

/// Number of values that are decoded at once.
const BATCH: usize = 1024;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer { is_signed: bool },
    Float,
    Text,
}

impl Kind {
    /// The type of a column; `None` if it is unsupported.
    fn of(column: &ColumnDescriptor) -> Option<Self> {
        use ConvertedType as C;
        use LogicalType as L;
        let (logical, converted) = (column.logical_type_ref(), column.converted_type());
        match column.physical_type() {
            Type::BOOLEAN => Some(Self::Boolean),
            Type::FLOAT | Type::DOUBLE => Some(Self::Float),
            Type::INT32 | Type::INT64 => match (logical, converted) {
                (Some(L::Integer(of)), _) => Some(Self::Integer {
                    is_signed: of.is_signed,
                }),
                (None, C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64) => {
                    Some(Self::Integer { is_signed: false })
                }
                // a column that contains only nulls is Unknown
                (Some(L::Unknown), _)
                | (None, C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64) => {
                    Some(Self::Integer { is_signed: true })
                }
                _ => None,
            },
            Type::BYTE_ARRAY => match (logical, converted) {
                (Some(L::String | L::Enum | L::Json | L::Unknown), _)
                | (None, C::NONE | C::UTF8 | C::ENUM | C::JSON) => Some(Self::Text),
                _ => None,
            },
            Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => None,
        }
    }

    const fn can_be_id(self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Text)
    }
}

/// A column that is being read.
enum Column {
    Boolean(Cells<BoolType>),
    Int32(Cells<Int32Type>, bool),
    Int64(Cells<Int64Type>, bool),
    Float(Cells<FloatType>),
    Double(Cells<DoubleType>),
    Text(Cells<ByteArrayType>),
}

impl Column {
    /// Opens the `leaf`-th column of the schema in a row group.
    fn open(group: &dyn RowGroupReader, leaf: usize, kind: Kind) -> ParquetResult<Self> {
        let is_signed = kind != Kind::Integer { is_signed: false };
        let column = group.metadata().column(leaf).column_descr_ptr();
        let pages = CheckedPages::of(group.get_column_page_reader(leaf)?);
        Ok(match get_column_reader(column, Box::new(pages)) {
            ColumnReader::BoolColumnReader(reader) => Self::Boolean(Cells::new(reader)),
            ColumnReader::Int32ColumnReader(reader) => Self::Int32(Cells::new(reader), is_signed),
            ColumnReader::Int64ColumnReader(reader) => Self::Int64(Cells::new(reader), is_signed),
            ColumnReader::FloatColumnReader(reader) => Self::Float(Cells::new(reader)),
            ColumnReader::DoubleColumnReader(reader) => Self::Double(Cells::new(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Self::Text(Cells::new(reader)),
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                return Err(ended());
            }
        })
    }

    /// Appends the next value as text; nothing for null.
    fn write_next(&mut self, out: &mut Vec<u8>) -> ParquetResult<()> {
        match self {
            Self::Boolean(cells) => cells.write_next(out, |value, out| {
                out.push(if *value { b'1' } else { b'0' });
                Ok(())
            }),
            Self::Int32(cells, true) => cells.write_next(out, |x, out| write!(out, "{x}")),
            Self::Int32(cells, false) => {
                cells.write_next(out, |x, out| write!(out, "{}", x.cast_unsigned()))
            }
            Self::Int64(cells, true) => cells.write_next(out, |x, out| write!(out, "{x}")),
            Self::Int64(cells, false) => {
                cells.write_next(out, |x, out| write!(out, "{}", x.cast_unsigned()))
            }
            Self::Float(cells) => cells.write_next(out, |x, out| write!(out, "{x}")),
            Self::Double(cells) => cells.write_next(out, |x, out| write!(out, "{x}")),
            Self::Text(cells) => cells.write_next(out, |text: &ByteArray, out| {
                out.extend_from_slice(text.data());
                Ok(())
            }),
        }
    }

    /// Whether no value is left.
    fn has_ended(&mut self) -> bool {
        match self {
            Self::Boolean(cells) => cells.has_ended(),
            Self::Int32(cells, _) => cells.has_ended(),
            Self::Int64(cells, _) => cells.has_ended(),
            Self::Float(cells) => cells.has_ended(),
            Self::Double(cells) => cells.has_ended(),
            Self::Text(cells) => cells.has_ended(),
        }
    }
}

/// Values of one column.
struct Cells<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    /// 0 for null; empty if the schema allows no nulls.
    levels: Vec<i16>,
    n_rows: usize,
    row: usize,
    value: usize,
}

impl<T: DataType> Cells<T> {
    const fn new(reader: ColumnReaderImpl<T>) -> Self {
        Self {
            reader,
            values: Vec::new(),
            levels: Vec::new(),
            n_rows: 0,
            row: 0,
            value: 0,
        }
    }

    /// Number of decoded values that are held, including nulls.
    #[cfg(test)]
    const fn n_held(&self) -> usize {
        self.values.len() + self.levels.len()
    }

    fn write_next(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&T::T, &mut Vec<u8>) -> std::io::Result<()>,
    ) -> ParquetResult<()> {
        if self.row == self.n_rows {
            self.fill()?;
        }
        let is_null = self.levels.get(self.row) == Some(&0);
        self.row += 1;
        if is_null {
            return Ok(());
        }
        let value = self.values.get(self.value).ok_or_else(ended)?;
        self.value += 1;
        Ok(write(value, out)?)
    }

    fn has_ended(&mut self) -> bool {
        let are_used = self.row == self.n_rows && self.value == self.values.len();
        are_used && self.read().is_ok_and(|n_rows| n_rows == 0)
    }

    /// Reads the next batch; the column must not have ended.
    fn fill(&mut self) -> ParquetResult<()> {
        if self.read()? == 0 {
            return Err(ended());
        }
        Ok(())
    }

    /// Reads the next batch and returns its number of rows.
    fn read(&mut self) -> ParquetResult<usize> {
        self.values.clear();
        self.levels.clear();
        (self.row, self.value) = (0, 0);
        let levels = Some(&mut self.levels);
        let (n_rows, _, _) = self
            .reader
            .read_records(BATCH, levels, None, &mut self.values)?;
        self.n_rows = n_rows;
        Ok(n_rows)
    }
}

fn ended() -> ParquetError {
    ParquetError::EOF("fewer values than rows".to_owned())
}

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call whose panic is converted to an
/// [`Error::Parquet`](crate::Error::Parquet).
///
/// The decoder of Parquet files panics on some kinds of damage, and its message then reveals
/// lengths of ids. The readers catch that panic and pass on nothing of it, but by then Rust's panic
/// hook has printed the message to standard error. This crate does not change the hook, which
/// belongs to the program. A program whose standard error others may see can use this function:
///
/// ```
/// let before = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |panic| {
///     if !dp_data::panic_is_contained() {
///         before(panic);
///     }
/// }));
/// # assert!(!dp_data::panic_is_contained());
/// ```
///
/// In a program built with `panic = "abort"` nothing is caught: it terminates at such a file, and
/// the hook can still use this function.
#[must_use]
pub fn panic_is_contained() -> bool {
    IS_CONTAINED.try_with(Cell::get).unwrap_or(false)
}

/// The result of `call`, or `None` if it panics. Anything it modified may then be in any state and
/// must not be read further.
fn contained<T>(call: impl FnOnce() -> T) -> Option<T> {
    let before = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(before);
    result.ok()
}

/// Checks that no page refers to a dictionary that did not come before it, and that no dictionary
/// declares more values than it has bytes: the decoder allocates space for all of them first, and a
/// failed allocation cannot be caught.
struct CheckedPages {
    pages: Box<dyn PageReader>,
    has_dictionary: bool,
}

impl CheckedPages {
    const fn of(pages: Box<dyn PageReader>) -> Self {
        Self {
            pages,
            has_dictionary: false,
        }
    }
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage {
                buf, num_values, ..
            }) => {
                if *num_values as usize > buf.len() {
                    return Err(ParquetError::General("dictionary is too short".to_owned()));
                }
                self.has_dictionary = true;
            }
            Some(data) if !self.has_dictionary && needs_dictionary(data.encoding()) => {
                return Err(ParquetError::General("no dictionary".to_owned()));
            }
            _ => (),
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

#[allow(deprecated, reason = "what older writers call it")]
const fn needs_dictionary(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY
    )
}
