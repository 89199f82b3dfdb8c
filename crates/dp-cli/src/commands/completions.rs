//! `dp completions`: the flags of every command, for the shell to complete.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::error::Result;
use crate::screen::print;

pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "dp", &mut script);
    print(&String::from_utf8_lossy(&script))
}
