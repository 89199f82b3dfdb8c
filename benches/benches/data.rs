//! Reading of ratings (dp-data) into a table (dp-core), as ratios to splitting the same bytes at
//! line ends and commas.
//!
//! `cargo bench -p dp-benches --bench data`

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark may stop at a broken invariant"
)]

use std::fmt::Write as _;
use std::hint::black_box;

use dp_benches::{Contestant, take_turns};
use dp_core::InteractionsBuilder;
use dp_data::{RatingsFormat, SplitFractions, read_ratings_from};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const N_RECORDS: u32 = 500_000;
const N_USERS: u32 = 5_000;
const N_ITEMS: u32 = 3_000;

fn main() {
    let records = records();
    let csv = lines(&records, "user,item,rating\n", ",");
    let tabs = lines(&records, "user\titem\trating\n", "\t");
    let ratings = read(&csv);
    let fractions = SplitFractions::new(0.8, 0.1, 0.1).unwrap();
    let mut contestants = [
        Contestant::new(|| {
            let fields = csv.lines().flat_map(|line| line.split(','));
            black_box(fields.map(str::len).sum::<usize>());
        }),
        Contestant::new(|| drop(black_box(read(&csv)))),
        Contestant::new(|| drop(black_box(read(&tabs)))),
        Contestant::new(|| drop(black_box(table(&records)))),
        Contestant::new(|| drop(black_box(ratings.split(fractions, 7).unwrap()))),
    ];
    let names = [
        "lines and fields split (yardstick)",
        "read_ratings_from, csv",
        "read_ratings_from, tabs",
        "InteractionsBuilder, records by number",
        "RatingSplit",
    ];
    println!("{N_RECORDS} records            ns a record   ratio   (fastest turns)");
    let times = take_turns(&mut contestants, 21, 0.02);
    for (name, time) in names.iter().zip(&times) {
        let each = time.best / f64::from(N_RECORDS) * 1e9;
        println!("{name:40} {each:8.1} {:8.2}", time.best / times[0].best);
    }
}

type Record = (u32, u32, f32);

fn records() -> Vec<Record> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut one = |_| {
        let user = rng.random_range(0..N_USERS);
        let item = rng.random_range(0..N_ITEMS);
        (user, item, f32::from(rng.random_range(2..=10_u8)) / 2.0)
    };
    (0..N_RECORDS).map(&mut one).collect()
}

fn lines(records: &[Record], header: &str, between: &str) -> String {
    let mut text = header.to_owned();
    for (user, item, value) in records {
        writeln!(text, "u{user}{between}i{item}{between}{value}").unwrap();
    }
    text
}

fn read(text: &str) -> dp_data::Ratings {
    read_ratings_from(text.as_bytes(), "made", &RatingsFormat::default(), None).unwrap()
}

fn table(records: &[Record]) -> dp_core::Interactions {
    let mut builder = InteractionsBuilder::new(N_ITEMS as usize);
    for &(user, item, value) in records {
        builder.push(user, item, value).unwrap();
    }
    builder.build().0
}
