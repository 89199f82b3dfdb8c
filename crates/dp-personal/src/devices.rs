//! Workflows whose users are on their own devices. Each device is one client: of dp-fedsgd, which
//! answers a round with its clipped update and keeps its personal parameters ([`answer_round`]), or
//! of dp-pubfeat, which answers one invitation with its user's vector and examples
//! ([`answer_invitation`]).
//!
//! One process is the server: it opens ledger and output folder, draws who is asked, adds noise and
//! writes the released files ([`Place::Devices`](crate::workers::Place::Devices)). An engine
//! transports the bytes of [`Devices`] and calls the answer's function on each device.
//!
//! The server is trusted with single updates, which is less than the exact sums and the users'
//! records that [workers](crate::workers) hold: see [`dp_fedsgd::Server`]. As the aggregator of
//! dp-pubfeat it sees users' vectors and examples: see [`dp_pubfeat::federated::Aggregator`].

use std::fs;
use std::path::Path;

use dp_core::{InteractionsBuilder, Private};
use dp_data::{ItemCatalogue, RatingsColumns, RatingsFormat, TableSource};
use dp_fedsgd::{Client, ClientState, RoundClients, RoundMessage, UpdateMessage};
use dp_mechanism::{ClientRecord, Error as KernelError, Refusal};
use dp_pubfeat::federated::{Aggregator, Client as ExamplesClient, ExamplesMessage, Invitation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

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

/// A device's answer to a message.
#[allow(
    missing_debug_implementations,
    reason = "may hold a private gradient; printing it is never wanted"
)]
pub enum DeviceReply {
    /// The message was received.
    Received {
        /// The reply to the server: an update or nothing, or a vector with examples. Its length does
        /// not depend on whether the device was asked, or on the user's records.
        reply: Vec<u8>,
        /// The state of the device after it, to be stored durably before the reply is sent.
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

/// An invitation with everything public that a device must know to answer it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemsMessage {
    invitation: Invitation,
    /// Ids of the items.
    items: Vec<String>,
    max_examples: usize,
}

/// Invites all devices, and gives the aggregator what they reply in time.
///
/// # Errors
/// Only if the run is ended from outside, never because of what arrived: a message that is rejected
/// is logged with the number of its device.
pub(crate) fn collect(
    devices: &mut dyn Devices,
    (catalogue, max_examples): (&ItemCatalogue, usize),
    aggregator: &mut Aggregator,
) -> Result<()> {
    let message = written(&ItemsMessage {
        invitation: aggregator.invitation().clone(),
        items: catalogue.ids().to_vec(),
        max_examples,
    })?;
    let all: Vec<usize> = (0..devices.n_devices()).collect();
    for (device, reply) in devices.round(&message, &all)? {
        let read = serde_json::from_slice(&reply).ok();
        let own = read.filter(|of: &ExamplesMessage| of.client as usize == device);
        match own.map(|message| aggregator.receive(&message)) {
            Some(Ok(())) => {}
            Some(Err(rejection)) => tracing::info!("not counted: {rejection}"),
            None => tracing::info!("not counted: the reply of device {device} is no message of it"),
        }
    }
    Ok(())
}

/// Answers an invitation on a device. `vector` is the file of the user's vector, numbers separated
/// by commas, and `examples` a table with an item and a `label` column and no user column. Examples
/// of items that are not in the catalogue are left out; of more than `max_examples` those stay whose
/// SHA-256 with the device's number is smallest. `state` is that of the previous answer: the same
/// message gets the same reply at no further cost, also if the records have changed. `record` stores
/// durably that the invitation is answered.
///
/// # Errors
/// When the message is not an invitation, or when vector or examples cannot be read or have another
/// shape.
///
/// # Privacy
/// The policy is checked first. An error may depend on the records and must not leave the device.
pub fn answer_invitation(
    message: &[u8],
    (vector, examples): (&Path, &TableSource),
    (number, mut record): (usize, ClientRecord),
    state: Option<&[u8]>,
) -> Result<DeviceReply> {
    let ItemsMessage {
        invitation,
        items,
        max_examples,
    } = read("an invitation", message)?;
    if let Err(KernelError::Refused(refusal)) = record.policy().admits(&invitation.asked()) {
        return Ok(DeviceReply::Refused(refusal.to_string()));
    }
    let name: [u8; 32] = Sha256::digest(message).into();
    if let Some((state, reply)) = state.and_then(|state| Some((state, state.strip_prefix(&name)?)))
    {
        return Ok(DeviceReply::Received {
            reply: reply.to_vec(),
            state: state.to_vec(),
        });
    }
    let number = u32::try_from(number).map_err(|e| Error::Usage(e.to_string()))?;
    let max_examples = max_examples.min(items.len()); // an item has one label
    let catalogue = ItemCatalogue::from_ids(items);
    let vector = fs::read_to_string(vector).map_err(|e| Error::read(vector, e))?;
    let vector = vector.split(',').map(|x| x.trim().parse::<f32>());
    let vector = vector.collect::<std::result::Result<Vec<f32>, _>>();
    let vector = vector.map_err(|e| Error::Usage(format!("the user's vector: {e}")))?;
    let columns = RatingsColumns {
        user: None,
        item: None,
        rating: Some("label".to_owned()),
    };
    let format = RatingsFormat::default().with_columns(columns);
    let mut kept = match dp_data::read_history(examples.clone(), &format, &catalogue) {
        Ok(history) => history.records().to_vec(),
        Err(dp_data::Error::Empty { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    if kept.len() > max_examples {
        kept.sort_by_cached_key(|(item, _)| Sha256::digest(format!("{number},{item}")));
        kept.truncate(max_examples);
    }
    let mut builder = InteractionsBuilder::new(catalogue.len()).with_feature_dim(vector.len());
    builder.set_features(0, &vector)?;
    for (item, label) in kept {
        builder.push(0, item, label)?;
    }
    let data = Private::new(builder.build().0);
    let client = ExamplesClient::new(&data, 0, number)?;
    let message = match client.answer(&invitation, &mut record) {
        Ok(message) => message,
        Err(dp_pubfeat::Error::Mechanism(KernelError::Refused(refusal))) => {
            return Ok(DeviceReply::Refused(refusal.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let mut reply = written(&message)?;
    reply.resize(examples_length(&invitation, max_examples), b' ');
    Ok(DeviceReply::Received {
        state: [&name, &*reply].concat(),
        reply,
    })
}

/// Bytes that the message of a device has at most: those of its names and a number, 9 with a comma
/// for each coordinate of the vector, and 11 and 9 for the item and the label of an example.
fn examples_length(invitation: &Invitation, max_examples: usize) -> usize {
    // a character of the run's name takes up to 6 bytes
    128 + 6 * invitation.run.len() + 9 * invitation.setup.dim + 20 * max_examples
}

fn read<T: for<'de> Deserialize<'de>>(what: &str, json: &[u8]) -> Result<T> {
    serde_json::from_slice(json).map_err(|error| Error::Usage(format!("{what}: {error}")))
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}
