//! A client: one user's vector and examples.

use dp_core::{Interactions, Private, params};
use dp_mechanism::ClientRecord;

use super::message::STEPS;
use super::{ExamplesMessage, Invitation};
use crate::Result;

/// One user's device: answers one invitation with the user's vector and examples in integers, and is used up by it.
///
/// The device's [`ClientRecord`] answers a run once, within its policy; the aggregator counts the first good message of each number.
///
/// # Privacy
/// What leaves is [`ExamplesMessage`], bounded here and checked again by the aggregator. The features of items never come here.
#[allow(
    missing_debug_implementations,
    reason = "holds private data; printing it is never wanted"
)]
pub struct Client<'a> {
    data: &'a Private<Interactions>,
    user: usize,
    number: u32,
}

impl<'a> Client<'a> {
    /// The client for row `user` of a table (a device's own has one row), known to the aggregator as `number`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there is no such row.
    pub fn new(data: &'a Private<Interactions>, user: usize, number: u32) -> Result<Self> {
        let last = data.expose().n_users().saturating_sub(1);
        params::in_range("user", user, 0, last, "a user of the table")?;
        Ok(Self { data, user, number })
    }

    /// Answers an invitation, the only one that this client answers. `record` has it durably before this returns.
    ///
    /// # Errors
    /// [`Refused`](dp_mechanism::Error::Refused) when the policy does not admit the invitation, or this run was answered before;
    /// [`crate::Error::Mechanism`] when the record cannot be written; [`crate::Error::Param`] or [`crate::Error::Shape`] for an invitation out of range, or one to another catalogue or length of vectors. Nothing depends on the client's
    /// records.
    pub fn answer(
        self,
        invitation: &Invitation,
        record: &mut ClientRecord,
    ) -> Result<ExamplesMessage> {
        invitation.check()?;
        let setup = &invitation.setup;
        setup.check_table(self.data, invitation.n_items)?;
        record.enter(&invitation.asked())?;
        record.answer(&invitation.asked())?;
        let row = self.data.expose().user(self.user);
        let mut vector = vec![0.0; setup.dim];
        setup.write_vector(row, &mut vector);
        let labels = row.values().iter().map(|&y| setup.label(y));
        Ok(ExamplesMessage {
            run: invitation.run.clone(),
            client: self.number,
            vector: vector
                .iter()
                .map(|u| in_steps(u / setup.user_norm))
                .collect(),
            items: row.items().to_vec(),
            labels: labels.map(|y| in_steps(y / setup.label_bound)).collect(),
        })
    }
}

/// A number from -1 to 1 in steps, toward zero, a shade below: a rounded-up norm must not pass the bound.
#[allow(
    clippy::cast_possible_truncation,
    reason = "at most 2^20 in size; the cast saturates"
)]
fn in_steps(x: f64) -> i32 {
    const SHADE: f64 = 1.0 - 1.0 / (1_u64 << 40) as f64;
    (x * SHADE * f64::from(STEPS)) as i32
}
