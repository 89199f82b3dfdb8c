//! Tables of Python libraries, read in place.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, types};
use arrow_schema::{ArrowError, DataType};
use dp_personal::data::{
    Column, ColumnKind, MemoryTable, TableRows, TableSource, write_display, write_float,
    write_whole,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use pyo3_arrow::PyRecordBatchReader;

use crate::errors::{Raise, bad_input};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Table>()
}

/// A table that workflows read instead of a file.
#[pyclass(frozen, module = "dp_personal._native")]
pub(crate) struct Table {
    pub(crate) table: MemoryTable,
    arrow: Option<Arc<ArrowRows>>,
}

#[pymethods]
impl Table {
    /// A table of anything with `__arrow_c_stream__`, without a copy of its buffers.
    #[staticmethod]
    fn from_arrow(py: Python<'_>, name: &str, stream: PyRecordBatchReader) -> PyResult<Self> {
        let reader = stream.into_reader()?;
        // a producer that needs the interpreter's lock acquires it itself
        let rows = py.detach(|| {
            let schema = reader.schema();
            let batches = reader.collect::<Result<Vec<_>, _>>()?;
            let names = schema.fields().iter().map(|field| field.name().clone());
            Ok(ArrowRows::new(names.collect(), batches))
        });
        let rows: Result<ArrowRows, ArrowError> = rows;
        let rows = Arc::new(rows.map_err(|e| bad_input(py, name, &e.to_string()))?);
        Ok(Self {
            table: MemoryTable::new(name, SharedRows(Arc::clone(&rows))),
            arrow: Some(rows),
        })
    }

    /// A table of columns: a list of texts, or the bytes of numbers with their type `i8`, `f8` or
    /// `b1`.
    #[staticmethod]
    fn from_columns(
        py: Python<'_>,
        name: &str,
        columns: Vec<(String, String, Bound<'_, PyAny>)>,
    ) -> PyResult<Self> {
        let owned = |(column, kind, values): (String, String, Bound<'_, PyAny>)| {
            let values = match kind.as_str() {
                "str" => Column::Text(values.extract()?),
                kind => numbers(kind, &values.extract::<PyBackedBytes>()?)?,
            };
            Ok((column, values))
        };
        let columns = columns
            .into_iter()
            .map(owned)
            .collect::<PyResult<Vec<_>>>()?;
        let table = MemoryTable::of_columns(name, columns);
        Ok(Self {
            table: table.map_err(dp_personal::error::Error::from).raise(py)?,
            arrow: None,
        })
    }

    fn column_names(&self) -> Vec<&str> {
        self.table.columns().collect()
    }

    fn __len__(&self) -> usize {
        self.table.n_rows()
    }

    /// The table as a csv file, for lists of public items.
    fn to_csv<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.table.to_csv())
    }

    /// The shard of each row, if users are assigned to `n_shards` shards by the ids in this column.
    /// None for a table that is not an Arrow table.
    fn shards(&self, py: Python<'_>, column: usize, n_shards: usize) -> Option<Vec<usize>> {
        let rows = SharedRows(Arc::clone(self.arrow.as_ref()?));
        let shard_of = dp_personal::workers::shard_of(n_shards);
        let mut field = Vec::new();
        let mut of_row = |row| {
            field.clear();
            rows.write_field(row, column, &mut field);
            shard_of(&String::from_utf8_lossy(&field))
        };
        Some(py.detach(|| (0..rows.n_rows()).map(&mut of_row).collect()))
    }

    /// Addresses of the values of a column, one for each batch, to test that they were not copied.
    fn addresses(&self, column: usize) -> Vec<usize> {
        let batches = self.arrow.iter().flat_map(|rows| &rows.batches);
        let columns = batches.filter_map(|(_, cells)| cells.get(column));
        columns.map(Cells::address).collect()
    }
}

/// A table given by Python: the name of a file, or a table in memory.
#[derive(FromPyObject)]
pub(crate) enum AnyTable<'py> {
    Path(String),
    Memory(PyRef<'py, Table>),
}

impl AnyTable<'_> {
    pub(crate) fn source(&self) -> TableSource {
        match self {
            Self::Path(path) => path.into(),
            Self::Memory(table) => table.table.clone().into(),
        }
    }
}

/// Parses numbers from their bytes.
fn numbers(kind: &str, bytes: &[u8]) -> PyResult<Column> {
    let eights = || bytes.as_chunks::<8>().0.iter();
    Ok(match kind {
        "i8" => Column::Integer(eights().map(|&b| i64::from_ne_bytes(b)).collect()),
        "f8" => Column::Float(eights().map(|&b| f64::from_ne_bytes(b)).collect()),
        "b1" => Column::Boolean(bytes.iter().map(|&b| b != 0).collect()),
        _ => return Err(PyTypeError::new_err(format!("a column of {kind}"))),
    })
}

/// Batches of an Arrow stream, whose buffers are not copied.
struct ArrowRows {
    columns: Vec<(String, Option<ColumnKind>)>,
    /// The number of rows before each batch, and its columns.
    batches: Vec<(usize, Vec<Cells>)>,
    n_rows: usize,
}

struct SharedRows(Arc<ArrowRows>);

impl ArrowRows {
    /// An index that pandas passes as a column is left out.
    fn new(names: Vec<String>, batches: Vec<RecordBatch>) -> Self {
        let is_index = |name: &String| name.starts_with("__index_level_");
        let kept: Vec<usize> = (0..names.len())
            .filter(|&at| !is_index(&names[at]))
            .collect();
        let mut n_rows = 0;
        let mut kinds = vec![None; kept.len()];
        let mut cut = Vec::with_capacity(batches.len());
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let cells: Vec<Cells> = kept.iter().map(|&at| Cells::of(batch.column(at))).collect();
            for (kind, cells) in kinds.iter_mut().zip(&cells) {
                *kind = cells.kind();
            }
            cut.push((n_rows, cells));
            n_rows += batch.num_rows();
        }
        if cut.is_empty() {
            kinds.fill(Some(ColumnKind::Text)); // there is no value that could have another type
        }
        let names = kept.into_iter().map(|at| names[at].clone());
        Self {
            columns: names.zip(kinds).collect(),
            batches: cut,
            n_rows,
        }
    }
}

impl TableRows for SharedRows {
    fn columns(&self) -> &[(String, Option<ColumnKind>)] {
        &self.0.columns
    }

    fn n_rows(&self) -> usize {
        self.0.n_rows
    }

    fn write_field(&self, row: usize, column: usize, out: &mut Vec<u8>) {
        let batches = &self.0.batches;
        let at = batches.partition_point(|&(before, _)| before <= row) - 1;
        let (before, cells) = &batches[at];
        cells[column].write(row - before, out);
    }
}

macro_rules! cells {
    ($($name:ident($array:ty) = $kind:ident by $write:ident,)*) => {
        /// The values of a column in one batch.
        enum Cells {
            $( $name($array), )*
            /// Values by number, and the number of each row.
            Dictionary(Box<Cells>, Vec<usize>, ArrayRef),
            /// Only nulls.
            Null,
            /// A type that is not read.
            Other,
        }

        impl Cells {
            fn kind(&self) -> Option<ColumnKind> {
                match self {
                    $( Self::$name(_) => Some(ColumnKind::$kind), )*
                    Self::Dictionary(values, ..) => values.kind(),
                    Self::Null => Some(ColumnKind::Text),
                    Self::Other => None,
                }
            }

            fn write(&self, row: usize, out: &mut Vec<u8>) {
                match self {
                    $( Self::$name(array) => {
                        if array.is_valid(row) {
                            $write(array.value(row), out);
                        }
                    } )*
                    Self::Dictionary(values, keys, of) => {
                        if of.is_valid(row) {
                            values.write(keys[row], out);
                        }
                    }
                    Self::Null | Self::Other => {}
                }
            }
        }
    };
}

type Primitive<T> = arrow_array::PrimitiveArray<T>;

fn write_flag(value: bool, out: &mut Vec<u8>) {
    out.push(b'0' + u8::from(value));
}

fn write_text(value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(value.as_bytes());
}

fn write_small(value: impl Into<i64>, out: &mut Vec<u8>) {
    write_whole(value.into(), out);
}

cells! {
    Boolean(arrow_array::BooleanArray) = Boolean by write_flag,
    Int8(Primitive<types::Int8Type>) = Integer by write_small,
    Int16(Primitive<types::Int16Type>) = Integer by write_small,
    Int32(Primitive<types::Int32Type>) = Integer by write_small,
    Int64(Primitive<types::Int64Type>) = Integer by write_whole,
    UInt8(Primitive<types::UInt8Type>) = Integer by write_small,
    UInt16(Primitive<types::UInt16Type>) = Integer by write_small,
    UInt32(Primitive<types::UInt32Type>) = Integer by write_small,
    UInt64(Primitive<types::UInt64Type>) = Integer by write_display,
    Float32(Primitive<types::Float32Type>) = Float by write_display,
    Float64(Primitive<types::Float64Type>) = Float by write_float,
    Text(arrow_array::StringArray) = Text by write_text,
    LargeText(arrow_array::LargeStringArray) = Text by write_text,
    TextView(arrow_array::StringViewArray) = Text by write_text,
}

impl Cells {
    fn of(array: &ArrayRef) -> Self {
        match array.data_type() {
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::Int8 => Self::Int8(array.as_primitive().clone()),
            DataType::Int16 => Self::Int16(array.as_primitive().clone()),
            DataType::Int32 => Self::Int32(array.as_primitive().clone()),
            DataType::Int64 => Self::Int64(array.as_primitive().clone()),
            DataType::UInt8 => Self::UInt8(array.as_primitive().clone()),
            DataType::UInt16 => Self::UInt16(array.as_primitive().clone()),
            DataType::UInt32 => Self::UInt32(array.as_primitive().clone()),
            DataType::UInt64 => Self::UInt64(array.as_primitive().clone()),
            DataType::Float32 => Self::Float32(array.as_primitive().clone()),
            DataType::Float64 => Self::Float64(array.as_primitive().clone()),
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeText(array.as_string().clone()),
            DataType::Utf8View => Self::TextView(array.as_string_view().clone()),
            DataType::Null => Self::Null,
            DataType::Dictionary(..) => {
                let of = array.as_any_dictionary();
                let values = Box::new(Self::of(of.values()));
                let keys = match of.values().is_empty() {
                    true => Vec::new(), // every row is null
                    false => of.normalized_keys(),
                };
                Self::Dictionary(values, keys, Arc::clone(array))
            }
            _ => Self::Other,
        }
    }

    /// The address of the first value.
    fn address(&self) -> usize {
        match self {
            Self::Int32(array) => array.values().as_ptr().addr(),
            Self::Int64(array) => array.values().as_ptr().addr(),
            Self::Float32(array) => array.values().as_ptr().addr(),
            Self::Float64(array) => array.values().as_ptr().addr(),
            Self::Text(array) => array.values().as_ptr().addr(),
            Self::LargeText(array) => array.values().as_ptr().addr(),
            _ => 0,
        }
    }
}
