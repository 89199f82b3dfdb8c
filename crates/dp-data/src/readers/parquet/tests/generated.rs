//! Files written by the parquet crate itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

/// Values of a column.
pub(super) enum Cells {
    Text(Vec<Option<&'static str>>),
    Whole(Vec<Option<i64>>),
    Float(Vec<Option<f64>>),
    Boolean(Vec<Option<bool>>),
}

/// A table that is written with `rows_per_group` rows per row group.
pub(super) struct Generated {
    /// Each column as declared in its schema, with its values. Columns without nulls may be
    /// `required`.
    pub(super) columns: Vec<(&'static str, Cells)>,
    pub(super) rows_per_group: usize,
    pub(super) compression: Compression,
}

impl Generated {
    pub(super) fn of(columns: Vec<(&'static str, Cells)>) -> Self {
        Self {
            columns,
            rows_per_group: usize::MAX,
            compression: Compression::SNAPPY,
        }
    }

    pub(super) fn write(&self, path: &Path) {
        let properties = WriterProperties::builder().set_compression(self.compression);
        fs::write(path, self.bytes(properties)).unwrap();
    }

    /// The file as written with these settings.
    pub(super) fn bytes(&self, properties: WriterPropertiesBuilder) -> Vec<u8> {
        let declared: String = self.columns.iter().map(|(d, _)| format!("{d};")).collect();
        let schema = parse_message_type(&format!("message table {{ {declared} }}")).unwrap();
        let properties = Arc::new(properties.build());
        let mut out = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
        let (mut first, n_rows) = (0, self.columns[0].1.len());
        while first < n_rows {
            let end = n_rows.min(first.saturating_add(self.rows_per_group));
            let mut group = out.next_row_group().unwrap();
            for (declared, cells) in &self.columns {
                let mut column = group.next_column().unwrap().unwrap();
                let is_nullable = !declared.starts_with("required");
                cells.write(first..end, is_nullable, column.untyped());
                column.close().unwrap();
            }
            group.close().unwrap();
            first = end;
        }
        out.into_inner().unwrap()
    }

    /// The file in a temporary folder.
    pub(super) fn file(&self) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        self.write(&path);
        (folder, path)
    }
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Text(cells) => cells.len(),
            Self::Whole(cells) => cells.len(),
            Self::Float(cells) => cells.len(),
            Self::Boolean(cells) => cells.len(),
        }
    }

    fn write(
        &self,
        rows: std::ops::Range<usize>,
        is_nullable: bool,
        column: &mut ColumnWriter<'_>,
    ) {
        fn levels<T>(cells: &[Option<T>]) -> Vec<i16> {
            cells.iter().map(|cell| cell.is_some().into()).collect()
        }
        macro_rules! write {
            ($cells:expr, $column:expr, $as:expr) => {{
                let levels = levels(&$cells[rows.clone()]);
                let values: Vec<_> = $cells[rows].iter().flatten().map($as).collect();
                let levels = is_nullable.then_some(&levels[..]);
                $column.write_batch(&values, levels, None).unwrap();
            }};
        }
        match (self, column) {
            (Self::Text(cells), ColumnWriter::ByteArrayColumnWriter(out)) => {
                write!(cells, out, |text| ByteArray::from(*text));
            }
            (Self::Whole(cells), ColumnWriter::Int64ColumnWriter(out)) => {
                write!(cells, out, |x| *x);
            }
            (Self::Whole(cells), ColumnWriter::Int32ColumnWriter(out)) => {
                write!(cells, out, |x| i32::try_from(*x).unwrap());
            }
            (Self::Float(cells), ColumnWriter::DoubleColumnWriter(out)) => {
                write!(cells, out, |x| *x);
            }
            (Self::Float(cells), ColumnWriter::FloatColumnWriter(out)) => {
                write!(cells, out, |x| *x as f32);
            }
            (Self::Boolean(cells), ColumnWriter::BoolColumnWriter(out)) => {
                write!(cells, out, |x| *x);
            }
            _ => panic!("no such column"),
        }
    }
}

pub(super) fn texts(values: &[&'static str]) -> Cells {
    Cells::Text(values.iter().map(|text| Some(*text)).collect())
}

pub(super) fn wholes(values: impl IntoIterator<Item = i64>) -> Cells {
    Cells::Whole(values.into_iter().map(Some).collect())
}

pub(super) fn floats(values: impl IntoIterator<Item = f64>) -> Cells {
    Cells::Float(values.into_iter().map(Some).collect())
}
