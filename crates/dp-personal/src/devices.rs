//! A workflow whose users are on their own devices: each device is one client of dp-fedsgd, which
//! answers a round with its clipped update and keeps its personal parameters.
//!
//! One process is the server: it opens ledger and output folder, draws who is asked, adds noise and
//! writes the released files ([`Place::Devices`](crate::workers::Place::Devices)). An engine
//! transports the bytes of [`Devices`] and calls [`answer_round`] on each device.
//!
//! The server is trusted with single updates, which is less than the exact sums and the users'
//! records that [workers](crate::workers) hold: see [`dp_fedsgd::Server`].

use dp_data::TableSource;
use dp_fedsgd::{Client, ClientState, RoundClients, RoundMessage, UpdateMessage};
use dp_mechanism::{ClientRecord, Error as KernelError, Refusal};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::federated::{batches_of, objective};
use crate::personal::{Inputs, Users};
use crate::workflows::predict::columns;

/// Devices, by number from 0, and the transport of messages to them.
pub trait Devices {
    /// The number of devices: public.
    fn n_devices(&self) -> usize;

    /// Sends a message to all devices, says to each of those in `asked` that it is asked, and
    /// returns the replies that arrive within a time fixed in advance, with the devices' numbers.
    ///
    /// # Errors
    /// Only if the run is ended from outside, never because of who was asked or what arrived.
    ///
    /// # Privacy
    /// Who is asked is secret, and replies are as private as users' records.
    fn round(
        &mut self,
        message: &[u8],
        asked: &[usize],
    ) -> Result<Vec<(usize, Vec<u8>)>, KernelError>;
}

/// The message of a round with everything public that a device must know to train.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceMessage {
    model: DeviceModel,
    round: RoundMessage,
}

/// The model that devices train.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceModel {
    pub(crate) inputs: Inputs,
    pub(crate) batch_size: usize,
    pub(crate) max_rows: usize,
}

/// Devices as clients of a server of this model.
pub(crate) struct AsClients<'d> {
    pub(crate) devices: &'d mut dyn Devices,
    pub(crate) model: DeviceModel,
}

impl RoundClients for AsClients<'_> {
    fn n_clients(&self) -> usize {
        self.devices.n_devices()
    }

    fn round(
        &mut self,
        message: &RoundMessage,
        asked: &[usize],
    ) -> Result<Vec<UpdateMessage>, KernelError> {
        let message = DeviceMessage {
            model: self.model.clone(),
            round: message.clone(),
        };
        let bytes = serde_json::to_vec(&message).map_err(|_| KernelError::Link {
            what: "the message of a round cannot be written",
        })?;
        let replies = self.devices.round(&bytes, asked)?;
        // a reply without an update, or one that cannot be read, counts as missing
        let updates = replies.into_iter().filter_map(|(device, reply)| {
            let update: UpdateMessage = serde_json::from_slice(&reply).ok()?;
            (update.client == device).then_some(update)
        });
        Ok(updates.collect())
    }
}

/// A device's answer to the message of a round.
#[allow(
    missing_debug_implementations,
    reason = "may hold a private gradient; printing it is never wanted"
)]
pub enum DeviceReply {
    /// The round was received.
    Received {
        /// The reply to the server: an update, or nothing. Its length does not depend on whether
        /// the device was asked, or on the user's records.
        reply: Vec<u8>,
        /// The [`ClientState`] after the round, to be stored durably before the reply is sent.
        state: Vec<u8>,
    },
    /// The device's policy does not admit the round, whether the device is asked or not. The reason
    /// follows from the message, the policy and the record of runs.
    Refused(String),
}

/// Answers the message of a round on a device with the user's own rows, which have no user column.
/// `state` is that of the previous round, and `record` stores durably that the round is answered.
///
/// # Errors
/// When the message is not that of a round, or when the rows cannot be read.
///
/// # Privacy
/// An error may depend on the rows and must not leave the device.
pub fn answer_round(
    (message, asked): (&[u8], bool),
    rows: &TableSource,
    (number, record): (usize, ClientRecord),
    state: Option<&[u8]>,
) -> Result<DeviceReply> {
    let DeviceMessage { model, round } = read("the message of a round", message)?;
    let inputs = &model.inputs;
    inputs.check().map_err(Error::Usage)?;
    let table = dp_data::read_samples(rows, &columns(None, inputs, true))?;
    let users = table.into_users();
    let users = Users::of_one(inputs, users.expose().first(), model.max_rows)?;
    let (objective, batches) = (
        objective(inputs.task, inputs.dim())?,
        batches_of(users.samples(), inputs, model.batch_size)?,
    );
    let mut client = Client::new(&objective, &batches, 0, number, record)?;
    if let Some(state) = state {
        let state: ClientState = read("the state of a device", state)?;
        client = client.resumed(state);
    }
    let update = match client.receive(&round, asked) {
        Ok(reply) => reply.update(),
        // refused only where it is asked: the reply is that of a device that is not
        Err(dp_fedsgd::Error::Mechanism(KernelError::Refused(
            Refusal::Lifetime | Refusal::Answered,
        ))) => None,
        Err(dp_fedsgd::Error::Mechanism(KernelError::Refused(refusal))) => {
            return Ok(DeviceReply::Refused(refusal.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let mut reply = match &update {
        Some(update) => written(update)?,
        None => Vec::new(),
    };
    reply.resize(reply_length(&round), b' ');
    Ok(DeviceReply::Received {
        reply,
        state: written(client.state())?,
    })
}

/// The user's own parameters in the state of a device.
///
/// # Errors
/// When the bytes are no such state.
pub fn local_parameters(state: &[u8]) -> Result<Vec<f64>> {
    let state: ClientState = read("the state of a device", state)?;
    Ok(state.local().to_vec())
}

/// Bytes that the update of a round has at most: those of its names, two numbers, and 20 digits
/// with a comma for each coordinate.
fn reply_length(round: &RoundMessage) -> usize {
    // a character of the run's name takes up to 6 bytes
    128 + 6 * round.run.len() + 21 * round.n_coordinates()
}

fn read<T: for<'de> Deserialize<'de>>(what: &str, json: &[u8]) -> Result<T> {
    serde_json::from_slice(json).map_err(|error| Error::Usage(format!("{what}: {error}")))
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}
