//! Writes the manual pages of `dp` and of each of its commands: `cargo run -p dp-cli --features manual --example manual -- DIR`.

use std::io::{Error, ErrorKind};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1) else {
        return Err(Error::new(ErrorKind::InvalidInput, "usage: manual DIR"));
    };
    std::fs::create_dir_all(&folder)?;
    clap_mangen::generate_to(dp_cli::command(), folder)
}
