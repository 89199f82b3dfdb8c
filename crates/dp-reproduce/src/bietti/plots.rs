//! Figures from JSON rows.

use dp_page::{Chart, Drawing, Line, Stroke};
use serde_json::Value;

use super::super::chart::{chart, grouped, number, param, point};

/// Positions of `alpha` 0 and infinity on a logarithmic axis.
const ENDS: [f64; 2] = [0.03, 30.0];

/// Excess risk against alpha, a line for each noise and number of rounds.
pub(super) fn figure1a(rows: &[Value]) -> Chart {
    let points = rows.iter().filter_map(|row| {
        let (sigma, rounds) = (param(row, "sigma")?, param(row, "rounds")?);
        let alpha = param(row, "alpha_q")?.clamp(ENDS[0], ENDS[1]);
        Some((
            format!("noise {sigma}, {rounds} rounds"),
            point(alpha, row)?,
        ))
    });
    let mut chart = chart(
        [
            "How much to learn together",
            "Bietti et al. 2022, figure 1a: 1000 users, mean over seeds",
        ],
        ["alpha", "excess risk"],
        true,
        grouped(points),
    );
    if let Drawing::Lines(lines) = &mut chart.drawing {
        let names = [(ENDS[0], "alone"), (ENDS[1], "one model")];
        lines.x = lines.x.clone().with_names(&names);
    }
    chart
}

/// Test error against epsilon, a line for each alpha, of the data set of the last row.
pub(super) fn frontier(rows: &[Value]) -> Chart {
    let data = rows.last().map(|row| row["params"]["data"].clone());
    let mine = |row: &&Value| Some(&row["params"]["data"]) == data.as_ref();
    let mine: Vec<&Value> = rows.iter().filter(mine).collect();
    let epsilons = mine.iter().filter_map(|row| number(&row["epsilon"]));
    let epsilons: Vec<f64> = epsilons.collect();
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
        Some((name, point(number(&row["epsilon"])?, row)?))
    });
    let mut all = grouped(points);
    for (name, method) in [("alone", "ppsgd"), ("own ridge", "own-ridge")] {
        let alone = |row: &&&Value| {
            row["method"] == method && param(row, "alpha_q").is_none_or(|alpha| alpha <= 0.0)
        };
        if let Some(mean) = mine.iter().find(alone).and_then(|row| number(&row["mean"])) {
            let level = Line::solid(name, ends.map(|end| (end, mean)));
            all.push(level.with_stroke(Stroke::Dashed));
        }
    }
    let name = data.as_ref().and_then(Value::as_str).unwrap_or("");
    chart(
        [
            &format!("Test RMSE against epsilon: {name}"),
            "by alpha, the ratio of global to local steps; mean over seeds",
        ],
        ["epsilon (adding or removing a user)", "test RMSE"],
        false,
        all,
    )
}

/// Excess risk alone and together against the number of rounds divided by the lemma's threshold.
pub(super) fn threshold(rows: &[Value]) -> Chart {
    let points = rows.iter().filter_map(|row| {
        let name = if param(row, "alpha_q")? > 0.0 {
            "one model"
        } else {
            "alone"
        };
        Some((
            name.to_owned(),
            point(param(row, "rounds_over_lemma")?, row)?,
        ))
    });
    chart(
        [
            "From how many rounds on learning alone wins",
            "users who are all alike, at one epsilon; Lemma 4.6 says 1",
        ],
        ["rounds over those of the lemma", "excess risk"],
        true,
        grouped(points),
    )
}
