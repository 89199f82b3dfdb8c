//! One column of a row group, a batch of values at a time.

use std::io::Write;

use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::schema::types::ColumnDescriptor;

use super::pages::CheckedPages;

/// Values that are decoded at once.
pub(super) const BATCH: usize = 1024;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Integer { is_signed: bool },
    Float,
    Text,
}

impl Kind {
    /// The kind of a column, none for what is not read.
    pub(super) fn of(column: &ColumnDescriptor) -> Option<Self> {
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
                // a column of nulls alone is Unknown
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

    pub(super) const fn can_be_id(self) -> bool {
        matches!(self, Self::Integer { .. } | Self::Text)
    }
}

/// A column that is being read.
pub(super) enum Column {
    Boolean(Cells<BoolType>),
    Int32(Cells<Int32Type>, bool),
    Int64(Cells<Int64Type>, bool),
    Float(Cells<FloatType>),
    Double(Cells<DoubleType>),
    Text(Cells<ByteArrayType>),
}

impl Column {
    /// The column of a row group that is the `leaf`-th of its schema.
    pub(super) fn open(group: &dyn RowGroupReader, leaf: usize, kind: Kind) -> Result<Self> {
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

    /// Appends the next value as text, nothing for null.
    pub(super) fn write_next(&mut self, out: &mut Vec<u8>) -> Result<()> {
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
    pub(super) fn has_ended(&mut self) -> bool {
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
pub(super) struct Cells<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    /// 0 for null; empty where the schema knows no nulls.
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

    /// Values that are decoded and kept, nulls among them.
    #[cfg(test)]
    pub(super) const fn n_held(&self) -> usize {
        self.values.len() + self.levels.len()
    }

    fn write_next(
        &mut self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&T::T, &mut Vec<u8>) -> std::io::Result<()>,
    ) -> Result<()> {
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

    /// The next batch; the column must not have ended.
    fn fill(&mut self) -> Result<()> {
        if self.read()? == 0 {
            return Err(ended());
        }
        Ok(())
    }

    /// The next batch's number of rows.
    fn read(&mut self) -> Result<usize> {
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
