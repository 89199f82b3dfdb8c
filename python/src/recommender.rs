//! Recommenders: planning, training, loading, and one user's personal part.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field};
use dp_personal::data::{RatingsColumns, TableSource};
use dp_personal::settings::TrainSettings;
use dp_personal::workflows::recommend::{OwnTastes, Recommender};
use dp_personal::workflows::train::{plan, train};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::errors::Raise;
use crate::run::{Listener, run};
use crate::settings::{Given, given, matrix_interface, planned};
use crate::tables::AnyTable;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Factors>()?;
    module.add_class::<Own>()?;
    module.add_function(wrap_pyfunction!(train_plan, module)?)?;
    module.add_function(wrap_pyfunction!(train_fit, module)?)
}

/// The plan of a run as JSON.
#[pyfunction]
fn train_plan(py: Python<'_>, settings: Given) -> PyResult<String> {
    planned::<TrainSettings>(py, settings, plan)
}

/// Trains on a table and writes the release folder; returns the summary as text.
#[pyfunction]
fn train_fit(
    py: Python<'_>,
    settings: Given,
    ratings: AnyTable<'_>,
    listener: Listener<'_>,
) -> PyResult<String> {
    let mut settings: TrainSettings = given(settings).settings().raise(py)?;
    settings.ratings = ratings.source();
    let outcome = run(py, &listener, |watch| train(&settings, watch))?;
    Ok(outcome.summary.replace("--dim 3", "`dim=3`"))
}

/// Released item factors.
#[pyclass(frozen, module = "dp_personal._native")]
struct Factors(Arc<Recommender>);

#[pymethods]
impl Factors {
    #[staticmethod]
    #[pyo3(signature = (folder, items = None))]
    fn read(py: Python<'_>, folder: &str, items: Option<String>) -> PyResult<Self> {
        let items = items.as_deref().map(std::path::Path::new);
        let model = py.detach(|| Recommender::read(folder, items)).raise(py)?;
        Ok(Self(Arc::new(model)))
    }

    /// The factors in place, for numpy: an array created from this keeps the model alive and is
    /// read-only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let factors = self.0.factors();
        let shape = (factors.n_items(), factors.dim());
        matrix_interface(py, factors.item_factors(), shape)
    }

    fn items(&self) -> Vec<&str> {
        let ids = self.0.catalogue().ids();
        ids.iter().map(String::as_str).collect()
    }

    fn titles(&self) -> Vec<Option<&str>> {
        let titles = self.0.catalogue().titles();
        titles.iter().map(Option::as_deref).collect()
    }

    /// Number of learned taste factors.
    fn n_tastes(&self) -> usize {
        self.0.factors().n_tastes()
    }

    /// Why there are none, if there are none.
    fn no_tastes(&self) -> Option<&str> {
        self.0.no_tastes()
    }

    /// Number, cosine and its standard deviation of the items nearest to one, most similar first;
    /// none for an item within its noise.
    fn nearest(&self, item: usize, k: usize) -> Vec<(usize, f64, Option<f64>)> {
        let model = self.0.factors();
        if !model.has_tastes_above_noise(item) {
            return Vec::new();
        }
        let near = model.nearest_to(item, k, |other| model.has_tastes_above_noise(other));
        near.iter()
            .map(|of| (of.item, of.cosine, of.stddev))
            .collect()
    }

    /// Standard errors of the factors, row by row, if they are known.
    fn standard_errors(&self) -> Option<Vec<f64>> {
        self.0.factors().standard_errors().map(<[f64]>::to_vec)
    }

    /// Ids, titles and vectors in single precision as an Arrow stream of one batch, for any library
    /// that reads Arrow. It always has this schema, whatever is requested, as the protocol permits:
    /// casts would add a third to the size of the package.
    fn arrow_stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batch = vectors(&self.0).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        let schema = batch.schema();
        let reader = RecordBatchIterator::new([Ok(batch)], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn is_implicit(&self) -> bool {
        self.0.is_implicit()
    }

    fn personalize(
        &self,
        py: Python<'_>,
        history: AnyTable<'_>,
        columns: [Option<String>; 3],
        min_rating: Option<f64>,
    ) -> PyResult<Own> {
        let source: TableSource = history.source();
        let [user, item, rating] = columns;
        let columns = RatingsColumns { user, item, rating };
        let own = py
            .detach(|| self.0.personalize(source, columns, min_rating))
            .raise(py)?;
        Ok(Own {
            model: Arc::clone(&self.0),
            own,
        })
    }
}

/// Item, title and vector, one row for each item of the catalogue.
fn vectors(model: &Recommender) -> Result<RecordBatch, ArrowError> {
    let (factors, catalogue) = (model.factors(), model.catalogue());
    let dim = i32::try_from(factors.dim()).map_err(|e| ArrowError::SchemaError(e.to_string()))?;
    #[allow(
        clippy::cast_possible_truncation,
        reason = "single precision is asked for"
    )]
    let numbers = factors.item_factors().iter().map(|&v| v as f32);
    let numbers: ArrayRef = Arc::new(Float32Array::from_iter_values(numbers));
    let number = Arc::new(Field::new("item", DataType::Float32, false));
    let of_items = FixedSizeListArray::try_new(number, dim, numbers, None)?;
    let ids = StringArray::from_iter_values(catalogue.ids());
    let titles = StringArray::from_iter(catalogue.titles().iter().map(Option::as_deref));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("item", Arc::new(ids), false),
        ("title", Arc::new(titles), true),
        ("vector", Arc::new(of_items), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns)
}

type Item = (String, Option<String>, f64, Option<(f64, f64)>);

/// One user's personal part of a model.
#[pyclass(frozen, module = "dp_personal._native")]
struct Own {
    model: Arc<Recommender>,
    own: OwnTastes,
}

#[pymethods]
impl Own {
    /// Id, title, score and interval of the best items, by the lower ends of their intervals or by score.
    fn recommend(&self, py: Python<'_>, k: usize, by_lower: bool) -> PyResult<Vec<Item>> {
        let best = py.detach(|| match by_lower {
            true => self.model.recommend_by_lower(&self.own, k),
            false => self.model.recommend(&self.own, k),
        });
        let best = best.raise(py)?.into_iter();
        Ok(best
            .map(|item| {
                let interval = item.interval.map(|[low, high]| (low, high));
                (item.id, item.title, item.score, interval)
            })
            .collect())
    }

    /// NaN for an item that the model does not know.
    fn predict(&self, items: Vec<String>) -> Vec<f64> {
        let items = items.iter();
        let predicted = items.map(|item| self.model.predict(&self.own, item));
        predicted.map(|score| score.unwrap_or(f64::NAN)).collect()
    }

    /// The vector that rows of the factors are multiplied with.
    fn vector(&self) -> Vec<f64> {
        self.own.vector()
    }

    #[getter]
    fn offset(&self) -> f64 {
        self.own.offset()
    }

    #[getter]
    fn says_nothing(&self) -> bool {
        self.own.says_nothing()
    }

    #[getter]
    fn orders_alike(&self) -> bool {
        self.own.orders_alike()
    }

    #[getter]
    fn n_unknown_items(&self) -> usize {
        self.own.n_unknown_items()
    }
}
