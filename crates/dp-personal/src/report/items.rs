//! How far each item is above the noise, from the released counts alone.

use dp_data::ItemCatalogue;
use dp_multitask::{ABOVE_NOISE, NoisyCounts};
use dp_page::{Axis, Block, Chart, Line, Lines, Number, Section, Stroke, Table, short};

use serde_json::Value;

use super::nearest::Wanted;
use super::run::ReportedRun;
use crate::error::{Error, Result};

/// Number of points of the curve.
const N_POINTS: usize = 160;
/// Smaller heights are drawn at this height.
const FLOOR: f64 = 0.1;

/// Whether a noisy count is above its noise.
pub(super) fn is_above(count: f64, noise_stddev: f64) -> bool {
    count > ABOVE_NOISE * noise_stddev
}

/// The share of items whose noisy count is above its noise; none without items.
pub(super) fn share_above(counts: &NoisyCounts) -> Option<f64> {
    let n = counts.values().len();
    (n > 0).then(|| n_above(counts) as f64 / n as f64)
}

/// The number of items whose noisy count is above its noise.
pub(super) fn n_above(counts: &NoisyCounts) -> usize {
    let values = counts.values().iter();
    values
        .filter(|&&count| is_above(count, counts.noise_stddev()))
        .count()
}

/// A curve over all items and its values at some points; none for runs that released no counts.
pub(super) fn noise(run: &ReportedRun<'_>) -> Option<Section> {
    let counts = run.counts().filter(|counts| !counts.values().is_empty())?;
    let mut sorted = counts.values().to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let share = share_above(counts).unwrap_or(0.0);
    let mut blocks = vec![
        Block::Numbers(vec![
            Number {
                value: format!("{:.0} %", 100.0 * share),
                label: "of the items have counts above the noise".to_owned(),
                note: format!(
                    "noisy count more than {ABOVE_NOISE} standard deviations of the noise above zero"
                ),
            },
            Number {
                value: short(counts.noise_stddev()),
                label: "noise on every count".to_owned(),
                note: format!("standard deviation; the mean count is {:.1}", counts.mean()),
            },
        ]),
        Block::Chart(chart(&sorted, counts.noise_stddev())),
        Block::Table(places(&sorted, counts.noise_stddev())),
        Block::Note(note(run.is_private())),
    ];
    if let Some(norm) = run.setting("/count_clip_norm").and_then(Value::as_f64) {
        blocks.push(Block::Note(format!(
            "Counts are clipped: a user with n items counts as min(1, {norm} / sqrt(n)) in each of them, so items of users with more than {} items have \
             more users than their counts say. Intervals are of the noise alone, around the clipped count.",
            short(norm * norm)
        )));
    }
    // for implicit feedback with this method, where a like counts as one over the root of the number of likes
    let line = run.model_line();
    if line.ends_with("rounds, method `am-ssp`") || line.ends_with("rounds of am-ssp") {
        let words = "Each like of a user with n likes counts as 1/sqrt(n).";
        blocks.push(Block::Note(words.to_owned()));
    }
    Some(Section::new("noise", "Items above the noise", blocks))
}

fn note(is_private: bool) -> String {
    let chance =
        "Noise alone puts 2.3 % of the items that nobody rated above two standard deviations.";
    if is_private {
        format!(
            "{chance} This section is computed from released values alone, so it costs no privacy budget. dp report writes these figures for every item to report-items.csv."
        )
    } else {
        format!(
            "{chance} The noise of this run can be subtracted, so no table of items is written."
        )
    }
}

fn chart(sorted: &[f64], noise: f64) -> Chart {
    let n = sorted.len();
    let last = n.saturating_sub(1).max(1) as f64;
    let step = n.div_ceil(N_POINTS).max(1);
    let at = (0..n).step_by(step).chain([n - 1]);
    let points = at.map(|rank| (rank as f64 / last, (sorted[rank] / noise).max(FLOOR)));
    let top = (sorted[0] / noise).max(10.0);
    let powers = (-1..12).map(|p| 10_f64.powi(p)).filter(|p| *p <= top * 1.3);
    let level = format!("{ABOVE_NOISE} standard deviations");
    Chart::lines(
        "Signal-to-noise ratio of the item counts, largest count first",
        "Noisy count divided by the standard deviation of its noise; values below 0.1 are drawn at 0.1.",
        Lines {
            x: Axis::of_shares("share of the items"),
            y: Axis {
                name: "signal-to-noise ratio".to_owned(),
                log: true,
                range: [FLOOR, top * 1.3],
                ticks: powers.map(|v| (v, short(v))).collect(),
            },
            lines: vec![
                Line::solid("items", points).with_stroke(Stroke::Dense),
                Line::solid(level, [(0.0, ABOVE_NOISE), (1.0, ABOVE_NOISE)])
                    .with_stroke(Stroke::Dashed),
            ],
        },
    )
}

/// Noise-to-signal ratio at percentiles of the counts.
fn places(sorted: &[f64], noise: f64) -> Table {
    let last = sorted.len() - 1;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let rank = |share: f64| (share * last as f64).round() as usize;
    let rows = [
        ("maximum", 0.0),
        ("90th percentile", 0.1),
        ("75th percentile", 0.25),
        ("median", 0.5),
        ("25th percentile", 0.75),
        ("minimum", 1.0),
    ];
    let rows = rows.map(|(name, share)| {
        let count = sorted[rank(share)];
        let ratio = noise_to_signal(count, noise);
        let ratio = ratio.map_or_else(|| "no signal".to_owned(), |r| format!("{:.1} %", 100.0 * r));
        vec![name.to_owned(), format!("{count:.1}"), ratio]
    });
    let heads = ["item counts", "noisy clipped count", "noise / signal"];
    Table::new("Noise-to-signal ratio", heads, rows)
}

/// None if the noisy count is not positive.
fn noise_to_signal(count: f64, noise: f64) -> Option<f64> {
    (count > 0.0).then(|| noise / count)
}

/// Csv with one row per item: released values only, so empty for a run that is not private.
pub(crate) fn item_table(run: &ReportedRun<'_>, wanted: &Wanted) -> Result<Option<Vec<u8>>> {
    let (true, Some(counts), Some((_, items))) = (run.is_private(), run.counts(), &run.model)
    else {
        return Ok(None);
    };
    let failed = |e: csv::Error| Error::Print(std::io::Error::other(e));
    write_items(counts, items, wanted).map(Some).map_err(failed)
}

fn write_items(
    counts: &NoisyCounts,
    items: &ItemCatalogue,
    wanted: &Wanted,
) -> Result<Vec<u8>, csv::Error> {
    let noise = counts.noise_stddev();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "item",
        "title",
        "clipped_count",
        "lower",
        "upper",
        "noise_to_signal",
        "above_noise",
    ])?;
    for (index, (id, &count)) in items.ids().iter().zip(counts.values()).enumerate() {
        let ratio = noise_to_signal(count, noise).map_or_else(String::new, |r| format!("{r:.6}"));
        let above = u8::from(is_above(count, noise)).to_string();
        let title = wanted.stated_title(items, index).unwrap_or("");
        let [lower, upper] = counts.interval(index).map(|end| format!("{end:.3}"));
        let count = format!("{count:.3}");
        writer.write_record([id, title, &count, &lower, &upper, &ratio, &above])?;
    }
    writer.into_inner().map_err(|e| e.into_error().into())
}
