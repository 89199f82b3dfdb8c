//! `jain2021-school` and similar: personal models of few but large groups, on real data.

pub(super) mod data;
mod table;

use self::data::DataSet;
use super::ReproduceArgs;
use super::report::Row;
use dp_personal::error::{Error, Result};

pub(super) fn school(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(args, &data::SCHOOL)
}

pub(super) fn parkinsons(args: &ReproduceArgs) -> Result<Vec<Row>> {
    run(args, &data::PARKINSONS)
}

fn run(args: &ReproduceArgs, data: &DataSet) -> Result<Vec<Row>> {
    if !args.size.is_empty() {
        let message = "--size: the size is that of the data set under --data";
        return Err(Error::Usage(message.to_owned()));
    }
    table::rows(args, data)
}
