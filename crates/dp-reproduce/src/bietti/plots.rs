//! Figures from rows as JSON.

use serde_json::Value;

use super::super::chart::{grouped, number, param};
use dp_personal::output::{Axes, Line, Look, lines};

/// What stands for no `alpha` and for all of it on a logarithmic axis.
const ENDS: [f64; 2] = [0.03, 30.0];

/// Excess risk against alpha, a line for each noise and number of rounds.
pub(super) fn figure1a(rows: &[Value]) -> String {
    let point = |row: &Value| {
        let (sigma, rounds) = (param(row, "sigma")?, param(row, "rounds")?);
        let alpha = param(row, "alpha_q")?.clamp(ENDS[0], ENDS[1]);
        let name = format!("noise {sigma}, {rounds} rounds");
        Some((name, (alpha, number(&row["mean"])?)))
    };
    let mut axes = Axes::new("alpha", "excess risk").with_log_y();
    axes.names = vec![
        (ENDS[0], "alone".to_owned()),
        (ENDS[1], "one model".to_owned()),
    ];
    lines(
        "How much to learn together",
        "Bietti et al. 2022, figure 1a: 1000 users, mean over seeds",
        &axes,
        &grouped(rows.iter().filter_map(point).collect()),
    )
}

/// Test error against epsilon, a line for each alpha, of the data set of the last row.
pub(super) fn frontier(rows: &[Value]) -> String {
    let data = rows.last().map(|row| row["params"]["data"].clone());
    let mine = |row: &&Value| Some(&row["params"]["data"]) == data.as_ref();
    let mine: Vec<&Value> = rows.iter().filter(mine).collect();
    let epsilons: Vec<f64> = mine
        .iter()
        .filter_map(|row| number(&row["epsilon"]))
        .collect();
    let ends = [
        epsilons.iter().copied().fold(f64::INFINITY, f64::min),
        epsilons.iter().copied().fold(0.0, f64::max),
    ];
    let private = |row: &&&Value| row["method"] == "ppsgd" && !row["epsilon"].is_null();
    let points = mine.iter().filter(private).filter_map(|row| {
        let name = match param(row, "alpha_q")? {
            alpha if alpha.is_infinite() => "one model".to_owned(),
            alpha => format!("alpha {alpha}"),
        };
        Some((name, (number(&row["epsilon"])?, number(&row["mean"])?)))
    });
    let mut all = grouped(points.collect());
    for (name, method) in [("alone", "ppsgd"), ("own ridge", "own-ridge")] {
        let alone = |row: &&&Value| {
            row["method"] == method && param(row, "alpha_q").is_none_or(|alpha| alpha <= 0.0)
        };
        if let Some(mean) = mine.iter().find(alone).and_then(|row| number(&row["mean"])) {
            all.push(Line {
                name: name.to_owned(),
                points: ends.map(|end| (end, mean)).to_vec(),
                dashed: true,
                look: Look::Own,
            });
        }
    }
    let name = data
        .as_ref()
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    lines(
        &format!("Test RMSE against epsilon: {name}"),
        "by alpha, the ratio of global to local steps; mean over seeds",
        &Axes::new("epsilon (adding or removing a user)", "test RMSE"),
        &all,
    )
}

/// Excess risk alone and together against rounds over the lemma's threshold.
pub(super) fn threshold(rows: &[Value]) -> String {
    let point = |row: &Value| {
        let name = if param(row, "alpha_q")? > 0.0 {
            "one model"
        } else {
            "alone"
        };
        let at = param(row, "rounds_over_lemma")?;
        Some((name.to_owned(), (at, number(&row["mean"])?)))
    };
    lines(
        "From how many rounds on learning alone wins",
        "users who are all alike, at one epsilon; Lemma 4.6 says 1",
        &Axes::new("rounds over those of the lemma", "excess risk").with_log_y(),
        &grouped(rows.iter().filter_map(point).collect()),
    )
}
