//! Files that pages take for granted: a reader's own data, and the public data sets of the papers.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::shell::Shell;
use crate::support::{catalogue, ratings};

const PARKINSONS: &str = "age,sex,test_time,Jitter(%),Jitter(Abs),Jitter:RAP,Jitter:PPQ5,Jitter:DDP,\
    Shimmer,Shimmer(dB),Shimmer:APQ3,Shimmer:APQ5,Shimmer:APQ11,Shimmer:DDA,NHR,HNR,RPDE,DFA,PPE";

/// Writes what `page` uses without making it.
pub(crate) fn files(shell: &Shell, page: &str) {
    match page {
        "README.md" | "crates/dp-cli/README.md" => own_data(shell),
        "docs/reference/dp-evidence.md" => {
            let table = ratings(200, 60, 20);
            shell.write("public.csv", &table);
            shell.write("ratings.csv", &table);
            shell.write("items.csv", &films("item-", 0..60));
        }
        "docs/tutorials/movielens.md" => movielens(shell),
        "docs/reproductions.md" | "docs/results.md" => public_data(shell),
        _ => {}
    }
}

fn own_data(shell: &Shell) {
    let table = ratings(200, 60, 20);
    shell.write("ratings.csv", &table);
    shell.write_gzip("ratings.csv.gz", &table);
    shell.write("catalogue.csv", &catalogue(60));
    shell.write("items.csv", &films("item-", 0..60));
    shell.write("my-ratings.csv", "item,rating\nitem-1,5\nitem-4,2\n");
    shell.write("visits.csv", &visits(150));
    let own = rows(7, 6);
    shell.write(
        "my-visits.csv",
        &format!("days,age,severity,beds,distance\n{own}"),
    );
    shell.write(
        "new-visits.csv",
        "age,severity,beds,distance\n70,4,200,10\n30,2,200,10\n",
    );
}

/// Eight rows for each of so many clinics.
fn visits(n_clinics: u32) -> String {
    let mut text = "clinic,days,age,severity,beds,distance\n".to_owned();
    for clinic in 0..n_clinics {
        for row in rows(clinic, 8).lines() {
            writeln!(text, "c{clinic},{row}").unwrap();
        }
    }
    text
}

/// Rows `target,four features` of one user.
fn rows(user: u32, n: u32) -> String {
    let mut text = String::new();
    for row in 0..n {
        let x = [1, 2, 3, 5].map(|k| (user * 7 + row * (2 * k + 3) + k * k) % 11);
        let y = 20 + user % 9 + (1 + user % 4) * x[0] + 2 * x[1];
        writeln!(text, "{y},{},{},{},{}", x[0], x[1], x[2], x[3]).unwrap();
    }
    text
}

/// Items with what is publicly known of them.
fn films(prefix: &str, items: std::ops::Range<usize>) -> String {
    let mut text = "item,title,genres,year,actors\n".to_owned();
    for item in items {
        let genre = ["Drama", "Comedy|Drama", "War"][item % 3];
        let (year, actor) = (1930 + item % 70, item % 20);
        writeln!(
            text,
            "{prefix}{item},Film {item},{genre},{year},Actor {actor}"
        )
        .unwrap();
    }
    text
}

/// `ratings.dat` and `movies.dat` with ids that are numbers.
fn movielens(shell: &Shell) {
    let table = ratings(200, 60, 20);
    let is_name = |c: char| c.is_alphabetic() || c == '-';
    let records = table.lines().skip(1).map(|line| line.replace(is_name, ""));
    let records = records.map(|line| format!("{}::978300760\n", line.replace(',', "::")));
    shell.write("ml-1m/ratings.dat", &records.collect::<String>());
    let titles = (0..60).chain([260, 1196, 1210, 2571]);
    let titles = titles.map(|item| format!("{item}::Film {item} (1990)::Drama\n"));
    shell.write("ml-1m/movies.dat", &titles.collect::<String>());
}

fn public_data(shell: &Shell) {
    let table = ratings(200, 60, 20);
    for folder in ["ml-1m", "ml-100k", "made-data/ml-1m", "made-data/ml-100k"] {
        shell.write(&format!("{folder}/ratings.csv"), &table);
        shell.write_gzip(&format!("{folder}/ratings.csv.gz"), &table);
        let items = films("item-", 0..60).replace(',', "\t");
        shell.write(&format!("{folder}/items.tsv"), &items);
    }
    let plays: Vec<String> = table
        .lines()
        .skip(1)
        .map(|line| line.replace(',', "\t"))
        .collect();
    shell.write("made-data/msd/train_triplets.txt", &plays.join("\n"));
    let school: Vec<String> = (0..27).map(|at| format!("x{at}")).collect();
    for (folder, target, columns) in [
        ("school", "target", school.join(",")),
        ("parkinsons", "total_UPDRS", PARKINSONS.replace(' ', "")),
    ] {
        shell.write(
            &format!("made-data/{folder}/data.csv"),
            &groups(target, &columns),
        );
    }
}

/// Fifty users of twelve rows in columns of zeros and ones.
fn groups(target: &str, columns: &str) -> String {
    let n_columns = u32::try_from(columns.split(',').count()).unwrap();
    let mut text = format!("user,{target},{columns}\n");
    for user in 0..50_u32 {
        for row in 0..12_u32 {
            let x: Vec<u32> = (0..n_columns)
                .map(|c| (user * 7 + row * (2 * c + 3) + c * c) % 5 / 3)
                .collect();
            let y = 20 + user % 9 + (5 + user % 4) * x[7] + 3 * x[8];
            let x: Vec<String> = x.iter().map(ToString::to_string).collect();
            writeln!(text, "{user},{y},{}", x.join(",")).unwrap();
        }
    }
    text
}

/// `text` compressed.
pub(crate) fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}
