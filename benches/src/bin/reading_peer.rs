//! Our side of `benches/peers/reading.py`: `reading_peer FILE` reads ratings from a csv file, and
//! prints the processor seconds of all threads and the wall-clock seconds as one JSON object.

use std::time::Instant;

use dp_benches::processor_seconds;
use dp_data::{RatingsFormat, read_ratings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("the file is missing")?;
    let (elapsed, processor) = (Instant::now(), processor_seconds());
    let ratings = read_ratings(path.as_str(), &RatingsFormat::default())?;
    let processor = processor_seconds() - processor;
    let elapsed = elapsed.elapsed().as_secs_f64();
    let n = ratings.interactions().expose().n_records();
    println!("{{\"processor\": {processor}, \"elapsed\": {elapsed}, \"records\": {n}}}");
    Ok(())
}
