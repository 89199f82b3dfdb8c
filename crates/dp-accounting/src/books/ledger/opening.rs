//! Creating a ledger file and opening an existing one.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Budget;
use super::lines::{Header, LEDGER_NAME, LEDGER_SCHEMA, seal};
use super::replay::{Chain, Replayed, Tail};
use super::store::Store;
use crate::{Error, Result};

pub(super) fn header(data_set_id: &str, budget: Budget, created: u64) -> Header {
    Header {
        ledger: LEDGER_NAME.to_owned(),
        schema_version: LEDGER_SCHEMA,
        data_set: data_set_id.to_owned(),
        adjacency: budget.adjacency(),
        epsilon: budget.target().epsilon,
        delta: budget.target().delta,
        filter: Some(budget.kind()),
        carried_delta: budget.carried_delta(),
        follows: Vec::new(),
        created,
    }
}

/// Nanoseconds since 1970, or 0 if the clock is unavailable.
pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(0))
}

/// Repairs the end of a file that a crash may have torn.
pub(super) fn mend(store: &mut Store, mut chain: Chain, tail: &Tail<'_>) -> Result<Chain> {
    match tail {
        Tail::Clean => {}
        Tail::NoNewline => store.append(b"\n")?,
        Tail::Torn(torn) => {
            let (mend, hash) = seal(torn, &chain.head);
            store.append(&mend)?;
            chain.head = hash;
        }
    }
    Ok(chain)
}

/// Rejects a file of an unknown version.
pub(super) fn check_version(found: &Replayed<'_>, path: &Path) -> Result<()> {
    let version = found.header.schema_version;
    if version <= LEDGER_SCHEMA {
        return Ok(());
    }
    Err(Error::LedgerMismatch {
        path: path.to_owned(),
        field: "schema_version",
        found: version.to_string(),
        expected: LEDGER_SCHEMA.to_string(),
    })
}

/// Rejects a file that was created for something else.
pub(super) fn check_header(
    found: &Replayed<'_>,
    data_set_id: &str,
    expected: Budget,
    path: &Path,
) -> Result<()> {
    let describe = |data_set: &str, budget: &Budget| {
        [
            ("data_set", data_set.to_owned()),
            ("adjacency", budget.adjacency().to_string()),
            ("filter", budget.kind().to_string()),
            ("epsilon", budget.target().epsilon.to_string()),
            ("delta", budget.target().delta.to_string()),
        ]
    };
    let have = describe(&found.header.data_set, &found.budget);
    let want = describe(data_set_id, &expected);
    for ((field, have), (_, want)) in have.into_iter().zip(want) {
        if have != want {
            return Err(Error::LedgerMismatch {
                path: path.to_owned(),
                field,
                found: have,
                expected: want,
            });
        }
    }
    Ok(())
}

pub(super) fn corrupt(path: &Path, line: usize) -> Error {
    Error::LedgerCorrupt {
        path: path.to_owned(),
        line,
    }
}
