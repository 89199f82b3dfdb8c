//! Commands for single users, or for many one by one, that continue from released values.

use dp_personal::multitask::Provenance;
use dp_personal::output::decimals;
use dp_personal::settings::{PredictSettings, RecommendSettings, SimilarSettings};
use dp_personal::workflows::predict::{self, Predictions};
use dp_personal::workflows::recommend::{self, Recommendations};
use dp_personal::workflows::similar::{self, SimilarTo};
use serde_json::{Map, Value, json};

use crate::args::Flags;
use crate::error::{Error, Result};
use crate::screen::{note, print, print_json, warn};

pub(crate) fn recommend(flags: &Flags<RecommendSettings>) -> Result<()> {
    if flags.settings.user_col.is_some() {
        return recommend_to_all(flags);
    }
    let found = recommend::recommend(&flags.settings)?;
    note(
        "this list is for its user alone: it is computed from the user's own records, which no guarantee covers here",
    );
    if flags.json {
        let mut object = object(&found);
        object["n_unknown_items"] = json!(found.n_unknown_items);
        return print_json(&object);
    }
    warn_of(found.provenance);
    if found.says_nothing {
        return print(
            "nothing to rank by: this model has no item biases (--score-model plain) and did not learn any of \
             the items that the user likes\n",
        );
    }
    print(&ranking(&found))
}

/// One line of csv for each recommendation, or one of JSON for each user.
fn recommend_to_all(flags: &Flags<RecommendSettings>) -> Result<()> {
    if !flags.json {
        let heads = ["user", "rank", "item", "title", "score", "low", "high"];
        print_csv(&heads, [].into_iter())?;
    }
    note(
        "each user's list is for that user alone: it is computed from the user's own records, which no guarantee covers here",
    );
    let (mut is_first, mut n_outside) = (true, 0);
    recommend::recommend_to_all(&flags.settings, |user, found| {
        n_outside += found.n_outside_range;
        if flags.json {
            let mut object = object(&found);
            object["user"] = json!(user);
            return print(&format!("{object}\n"));
        }
        if std::mem::take(&mut is_first) {
            warn_of(found.provenance);
        }
        print_csv(&[], csv_lines(user, found))
    })?;
    if n_outside > 0 {
        warn(&format!(
            "{n_outside} ratings in {} are outside the range that the model was trained for, or far around the scale that it learned: \
             recommendations from them mean little",
            flags.settings.history
        ));
    }
    Ok(())
}

fn csv_lines(user: &str, found: Recommendations) -> impl Iterator<Item = Vec<String>> {
    (1..).zip(found.items).map(|(rank, item)| {
        let [low, high] = match item.interval {
            Some(ends) => ends.map(|end| end.to_string()),
            None => Default::default(),
        };
        let (rank, score) = (rank.to_string(), item.score.to_string());
        let title = item.title.unwrap_or_default();
        vec![user.to_owned(), rank, item.id, title, score, low, high]
    })
}

fn warn_of(provenance: Provenance) {
    match provenance {
        Provenance::Private => {}
        Provenance::SeededNoise => warn("this model is not private: its noise was seeded"),
        Provenance::NonPrivate | Provenance::NotTrained => {
            warn("this model is not private: it has no noise");
        }
    }
}

fn object(found: &Recommendations) -> Value {
    json!({
        "provenance": found.provenance,
        "n_history": found.n_history,
        "n_outside_range": found.n_outside_range,
        "orders_alike": found.orders_alike,
        "min_rating": found.min_rating,
        "recommendations": ranked(found),
    })
}

fn ranked(found: &Recommendations) -> Vec<Value> {
    let ranked = (1..).zip(&found.items).map(|(rank, item)| {
        json!({
            "rank": rank,
            "item": item.id,
            "title": item.title,
            "predicted_rating": item.score,
            "interval": item.interval,
        })
    });
    ranked.collect()
}

fn ranking(found: &Recommendations) -> String {
    let own = match found.n_history {
        1 => "1 own rating".to_owned(),
        n => format!("{n} own ratings"),
    };
    let mut text = match (found.n_history, found.orders_alike) {
        (0, _) if found.n_unknown_items > 0 => {
            "no rating in the history is of an item in the model, whose ids are in column `item` of items.csv: this is the order for a user without \
             ratings\n"
                .to_owned()
        }
        (0, _) => "no ratings in the history: this is the order for a user without ratings\n".to_owned(),
        (_, false) => format!("from {own}:\n"),
        (_, true) => format!(
            "this order is the same for every user: the model has no taste factors that {own} could inform; the history {}\n",
            match found.implicit {
                true => "only removes its items",
                false => "changes the predicted ratings and removes rated items",
            }
        ),
    };
    if let Some(least) = found.min_rating {
        text.push_str(&format!("(ratings of {least} or more count as positive)\n"));
    }
    if found.n_unknown_items > 0 {
        text.push_str(&format!(
            "({} more on items that are not in the model)\n",
            found.n_unknown_items
        ));
    }
    let widest = found.items.iter().map(|item| item.id.chars().count()).max();
    let width = widest.unwrap_or(0).max("item".len());
    let value = if found.implicit { "score" } else { "rating" };
    let has_intervals = found.items.iter().any(|item| item.interval.is_some());
    // small ratings need more decimal places
    let sizes = found.items.iter().map(|item| match item.interval {
        Some([low, high]) => (high - low) / 2.0,
        None => item.score.abs(),
    });
    let n = decimals(sizes.fold(0.0, f64::max)) - 2;
    let head = if has_intervals { "  95 % interval" } else { "" };
    text.push_str(&format!(
        "\nrank  {value:>6}{head}  {:<width$}  title\n",
        "item"
    ));
    for (rank, item) in (1..).zip(&found.items) {
        let title = item.title.as_deref().unwrap_or("");
        let interval = item.interval.map_or_else(String::new, |[low, high]| {
            format!("  {:>13}", format!("{low:.n$} to {high:.n$}"))
        });
        let line = format!(
            "{rank:>4}  {:>6.n$}{interval}  {:<width$}  {title}",
            item.score, item.id
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(crate) fn similar(flags: &Flags<SimilarSettings>) -> Result<()> {
    let found = similar::similar(&flags.settings)?;
    if let Some(reason) = found.no_tastes {
        warn(reason);
    }
    if flags.json {
        let items = found.found.iter().map(|of| {
            let similar = of.items.iter().map(|near| {
                json!({"item": near.id, "title": near.title, "cosine": near.cosine, "stddev": near.stddev})
            });
            json!({
                "item": of.id,
                "title": of.title,
                "is_above_noise": of.is_above_noise,
                "similar": similar.collect::<Vec<_>>(),
            })
        });
        return print_json(&json!({ "items": items.collect::<Vec<_>>() }));
    }
    let texts: Vec<String> = found.found.iter().map(similar_to).collect();
    print(&texts.join("\n"))
}

fn similar_to(of: &SimilarTo) -> String {
    let named = |id: &str, title: &Option<String>| match title {
        Some(title) => format!("{id}  {title}"),
        None => id.to_owned(),
    };
    let name = named(&of.id, &of.title);
    if !of.is_above_noise {
        return format!(
            "{name}\n  nothing: its taste factors are within their noise, so similar items would be random\n"
        );
    }
    let lines = of.items.iter().map(|near| {
        let stddev = near
            .stddev
            .map_or_else(String::new, |stddev| format!(" \u{b1} {stddev:.2}"));
        format!(
            "  {:>5.2}{stddev}  {}\n",
            near.cosine,
            named(&near.id, &near.title)
        )
    });
    format!("{name}\n{}", lines.collect::<String>())
}

pub(crate) fn predict(flags: &Flags<PredictSettings>) -> Result<()> {
    let found = predict::predict(&flags.settings)?;
    note(
        "each user's lines are for that user alone: they are computed from the user's own records, which no guarantee covers here",
    );
    if flags.json {
        return print_json(&json!({
            "provenance": found.provenance,
            "target": found.target,
            "users": own_models(&found),
            "predictions": found.rows,
        }));
    }
    if let Some(warning) = found.warning {
        warn(warning);
    }
    match &found.rows {
        Some(rows) => print_csv(
            &["user", &found.target],
            rows.iter()
                .map(|(user, value)| vec![user.clone(), value.to_string()]),
        ),
        None => print_csv(&heads(&found), lines(&found)),
    }
}

fn own_models(found: &Predictions) -> Vec<Value> {
    let users = found.users.iter().map(|own| {
        let coefficients = found.features.iter().cloned().zip(&own.coefficients);
        let coefficients: Map<String, Value> =
            coefficients.map(|(name, t)| (name, json!(t))).collect();
        json!({"user": own.user, "n_rows": own.n_rows, "level": own.level, "coefficients": coefficients})
    });
    users.collect()
}

fn heads(found: &Predictions) -> Vec<&str> {
    let features = found.features.iter().map(String::as_str);
    ["user", "rows", "level"]
        .into_iter()
        .chain(features)
        .collect()
}

/// The intercept, at which all encoded features are 0, and the coefficients of the encoded
/// features.
fn lines(found: &Predictions) -> impl Iterator<Item = Vec<String>> {
    found.users.iter().map(|own| {
        let numbers = [own.level]
            .into_iter()
            .chain(own.coefficients.iter().copied());
        let fixed = [own.user.clone(), own.n_rows.to_string()].into_iter();
        fixed.chain(numbers.map(|x| x.to_string())).collect()
    })
}

/// Prints lines of csv, under a header if there is one.
fn print_csv(heads: &[&str], lines: impl Iterator<Item = Vec<String>>) -> Result<()> {
    let write = || {
        let mut writer = csv::Writer::from_writer(Vec::new());
        if !heads.is_empty() {
            writer.write_record(heads)?;
        }
        for line in lines {
            writer.write_record(line)?;
        }
        writer.into_inner().map_err(|e| e.into_error().into())
    };
    let bytes = write().map_err(|e: csv::Error| Error::Print(std::io::Error::other(e)))?;
    print(&String::from_utf8_lossy(&bytes))
}
