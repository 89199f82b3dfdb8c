//! The server: untrusted, trains on released statistics.

use super::StatisticsMessage;
use crate::{Error, Result, StatisticsLearner};

/// Holds the features of items, by way of a learner, and trains once the statistics of its run are there. No client is asked again, whatever the number of
/// steps.
///
/// # Privacy
/// Sees released values only: post-processing.
///
/// # Examples
/// ```
/// use dp_pubfeat::federated::{Aggregator, Client, Server};
/// use dp_pubfeat::{Adjacency, ApproxDp, Budget, ClientPolicy, ClientRecord, FeatureKernel, InteractionsBuilder, KernelRidge, Ledger, NoiseSource, Private};
/// use dp_pubfeat::{ProblemSetup, RidgeNoise, Run, SspParams, StatisticsLearner, Trainer};
///
/// let mut builder = InteractionsBuilder::new(2).with_feature_dim(1);
/// for user in 0..300 {
///     builder.set_features(user, &[1.0])?;
///     builder.push(user, user % 2, 0.5)?;
/// }
/// let devices = Private::new(builder.build().0); // stands for 300 devices
///
/// let ssp = SspParams::new(ProblemSetup::new(1, 1.0)).check()?;
/// let (target, adjacency) = (ApproxDp::target(2.0, 1e-5)?, Adjacency::AddRemoveUser);
/// let plan = ssp.plan(2, target, adjacency)?;
/// let mut ledger = Ledger::in_memory("devices", Budget::new(target, adjacency)?)?;
///
/// let mut aggregator = Aggregator::new(&ssp, (2, 300), "run 7", &plan)?;
/// let policy = ClientPolicy { least_noise_multiplier: 1.0, ..ClientPolicy::trusting() };
/// for number in 0..300 {
///     let mut record = ClientRecord::in_memory(policy.clone())?; // a device keeps it in a file
///     let client = Client::new(&devices, number as usize, number)?;
///     let message = client.answer(aggregator.invitation(), &mut record)?;
///     aggregator.receive(&message)?; // by any transport
/// }
/// let noise = &mut NoiseSource::operating_system();
/// let released = aggregator.close(Run::paying(&plan, &mut ledger, noise)?)?;
/// assert!(released.certificate.verify()?.is_private());
///
/// let learner = KernelRidge::new(FeatureKernel::id_only(2)?, 1, RidgeNoise::FromRelease { item_norm: 1.0 }, 0.0)?;
/// let mut server = Server::new("run 7", learner);
/// server.receive(&released.model)?;
/// assert!((server.learner().item_vectors()?[0] - 0.5).abs() < 0.4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Server<L> {
    run: String,
    learner: L,
}

impl<L: StatisticsLearner> Server<L> {
    /// A server of the run of this name.
    pub fn new(run: impl Into<String>, learner: L) -> Self {
        Self {
            run: run.into(),
            learner,
        }
    }

    /// Trains on the statistics of the run.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] for statistics of another run; those of the learner.
    pub fn receive(&mut self, message: &StatisticsMessage) -> Result<()> {
        if message.run != self.run {
            return Err(Error::Unsupported {
                what: "statistics of another run",
            });
        }
        self.learner.learn(&message.statistics)
    }

    /// What it has learned.
    pub const fn learner(&self) -> &L {
        &self.learner
    }

    /// What it has learned.
    pub fn into_learner(self) -> L {
        self.learner
    }
}
