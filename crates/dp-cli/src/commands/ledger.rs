//! `dp ledger`: creates, shows, upgrades and merges ledgers.

use dp_personal::workflows::ledger;

use crate::args::LedgerCommand;
use crate::error::Result;
use crate::screen::{print_json, print_summary};

pub(crate) fn run(command: &LedgerCommand) -> Result<()> {
    let (as_json, report) = match command {
        LedgerCommand::Create(flags) => (flags.json, ledger::create(&flags.settings)?),
        LedgerCommand::Upgrade(flags) => (flags.json, ledger::upgrade(&flags.settings)?),
        LedgerCommand::Merge(flags) => (flags.json, ledger::merge(&flags.settings)?),
        LedgerCommand::AcceptRollback(flags) => {
            (flags.json, ledger::accept_rollback(&flags.settings)?)
        }
        LedgerCommand::Show(flags) => (flags.json, ledger::show(&flags.settings)?),
    };
    if as_json {
        print_json(&report.json)
    } else {
        print_summary(&report.text)
    }
}
