//! Item vectors from users on devices, by SSP-c (Krichene et al. 2024, Algorithm 8): each device
//! sends its user's vector and examples once, the aggregator releases noisy statistics of all items,
//! and item vectors follow from these and from public features of the items.

use std::cell::RefCell;
use std::path::Path;

use dp_accounting::{Certificate, CertificateBuilder, Plan, Requests, sha256_hex};
use dp_core::{Adjacency, Interactions, Private};
use dp_data::ItemCatalogue;
use dp_mechanism::{Run, Trainer};
use dp_pubfeat::federated::{Aggregator, Server};
use dp_pubfeat::{
    ItemFeatures, KernelRidge, ProblemSetup, RidgeNoise, SparseKernel, Ssp, SspParams,
    StatisticsLearner,
};
use serde_json::json;

use super::ledger::{HasUsers, random_bits};
use super::private_run::{Clock, HasTable, Opening, run_name};
use super::train::ADJACENCY;
use crate::devices::{Devices, collect};
use crate::error::{Error, Result};
use crate::item_features::Items;
use crate::output::{
    ITEMS_COMMAND, ItemVectors, ItemsRelease, ItemsReport, Seconds, catalogue_sha256,
};
use crate::settings::{ItemModelSettings, ItemsSettings};
use crate::warnings::USERS_ON_DEVICES;
use crate::watch::{Watch, Watched, go_on};
use crate::workers::Place;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct ItemsOutcome {
    /// The certificate of everything that was released.
    pub certificate: Certificate,
    /// Item vectors, shape `(n_items, dim)`, row-major, in the order of the catalogue.
    pub item_vectors: Vec<f64>,
    /// Released values as text, for a terminal.
    pub summary: String,
}

/// The releases of [`learn_items`] with these settings, before any device is asked: public.
///
/// # Errors
/// When settings are out of range or conflict, or the catalogue cannot be read.
pub fn plan(args: &ItemsSettings) -> Result<Plan> {
    let catalogue = dp_data::read_catalogue(&args.items)?;
    plan_of(args, &ssp(&args.model)?, &catalogue)
}

fn plan_of(args: &ItemsSettings, ssp: &Ssp, catalogue: &ItemCatalogue) -> Result<Plan> {
    Ok(ssp.plan(catalogue.len(), args.guarantee.target()?, ADJACENCY)?)
}

/// Learns item vectors from the examples of the devices of [`Place::Devices`], and writes a release
/// folder.
///
/// ```text
/// A_j = sum_u w_uj u u^T + noise,   b_j = sum_u w_uj y_uj u + noise,   sum_j w_uj^2 <= 1
/// ```
///
/// are [`Ssp`]'s statistics with equal weights of a user's examples and half of the budget on each
/// of the two; item vectors are those of [`KernelRidge`] with [`RidgeNoise::FromRelease`] and the
/// kernel of the items' features.
///
/// # Errors
/// Before any device is asked, when settings are out of range or conflict, when the output exists or
/// when the ledger's budget is too small; after that, when the folder cannot be written or the
/// devices' transport ends the run. No error depends on what devices sent.
///
/// # Privacy
/// The ledger pays for both releases after the devices have answered and before noise is drawn. This
/// process is the aggregator: it sees each device's vector and examples. A run whose release is
/// listed is resumed without asking a device. One that ended before is begun again: with the same
/// `run`, and if the ledger has paid for nothing since, devices repeat their messages at no cost to
/// them; otherwise they count it as another run.
pub fn learn_items(
    args: &ItemsSettings,
    watch: &mut dyn Watch,
    place: Place<'_>,
) -> Result<ItemsOutcome> {
    let (place, Some(devices)) = place.without_devices() else {
        let text = "item vectors are learned from users on devices";
        return Err(Error::Usage(text.to_owned()));
    };
    if args.output.metrics.release_metrics.is_some() {
        let text = "`release_metrics` needs held-out examples, and devices hold out none";
        return Err(Error::Usage(text.to_owned()));
    }
    let (ssp, catalogue) = (ssp(&args.model)?, dp_data::read_catalogue(&args.items)?);
    let plan = plan_of(args, &ssp, &catalogue)?;
    let items = Items::read(&args.items, &args.features)?;
    let features = items.features(&catalogue)?;
    let learner = learner(&args.model, &features)?;
    let opening = Opening {
        data: &args.data,
        catalogue: None,
        inputs: vec![Path::new(&args.items)],
        ledger: &args.ledger,
        resume: &args.resume,
        output: &args.output,
    };
    let mut opened = opening.open(&plan, place)?.bind(&Nobody)?;
    go_on(watch)?;
    let mut clock = Clock::start();
    opened.found(vec![USERS_ON_DEVICES.to_owned()]);
    let mut assumptions = vec![
        args.ledger.assumption().to_owned(),
        "a user is one device, which has all of that person's examples".to_owned(),
        "the aggregator is the server, which has the ledger".to_owned(),
        items.assumption(),
    ];
    assumptions.extend(opened.dealing_assumptions(&args.ledger));
    let model = &args.model;
    let own = json!({
        "model": {
            "ssp": ssp.params(),
            "max_examples": model.max_examples,
            "item_norm": model.item_norm,
            "own_share": model.own_share,
        },
        "n_devices": devices.n_devices(),
        "features_sha256": sha256_hex(&items.features_file(&catalogue)?.1),
        "items_sha256": catalogue_sha256(&catalogue)?,
    });
    let public = opened.public(ITEMS_COMMAND, args, &assumptions, own)?;
    // never one name for two releases that were paid for: without a payment so far, two ledgers, or
    // none, could not be told apart
    let begun = match (&args.run, opened.last_paid()) {
        (Some(run), Some(last)) => json!([run, last]),
        _ => json!(random_bits()?),
    };
    let trainer = ItemsTrainer {
        ssp,
        learner,
        catalogue: &catalogue,
        max_examples: model.max_examples,
        run: run_name(&json!([&public, begun]))?,
        assumptions,
    };
    let load = clock.lap();
    let noise = &mut args.output.noise();
    let mut watched = Watched::begin(watch, &plan)?;
    let data = OnDevices(RefCell::new(devices));
    let run = opened.run(&plan, &public);
    let fitted = run.train(&trainer, &data, noise, &mut watched, |_| false)?;
    let train = clock.lap();
    let release = ItemsRelease {
        certificate: &fitted.certificate,
        provenance: fitted.provenance,
        model: &fitted.model,
        catalogue: &catalogue,
        settings: model,
        columns: items.columns(),
        run: &public,
    };
    opened.write(&release)?;
    let (_, summary, _) = opened.close(&plan, || {
        Ok(ItemsReport {
            release: &release,
            seconds: Seconds {
                load,
                train,
                evaluate: 0.0,
            },
        })
    })?;
    Ok(ItemsOutcome {
        certificate: fitted.certificate,
        item_vectors: fitted.model.vectors,
        summary,
    })
}

fn ssp(model: &ItemModelSettings) -> Result<Ssp> {
    let mut setup = ProblemSetup::new(model.dim, model.label_bound);
    setup.user_norm = model.vector_norm;
    Ok(SspParams::new(setup).check()?)
}

type Learner = KernelRidge<SparseKernel>;

fn learner(model: &ItemModelSettings, features: &ItemFeatures) -> Result<Learner> {
    let kernel = SparseKernel::of_features(features, model.own_share)?;
    let item_norm = model.item_norm;
    let noise = RidgeNoise::FromRelease { item_norm };
    Ok(KernelRidge::new(kernel, model.dim, noise, 0.0)?)
}

/// The users of a server whose users are on devices.
pub(super) struct Nobody;

impl HasUsers for Nobody {
    fn user_ids(&self) -> Private<Vec<&str>> {
        Private::new(Vec::new())
    }
}

struct OnDevices(RefCell<Box<dyn Devices>>);

impl HasTable for OnDevices {
    fn table(&self) -> Option<&Private<Interactions>> {
        None
    }
}

/// One release on what the devices send, and the item vectors that follow from it.
struct ItemsTrainer<'a> {
    ssp: Ssp,
    learner: Learner,
    catalogue: &'a ItemCatalogue,
    max_examples: usize,
    /// Under which devices know the run.
    run: String,
    /// The operator's assumptions.
    assumptions: Vec<String>,
}

impl Trainer for ItemsTrainer<'_> {
    type Data = OnDevices;
    type Model = ItemVectors;
    type Error = Error;

    fn width(&self, _: &OnDevices) -> usize {
        self.catalogue.len()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        Ok(self.ssp.requests(n_items, adjacency)?)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let said = self.assumptions.iter().cloned();
        said.fold(
            self.ssp.describe(certificate),
            CertificateBuilder::assumption,
        )
    }

    fn train(&self, data: &OnDevices, run: &mut Run<'_>) -> Result<ItemVectors> {
        let mut devices = data.0.borrow_mut();
        let size = (
            self.catalogue.len(),
            u32::try_from(devices.n_devices()).unwrap_or(u32::MAX),
        );
        let mut aggregator = Aggregator::new(&self.ssp, size, &*self.run, run.plan())?;
        if !run.is_replaying()? {
            let public = (self.catalogue, self.max_examples);
            collect(&mut **devices, public, &mut aggregator)?;
        }
        let released = aggregator.release(run)?;
        let mut server = Server::new(&*self.run, self.learner.clone());
        server.receive(&released)?;
        let learner = server.into_learner();
        Ok(ItemVectors {
            vectors: learner.item_vectors()?,
            errors: learner.standard_errors(&released.statistics)?,
            statistics: released.statistics,
        })
    }
}
