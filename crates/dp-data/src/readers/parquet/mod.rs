//! Rows of a Parquet file, row group by row group, as fields of text: what a csv file of the same table would hold.

mod column;
mod contained;
mod pages;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ops::Range;

use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::TypePtr;

use self::column::{Column, Kind};
use self::contained::contained;
pub use self::contained::panic_is_contained;
use crate::{Error, Result};

/// The rows of a file. Of what is read, a batch of values of each wanted column is held, and a page.
pub(super) struct RowGroups {
    file: Box<dyn FileReader>,
    /// Bytes of the file.
    length: u64,
    name: String,
    columns: Vec<Declared>,
    /// Places among `columns` of those that are read, increasing.
    wanted: Vec<usize>,
    /// Columns of the present row group, one for each that is wanted.
    group: Vec<Column>,
    n_groups: usize,
    left_in_group: u64,
    number: usize,
    row: Vec<u8>,
}

/// A column as the schema has it.
struct Declared {
    name: String,
    /// Place among the leaves, and what is stored there; none for what is not read: nested, repeated, dates, decimals.
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
        // without what the decoder says: footers hold the least and greatest values of columns
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

    /// Declares which columns are read; the others are empty in every row. The first that cannot be read is an error.
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

    /// Whether a column holds what can be an id.
    pub(super) fn can_be_id(&self, column: usize) -> bool {
        let kind = self.columns[column].leaf.map(|(_, kind)| kind);
        kind.is_some_and(Kind::can_be_id)
    }

    /// Moves to the next row, whose fields are places in [`row`](Self::row); false at the end.
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

    /// The current row's fields, one behind the other.
    pub(super) fn row(&self) -> &[u8] {
        &self.row
    }

    /// The current row's number, counted from 1.
    pub(super) const fn number(&self) -> usize {
        self.number
    }

    /// The name that errors show.
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

    /// The wanted columns of the present row group, which is the `at`-th from 0.
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

    /// Leaves a row group, all rows of which were read: none of its columns may have more.
    fn close_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        match contained(|| group.iter_mut().all(Column::has_ended)) {
            Some(true) => Ok(()),
            _ => Err(self.damaged_group()),
        }
    }

    /// Without what the decoder says: it stood before values.
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

/// Whether no number of rows is negative and the row groups have as many as the file.
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

/// Whether a column's pages are where a file of this length can have them; the decoder takes that for granted.
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

/// Top-level columns, each with its leaf where it is one.
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
