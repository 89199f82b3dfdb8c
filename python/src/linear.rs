//! Linear models of many users: planning, training, loading, and users' personal parts.

use dp_personal::settings::{ClassWeight, FederateSettings, PersonalizeSettings};
use dp_personal::workflows::federate::{FederateOutcome, federate, plan as plan_federate};
use dp_personal::workflows::personalize::{personalize, plan as plan_personalize};
use dp_personal::workflows::predict::{LinearModel, OwnModels};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Raise;
use crate::run::{Listener, run};
use crate::settings::{Given, given, matrix_interface, planned};
use crate::tables::AnyTable;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Linear>()?;
    module.add_class::<People>()?;
    module.add_function(wrap_pyfunction!(personalize_plan, module)?)?;
    module.add_function(wrap_pyfunction!(personalize_fit, module)?)?;
    module.add_function(wrap_pyfunction!(federate_plan, module)?)?;
    module.add_function(wrap_pyfunction!(federate_fit, module)?)
}

#[pyfunction]
fn personalize_plan(py: Python<'_>, settings: Given) -> PyResult<String> {
    planned::<PersonalizeSettings>(py, settings, plan_personalize)
}

#[pyfunction]
fn personalize_fit(
    py: Python<'_>,
    settings: Given,
    data: AnyTable<'_>,
    listener: Listener<'_>,
) -> PyResult<String> {
    let mut settings: PersonalizeSettings = given(settings).settings().raise(py)?;
    settings.run.data = data.source();
    let outcome = run(py, &listener, |watch| personalize(&settings, watch))?;
    Ok(outcome.summary)
}

#[pyfunction]
fn federate_plan(py: Python<'_>, settings: Given) -> PyResult<String> {
    planned::<FederateSettings>(py, settings, plan_federate)
}

#[pyfunction]
fn federate_fit(
    py: Python<'_>,
    settings: Given,
    data: AnyTable<'_>,
    listener: Listener<'_>,
) -> PyResult<String> {
    let mut settings: FederateSettings = given(settings).settings().raise(py)?;
    settings.data = data.source();
    let outcome = run(py, &listener, |watch| federate(&settings, watch))?;
    Ok(match outcome {
        FederateOutcome::Certified(outcome) => outcome.summary,
        FederateOutcome::Exploration(outcome) => outcome.summary,
    })
}

/// The released part of linear models.
#[pyclass(frozen, module = "dp_personal._native")]
struct Linear(LinearModel);

#[pymethods]
impl Linear {
    #[staticmethod]
    fn read(py: Python<'_>, folder: &str) -> PyResult<Self> {
        py.detach(|| LinearModel::read(folder)).raise(py).map(Self)
    }

    /// The released numbers in place, for numpy.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (numbers, [rows, columns]) = self.0.shared();
        matrix_interface(py, numbers, (rows, columns))
    }

    /// The columns that the model was fitted to.
    fn columns(&self) -> Vec<&str> {
        let features = &self.0.inputs().features;
        features.iter().map(|column| column.name.as_str()).collect()
    }

    /// Names of the model inputs.
    fn features(&self) -> Vec<String> {
        self.0.inputs().names().collect()
    }

    /// The ratio of global to local steps, for models learned in rounds.
    fn alpha(&self) -> Option<f64> {
        self.0.alpha()
    }

    fn target(&self) -> &str {
        &self.0.inputs().target.name
    }

    fn personalize(
        &self,
        py: Python<'_>,
        history: AnyTable<'_>,
        user: Option<&str>,
        balanced: bool,
        of_one: bool,
    ) -> PyResult<People> {
        let source = history.source();
        let weight = if balanced {
            ClassWeight::Balanced
        } else {
            ClassWeight::None
        };
        let people = py.detach(|| {
            let people = self.0.personalize(source, user, weight)?;
            if of_one { people.of_one() } else { Ok(people) }
        });
        people.raise(py).map(People)
    }

    /// The listener is told of users without history.
    fn predict(
        &self,
        py: Python<'_>,
        people: &People,
        rows: AnyTable<'_>,
        user: Option<&str>,
        listener: Listener<'_>,
    ) -> PyResult<Vec<f64>> {
        let source = rows.source();
        let rows = run(py, &listener, |_| self.0.predict(&people.0, source, user))?;
        Ok(rows.into_iter().map(|(_, value)| value).collect())
    }
}

/// Users' personal models.
#[pyclass(frozen, module = "dp_personal._native")]
struct People(OwnModels);

#[pymethods]
impl People {
    /// User, number of rows, intercept and coefficients of each.
    fn models(&self) -> Vec<(String, usize, f64, Vec<f64>)> {
        let models = self.0.models().into_iter();
        models
            .map(|own| (own.user, own.n_rows, own.level, own.coefficients))
            .collect()
    }
}
