//! The file: users, their counts, their data.

use std::collections::{HashMap, HashSet};

use super::LeafRows;
use super::rows::Rows;
use crate::readers::json::JsonReader;
use crate::{Expected, Result, SampleTable, SampleUser};

/// What was read so far.
pub(super) struct LeafFile {
    rows: LeafRows,
    users: Option<Vec<String>>,
    counts: Option<Vec<usize>>,
    data: Option<HashMap<String, Rows>>,
    /// Numbers of the row or label being read.
    scratch: Vec<f32>,
}

impl LeafFile {
    pub(super) const fn new(rows: LeafRows) -> Self {
        Self {
            rows,
            users: None,
            counts: None,
            data: None,
            scratch: Vec::new(),
        }
    }

    pub(super) fn read_users(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.users.is_some())?;
        let (mut users, mut known) = (Vec::new(), HashSet::new());
        json.array("an array of users", |json| {
            let id = json.string("the id of a user in quotes")?;
            if !known.insert(id.clone()) {
                return Err(json.malformed(Expected::NewUser));
            }
            users.push(id);
            Ok(())
        })?;
        self.users = Some(users);
        Ok(())
    }

    pub(super) fn read_counts(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.counts.is_some())?;
        let mut counts = Vec::new();
        json.array("an array of counts", |json| {
            counts.push(json.count("a count of rows")?);
            Ok(())
        })?;
        self.counts = Some(counts);
        Ok(())
    }

    pub(super) fn read_data(&mut self, json: &mut JsonReader<'_>) -> Result<()> {
        once(json, self.data.is_some())?;
        let mut data = HashMap::new();
        json.object("an object of users", |json, id| {
            let rows = self.read_user(json)?;
            if data.insert(id.to_owned(), rows).is_some() {
                return Err(json.malformed(Expected::NewUser));
            }
            Ok(())
        })?;
        self.data = Some(data);
        Ok(())
    }

    fn read_user(&mut self, json: &mut JsonReader<'_>) -> Result<Rows> {
        let (mut rows, mut has_x, mut has_y) = (Rows::default(), false, false);
        let declared = self.rows;
        json.object("an object with x and y", |json, key| match key {
            "x" => {
                once(json, std::mem::replace(&mut has_x, true))?;
                json.array("an array of rows", |json| {
                    rows.push_x(self.numbers(json)?, declared);
                    Ok(())
                })
            }
            "y" => {
                once(json, std::mem::replace(&mut has_y, true))?;
                json.array("an array of labels", |json| {
                    rows.push_y(self.numbers(json)?, declared);
                    Ok(())
                })
            }
            _ => json.skip(0),
        })?;
        if !(has_x && has_y) {
            return Err(json.malformed(Expected::Json("x and y of a user")));
        }
        Ok(rows)
    }

    /// The numbers of a row or label.
    fn numbers(&mut self, json: &mut JsonReader<'_>) -> Result<&[f32]> {
        self.scratch.clear();
        flat(json, &mut self.scratch, 0)?;
        Ok(&self.scratch)
    }

    pub(super) fn into_table(self, json: &JsonReader<'_>) -> Result<SampleTable> {
        let missing = |key| json.malformed(Expected::Json(key));
        let users = self.users.ok_or_else(|| missing("the key users"))?;
        let counts = self.counts.ok_or_else(|| missing("the key num_samples"))?;
        let mut data = self.data.ok_or_else(|| missing("the key user_data"))?;
        if counts.len() != users.len() {
            return Err(json.malformed(Expected::Counts));
        }
        let width = self.rows.n_features;
        let (mut table, mut order, mut n_not_finite) = (Vec::new(), Vec::new(), 0);
        for ((number, id), count) in (0..).zip(users).zip(counts) {
            let rows = data
                .remove(&id)
                .ok_or_else(|| json.malformed(Expected::DataOfUser))?;
            if rows.n_x() != count {
                return Err(json.malformed(Expected::Counts));
            }
            let cells = rows.usable(width);
            let n_kept = cells.len() / (width + 1);
            n_not_finite += count - n_kept;
            order.extend(std::iter::repeat_n(number, n_kept));
            table.push(SampleUser { id, cells });
        }
        if !data.is_empty() {
            return Err(json.malformed(Expected::ListedUser));
        }
        let features = (0..width).map(|at| format!("x{at}")).collect();
        let target = Some("y".to_owned());
        Ok(SampleTable::new(
            features,
            target,
            table,
            order,
            n_not_finite,
        ))
    }
}

fn once(json: &JsonReader<'_>, again: bool) -> Result<()> {
    if again {
        return Err(json.malformed(Expected::Json("every key once")));
    }
    Ok(())
}

/// A number, or all numbers of arrays within one another.
fn flat(json: &mut JsonReader<'_>, out: &mut Vec<f32>, depth: usize) -> Result<()> {
    if json.peek()? == Some(b'[') && depth < 4 {
        return json.array("an array", |json| flat(json, out, depth + 1));
    }
    out.push(json.number("a number")?);
    Ok(())
}
