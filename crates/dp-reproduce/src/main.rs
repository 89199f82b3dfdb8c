//! `dp-reproduce`: recomputes figures and tables of the papers.

mod appendix_c;
mod args;
mod bietti;
mod calibration;
mod chart;
mod data_file;
mod data_sets;
mod evidence;
mod figure2;
mod groups;
mod krichene2024;
mod limits;
mod movielens;
mod nights;
mod nights_of_rows;
mod report;
mod screen;
mod sizes;

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};

use dp_personal::error::{Error, Result};
use dp_personal::output;

pub(crate) use args::ReproduceArgs;
use report::Row;
use screen::{print, print_json};

/// A reproduction, selected by name.
struct Reproduction {
    name: &'static str,
    about: &'static str,
    run: fn(&ReproduceArgs) -> Result<Vec<Row>>,
}

const ALL: &[Reproduction] = &[
    Reproduction {
        name: "krichene2023-appendix-c",
        about: "synthetic regression tasks of skewed size: test RMSE against the weight exponent",
        run: appendix_c::run,
    },
    Reproduction {
        name: "krichene2023-ml1m",
        about: "MovieLens-1M, or any ratings under --data: test RMSE against epsilon",
        run: movielens::ml1m,
    },
    Reproduction {
        name: "krichene2023-ml100k",
        about: "the same on MovieLens-100K",
        run: movielens::ml100k,
    },
    Reproduction {
        name: "krichene2023-msd",
        about: "plays of the Million Song set under --data: Recall@20 against epsilon",
        run: movielens::msd,
    },
    Reproduction {
        name: "jain2021-figure2",
        about: "linear models in a shared subspace: population MSE against epsilon and rho",
        run: figure2::run,
    },
    Reproduction {
        name: "jain2021-school",
        about: "scores of pupils of 139 schools under --data: held-out rows and schools",
        run: groups::school,
    },
    Reproduction {
        name: "jain2021-parkinsons",
        about: "recordings of 42 patients under --data: held-out rows and patients",
        run: groups::parkinsons,
    },
    Reproduction {
        name: "bietti2022-figure1a",
        about: "users learn partly together, partly alone, on made data: excess risk against alpha",
        run: bietti::figure1a,
    },
    Reproduction {
        name: "bietti2022-synthetic",
        about: "the same as bietti2022-figure1a",
        run: bietti::figure1a,
    },
    Reproduction {
        name: "bietti2022-frontier",
        about: "school, parkinsons and ml-1m, those under --data: test RMSE against epsilon by alpha",
        run: bietti::frontier,
    },
    Reproduction {
        name: "bietti2022-threshold",
        about: "users who are alike: from how many rounds on learning alone wins, against Lemma 4.6",
        run: bietti::threshold,
    },
    Reproduction {
        name: "krichene2024-synthetic",
        about: "item vectors from public features, on made data: excess risk against p and epsilon",
        run: krichene2024::synthetic,
    },
    Reproduction {
        name: "krichene2024-resamples",
        about: "the same data: SSP-c against SSP-i by the number of releases (figure 4)",
        run: krichene2024::resamples,
    },
    Reproduction {
        name: "krichene2024-cost",
        about: "visits of items and cost of statistics over that of gradients (figures 5 and 6)",
        run: krichene2024::cost,
    },
    Reproduction {
        name: "krichene2024-ml1m",
        about: "MovieLens-1M with genres, decade and credits, under --data: ratings, lists, new items, time",
        run: krichene2024::ml1m,
    },
    Reproduction {
        name: "nights",
        about: "MovieLens-1M, retrained every night for a year on one budget: test RMSE by night",
        run: nights::ml1m,
    },
    Reproduction {
        name: "nights-likes",
        about: "the same with ratings of 4 and above as likes: Recall@20 by night",
        run: nights::likes,
    },
    Reproduction {
        name: "nights-ml100k",
        about: "ratings of MovieLens-100K, whose records come when they came",
        run: nights::ml100k,
    },
    Reproduction {
        name: "nights-latest-small",
        about: "the same on MovieLens latest-small",
        run: nights::latest_small,
    },
    Reproduction {
        name: "nights-subspace",
        about: "a shared subspace, learned every night from made users who come over a year: population MSE by night",
        run: nights_of_rows::run,
    },
    Reproduction {
        name: "data-sets",
        about: "`dp train` on every set of ratings under --data, beside free baselines and no privacy",
        run: data_sets::run,
    },
    Reproduction {
        name: "evidence",
        about: "ratings of MovieLens with public ratings and features as the prior of items: test RMSE against epsilon",
        run: evidence::run,
    },
    Reproduction {
        name: "limits",
        about: "item biases of MovieLens-1M: the least error under any mu-GDP mechanism, and what is reached",
        run: limits::ml1m,
    },
];

/// Printed with every table: none of it is a release.
const SEEDED: &str = "seeded noise and data: a measurement without any guarantee";

fn main() -> ExitCode {
    match run(&ReproduceArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            screen::print_error(&error);
            ExitCode::from(error.kind() as u8)
        }
    }
}

fn run(args: &ReproduceArgs) -> Result<()> {
    if args.list {
        return list(args);
    }
    let name = args.name.as_deref().unwrap_or_default();
    let Some(chosen) = ALL.iter().find(|known| known.name == name) else {
        let names: Vec<_> = ALL.iter().map(|known| known.name).collect();
        return Err(Error::Usage(format!(
            "there is no reproduction {name}; there are: {}",
            names.join(", ")
        )));
    };
    if args.seeds == 0 {
        return Err(Error::Usage("--seeds must be 1 or above".to_owned()));
    }
    if args.plot.is_some() && plot(chosen.name, &[]).is_none() {
        let text = "--plot is for the reproductions of Bietti et al. 2022 and Krichene et al. 2024, nights, evidence and limits";
        return Err(Error::Usage(text.to_owned()));
    }
    if let Some(path) = &args.plot {
        check_place(path)?;
    }
    if let (Some(plot), Some(rows)) = (&args.plot, &args.rows) {
        return draw(chosen.name, plot, &rows_of_file(rows, chosen.name)?);
    }
    let start = Instant::now();
    let rows = (chosen.run)(args)?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(plot) = &args.plot {
        let rows = serde_json::to_value(&rows)?;
        draw(
            chosen.name,
            plot,
            rows.as_array().map_or(&[], Vec::as_slice),
        )?;
    }
    if args.json {
        return print_json(&json!({
            "name": chosen.name,
            "noise": SEEDED,
            "rows": rows,
            "seconds": seconds,
        }));
    }
    print(&format!(
        "{} ({SEEDED})\n\n{}\n{seconds:.1} s\n",
        chosen.name,
        report::table(&rows)
    ))
}

/// The rows of an earlier run of the same reproduction.
fn rows_of_file(path: &Path, name: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::read(path, e))?;
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let rows = json["rows"].as_array().cloned().unwrap_or_default();
    let is_row = |row: &Value| row["method"].is_string() && row["params"].is_object();
    if rows.is_empty() || !rows.iter().all(is_row) {
        let reason = format!("no rows; expected what `dp-reproduce {name} --json` printed");
        return Err(Error::model(path, reason));
    }
    Ok(rows)
}

/// The figure of a reproduction, if it has one.
fn plot(name: &str, rows: &[Value]) -> Option<String> {
    let nights = || {
        let drawn = name.starts_with("nights").then(|| nights::plot(rows));
        drawn.map(|charts| dp_page::stacked(&charts))
    };
    bietti::plot(name, rows)
        .or_else(|| krichene2024::plot(name, rows))
        .or_else(nights)
        .or_else(|| (name == "evidence").then(|| dp_page::stacked(&evidence::plot(rows))))
        .or_else(|| (name == "limits").then(|| dp_page::stacked(&[limits::plot(rows)])))
}

/// Checks that the figure can be written before hours of work.
fn check_place(path: &Path) -> Result<()> {
    let folder = output::folder_of(path);
    let source = if path.is_dir() || path.file_name().is_none() {
        ErrorKind::IsADirectory.into()
    } else if !folder.is_dir() {
        std::io::Error::other(format!("there is no folder {}", folder.display()))
    } else {
        return Ok(());
    };
    Err(Error::write(path, source))
}

fn draw(name: &str, path: &Path, rows: &[Value]) -> Result<()> {
    let svg = plot(name, rows).unwrap_or_default().into_bytes();
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    output::replace_files(output::folder_of(path), &[(&file, svg, false)], &[])
}

fn list(args: &ReproduceArgs) -> Result<()> {
    if args.json {
        let names: Vec<_> = ALL
            .iter()
            .map(|known| json!({"name": known.name, "about": known.about}))
            .collect();
        return print_json(&json!(names));
    }
    let lines = ALL
        .iter()
        .map(|known| format!("{:<26} {}\n", known.name, known.about));
    print(&lines.collect::<String>())
}
