//! Item vectors from users on devices: the workflow compared with the library's aggregator, and what
//! a device repeats and refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dp_personal::core::{Adjacency, ApproxDp};
use dp_personal::data::TableSource;
use dp_personal::devices::{DeviceReply, Devices, answer_invitation};
use dp_personal::mechanism::{ClientPolicy, ClientRecord, NoiseSource, Run};
use dp_personal::pubfeat::federated::{Aggregator, ExamplesMessage, Server};
use dp_personal::pubfeat::{
    ItemFeaturesBuilder, KernelRidge, ProblemSetup, RidgeNoise, SparseKernel, SspParams,
    StatisticsLearner, Trainer,
};
use dp_personal::settings::Given;
use dp_personal::watch::Silent;
use dp_personal::workers::{LinkError, Place};
use dp_personal::workflows::items::learn_items;
use dp_personal::workflows::verify::verify;

const N_ITEMS: usize = 4;

/// A device with a vector of length 2 and some labels.
struct Device {
    folder: PathBuf,
    number: usize,
}

impl Device {
    fn new(folder: &Path, number: usize, vector: &str) -> Self {
        let folder = folder.join(number.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("vector.csv"), vector).unwrap();
        let device = Self { folder, number };
        let labels = (0..N_ITEMS).filter(|item| !(item + number).is_multiple_of(3));
        device.write(&labels.map(|j| format!("i{j},0.{j}\n")).collect::<String>());
        ClientRecord::create(device.folder.join("account"), ClientPolicy::trusting()).unwrap();
        device
    }

    fn write(&self, examples: &str) {
        fs::write(self.examples(), format!("item,label\n{examples}")).unwrap();
    }

    fn examples(&self) -> PathBuf {
        self.folder.join("examples.csv")
    }

    fn answer(
        &self,
        message: &[u8],
        policy: ClientPolicy,
        state: Option<&[u8]>,
    ) -> dp_personal::error::Result<DeviceReply> {
        let record = ClientRecord::open(self.folder.join("account"), policy).unwrap();
        let vector = self.folder.join("vector.csv");
        let records = (&*vector, &TableSource::File(self.examples()));
        answer_invitation(message, records, (self.number, record), state)
    }
}

fn received(reply: DeviceReply) -> (Vec<u8>, Vec<u8>) {
    match reply {
        DeviceReply::Received { reply, state } => (reply, state),
        DeviceReply::Refused(reason) => panic!("{reason}"),
    }
}

/// Devices in this process, and the messages that went to and fro.
struct Here {
    devices: Vec<Device>,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Devices for Here {
    fn n_devices(&self) -> usize {
        self.devices.len() + 2 // one is late, and one says what is not true
    }

    fn round(
        &mut self,
        message: &[u8],
        asked: &[usize],
    ) -> Result<Vec<(usize, Vec<u8>)>, LinkError> {
        assert_eq!(asked.len(), self.n_devices());
        let mut sent = self.sent.lock().unwrap();
        sent.push(message.to_vec());
        let all = self.devices.iter();
        let mut all: Vec<_> = all
            .map(|of| {
                let reply = of.answer(message, ClientPolicy::trusting(), None).unwrap();
                (of.number, received(reply).0)
            })
            .collect();
        sent.extend(all.iter().map(|(_, reply)| reply.clone()));
        all.push((self.devices.len(), all[0].1.clone())); // of another device
        all.push((0, all[0].1.clone())); // a second time
        all.reverse();
        Ok(all)
    }
}

#[test]
fn devices_release_what_the_aggregator_does_bit_for_bit() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let features = (0..N_ITEMS).map(|j| format!("i{j},{}\n", ["a", "b"][j % 2]));
    let catalogue = "item,kind\n".to_owned() + &features.collect::<String>();
    fs::write(at("items.csv"), catalogue).unwrap();
    let vectors = ["0.5,0.5", "-0.25,1", "3,4", "0,0", "0.125,-1"];
    let devices = vectors.iter().enumerate();
    let devices = devices.map(|(number, vector)| Device::new(dir.path(), number, vector));
    let sent = Arc::default();
    let here = Here {
        devices: devices.collect(),
        sent: Arc::clone(&sent),
    };
    let given = [
        ("data", "devices"),
        ("items", &at("items.csv")),
        ("out", &at("model")),
        ("epsilon", "8"),
        ("delta", "1e-5"),
        ("dim", "2"),
        ("label_bound", "0.25"),
        ("max_examples", "9"),
        ("no_ledger", "true"),
        ("insecure_seed", "7"),
    ];
    let given = given.iter();
    let given = given.fold(Given::default(), |all, (name, value)| {
        all.with(name, *value)
    });
    let place = Place::Devices(Box::new(here));
    let learned = learn_items(&given.settings().unwrap(), &mut Silent, place).unwrap();
    let checked = Given::default().with("certificate", at("model"));
    verify(&checked.settings().unwrap()).unwrap();

    let sent = sent.lock().unwrap();
    assert!(sent[1..].iter().all(|reply| reply.len() == sent[1].len()));
    let ssp = SspParams::new(ProblemSetup::new(2, 0.25)).check().unwrap();
    let adjacency = Adjacency::AddRemoveUser;
    let target = ApproxDp::target(8.0, 1e-5).unwrap();
    let plan = ssp.plan(N_ITEMS, target, adjacency).unwrap();
    let messages = sent[1..].iter().map(|reply| serde_json::from_slice(reply));
    let messages: Vec<ExamplesMessage> = messages.map(Result::unwrap).collect();
    let mut aggregator = Aggregator::new(&ssp, (N_ITEMS, 7), &*messages[0].run, &plan).unwrap();
    for message in &messages {
        aggregator.receive(message).unwrap();
    }
    let budget = dp_accounting::Budget::new(target, adjacency).unwrap();
    let mut ledger = dp_accounting::Ledger::in_memory("devices", budget).unwrap();
    let noise = &mut NoiseSource::insecure_seeded(7);
    let run = Run::paying(&plan, &mut ledger, noise).unwrap();
    let released = aggregator.close(run).unwrap();
    for said in &released.certificate.assumptions {
        assert!(learned.certificate.assumptions.contains(said), "{said}");
    }

    let mut builder = ItemFeaturesBuilder::new(N_ITEMS, &[2]).unwrap();
    (0..4).for_each(|j| builder.push(j, j % 2, 1.0).unwrap());
    let kernel = SparseKernel::of_features(&builder.build(), 0.1).unwrap();
    let noise = RidgeNoise::FromRelease { item_norm: 1.0 };
    let mut server = Server::new(
        released.model.run.clone(),
        KernelRidge::new(kernel, 2, noise, 0.0).unwrap(),
    );
    server.receive(&released.model).unwrap();
    assert_eq!(
        learned.item_vectors,
        server.learner().item_vectors().unwrap()
    );

    // a device repeats a message to the same invitation alone
    let (invitation, device) = (&sent[0], Device::new(dir.path(), 8, "1,0"));
    let trusting = ClientPolicy::trusting;
    let (reply, state) = received(device.answer(invitation, trusting(), None).unwrap());
    device.write("i0,1\n");
    let again = device.answer(invitation, trusting(), Some(&state)).unwrap();
    assert_eq!(received(again), (reply.clone(), state.clone()));
    let text = String::from_utf8(invitation.clone()).unwrap();
    let other = text.replace("\"max_examples\":9", "\"max_examples\":8");
    assert_ne!(text, other);
    let strict = ClientPolicy {
        least_noise_multiplier: 1e3,
        ..trusting()
    };
    for (message, policy, state, reason) in [
        (
            &*other,
            trusting(),
            Some(&*state),
            "answered this round before",
        ),
        (&*text, trusting(), None, "answered this round before"),
        (&*text, strict.clone(), Some(&*state), "noise multiplier"),
    ] {
        match device.answer(message.as_bytes(), policy, state).unwrap() {
            DeviceReply::Refused(said) => assert!(said.contains(reason), "{said}"),
            DeviceReply::Received { .. } => panic!("an answer in place of: {reason}"),
        }
    }

    // of more examples than may be sent, some others for each device; without any, the same length
    let few = text.replace("\"max_examples\":9", "\"max_examples\":1");
    let sent_by = |number: usize, examples: &str| {
        let device = Device::new(dir.path(), number, "1,0");
        device.write(examples);
        let reply = device.answer(few.as_bytes(), trusting(), None).unwrap();
        let (reply, _) = received(reply);
        let message: ExamplesMessage = serde_json::from_slice(&reply).unwrap();
        (reply.len(), message.items)
    };
    let lots: String = (0..N_ITEMS).map(|j| format!("i{j},0.1\n")).collect();
    let all: Vec<_> = (10..40).map(|number| sent_by(number, &lots)).collect();
    assert!(all.iter().all(|of| of.1.len() == 1 && of.0 == all[0].0));
    assert!((0..4).all(|item| all.iter().any(|of| of.1 == [item])));
    assert_eq!(sent_by(40, ""), (all[0].0, Vec::new()));

    // what the policy says comes before what the records are like
    let broken = Device::new(dir.path(), 50, "no number");
    assert!(broken.answer(invitation, trusting(), None).is_err());
    let refused = broken.answer(invitation, strict, None).unwrap();
    assert!(matches!(refused, DeviceReply::Refused(_)));
}
