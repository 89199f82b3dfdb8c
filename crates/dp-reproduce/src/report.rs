//! Rows of a reproduction, as a table and as JSON.

use dp_page::{Block, Table, terminal};
use serde::Serialize;
use serde_json::{Map, Value};

/// One cell: a method with one setting, averaged over seeds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) method: &'static str,
    /// The epsilon to which the noise was calibrated; none without noise.
    pub(crate) epsilon: Option<f64>,
    pub(crate) params: Map<String, Value>,
    pub(crate) metric: &'static str,
    pub(crate) mean: f64,
    /// Standard error of the mean; none with one seed.
    pub(crate) se: Option<f64>,
    pub(crate) n_seeds: usize,
    /// Whether a setting was chosen using the quantity that the method is evaluated on.
    pub(crate) tuned_on_truth: bool,
}

impl Row {
    /// Mean and standard error over one value per seed.
    pub(crate) fn over_seeds(
        method: &'static str,
        epsilon: Option<f64>,
        params: Map<String, Value>,
        metric: &'static str,
        values: &[f64],
    ) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        Self {
            method,
            epsilon,
            params,
            metric,
            mean,
            se: (values.len() > 1).then(|| (squares / (n - 1.0) / n).sqrt()),
            n_seeds: values.len(),
            tuned_on_truth: false,
        }
    }
}

/// All rows as a table.
pub(crate) fn table(rows: &[Row]) -> String {
    let cells = rows.iter().map(|row| {
        let settings = row.params.iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name} {text}"),
            other => format!("{name} {other}"),
        });
        let settings: Vec<String> = settings.collect();
        let epsilon = row.epsilon.map(|e| e.to_string());
        vec![
            row.method.to_owned(),
            epsilon.unwrap_or_else(|| "-".to_owned()),
            figure(row.mean),
            row.se.map_or_else(|| "-".to_owned(), figure),
            row.metric.to_owned(),
            settings.join(", "),
        ]
    });
    let heads = [
        "method",
        "epsilon",
        "mean",
        "std. error",
        "metric",
        "settings",
    ];
    let table = Table::new("", heads, cells).with_text([4, 5]);
    terminal(&[Block::Table(table)])
}

/// Five decimals, or four significant digits for numbers of which five decimals would show few.
fn figure(x: f64) -> String {
    if x == 0.0 || x.abs() >= 0.01 {
        format!("{x:.5}")
    } else {
        format!("{x:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_standard_error_are_those_of_the_values() {
        let row = Row::over_seeds("m", None, Map::new(), "rmse", &[1.0, 2.0, 6.0]);
        // variance 7, over three seeds
        assert!((row.mean - 3.0).abs() < 1e-12);
        assert!((row.se.unwrap() - (7.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        let one = Row::over_seeds("m", None, Map::new(), "rmse", &[1.0]);
        assert!(one.se.is_none());
        assert!(table(&[row, one]).lines().count() == 3);
    }
}
