//! Common parts of this crate's trainers: settings combined with a model to train, requests,
//! checks, and the sentences of the certificate.

use dp_accounting::{CertificateBuilder, PlannedRelease, ReleaseRequest, Requests};
use dp_core::{DpEvent, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::{PoissonSampling, Round, Run};

use crate::learn::StatisticsLearner;
use crate::problem::{Vectors, assumptions};
use crate::{Error, ProblemSetup, ProtectedUnit, Result};

/// The settings of an algorithm together with what a run trains: a
/// [`Trainer`](dp_mechanism::Trainer).
///
/// | made by | trains |
/// |---|---|
/// | [`Ssp::with`](crate::Ssp::with), [`SampledSsp::with`](crate::SampledSsp::with), [`ResidualSsp::with`](crate::ResidualSsp::with), [`AmSsp::with`](crate::AmSsp::with) | a [`StatisticsLearner`] |
/// | [`ConvexSsp::with`](crate::ConvexSsp::with) | a loss and a learner |
/// | [`DpSgd::with`](crate::DpSgd::with), [`DpSgd::alternating`](crate::DpSgd::alternating) | a [`PublicEncoder`](crate::PublicEncoder) |
/// | [`AmResidualSsp::with`](crate::AmResidualSsp::with), [`AmImplicitSsp::with`](crate::AmImplicitSsp::with) | item vectors under a [`FeaturePrior`](crate::FeaturePrior) |
///
/// Every run starts from a copy of `start`, so a trainer can be run, resumed and replayed any
/// number of times.
#[derive(Debug, Clone, PartialEq)]
pub struct With<S, M> {
    /// The validated settings.
    pub settings: S,
    /// The starting point of a run. Public.
    pub start: M,
}

/// Methods of the validated settings of every algorithm: the settings, the plan of a fit, and a
/// trainer.
macro_rules! algorithm {
    ($name:ident of $params:ty, over $width:ident, $(#[$with:meta])*) => {
        impl $name {
            /// The settings.
            #[must_use]
            pub const fn params(&self) -> &$params {
                &self.params
            }

            #[doc = concat!("What a fit over `", stringify!($width), "` will release, with the least noise for `target`.")]
            ///
            /// # Errors
            /// As [`Ssp::plan`](crate::Ssp::plan).
            pub fn plan(
                &self,
                $width: usize,
                target: dp_core::ApproxDp,
                adjacency: dp_core::Adjacency,
            ) -> crate::Result<dp_accounting::Plan> {
                let requests = self.requests($width, adjacency)?;
                Ok(dp_mechanism::plan_for(&requests, target, adjacency)?)
            }

            $(#[$with])*
            pub fn with<M>(&self, start: M) -> crate::With<Self, M> {
                let settings = self.clone();
                crate::With { settings, start }
            }
        }
    };
}
pub(crate) use algorithm;

/// Common items of every trainer of a [`StatisticsLearner`] `L`: types, the number of items, and
/// the settings' requests.
macro_rules! trains_a_learner {
    () => {
        type Data = dp_core::Private<dp_core::Interactions>;
        type Model = L;
        type Error = crate::Error;

        fn width(&self, _: &Self::Data) -> usize {
            self.start.n_items()
        }

        fn requests(
            &self,
            n_items: usize,
            adjacency: dp_core::Adjacency,
        ) -> crate::Result<dp_accounting::Requests> {
            self.settings.requests(n_items, adjacency)
        }
    };
}
pub(crate) use trains_a_learner;

/// Returns the copy of the learner that a run starts from, after checking that learner, table and
/// unit belong together: all of it is public.
pub(crate) fn begin<L: StatisticsLearner + Clone>(
    (setup, start): (&ProblemSetup, &L),
    data: &Private<Interactions>,
    run: &Run<'_>,
) -> Result<L> {
    check(setup, (start.n_items(), start.dim()), data, run)?;
    Ok(start.clone())
}

/// Checks that settings, model and table belong together, and that an observer does not mistake
/// records for users.
pub(crate) fn check(
    setup: &ProblemSetup,
    (n_items, dim): (usize, usize),
    data: &Private<Interactions>,
    run: &Run<'_>,
) -> Result<()> {
    params::same_size("model's dim", dim, setup.dim)?;
    setup.check_table(data, n_items)?;
    if setup.unit == ProtectedUnit::Example && run.is_read_by_user() {
        return Err(Error::Unsupported {
            what: "an observer of a run that bounds single records: it would be shown what whole users add",
        });
    }
    Ok(())
}

/// Shows the observer of an alternating run the item vectors after a round, shape `(m, d)`; round 0
/// is before the first.
pub(crate) fn show_round(run: &mut Run<'_>, round: usize, item_vectors: &[f64], dim: usize) {
    run.round(&Round {
        round,
        parameters: item_vectors,
        shape: (item_vectors.len() / dim.max(1), dim),
        local: None,
    });
}

/// Completes the certificate with the assumptions: the unit's meaning, the origin of users'
/// vectors, and `more`.
pub(crate) fn describe(
    certificate: CertificateBuilder,
    (setup, vectors): (&ProblemSetup, Vectors),
    (output, more): (&str, &[&str]),
) -> CertificateBuilder {
    let mut certificate = certificate
        .released_output(output, "anyone")
        .assumption(
            "item features and the item catalogue are public and were not made from this data set",
        )
        .assumption("settings were not chosen by looking at this data set")
        .not_covered("vectors of users, which stay with their users")
        .tuning_included(false);
    for assumption in assumptions(setup, vectors) {
        certificate = certificate.assumption(assumption);
    }
    for &assumption in more {
        certificate = certificate.assumption(assumption);
    }
    certificate
}

/// Checks the number of coordinates of a vector sum, which have 32-bit indices.
pub(crate) fn check_coordinates(n_coordinates: usize) -> Result<()> {
    if (1..=u32::MAX as usize).contains(&n_coordinates) {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "a sum without coordinates, or with more than 2^32",
    })
}

/// Equal steps, each releasing one vector on a Poisson sample of the units.
pub(crate) fn sampled_steps(
    name: &'static str,
    n_steps: usize,
    sampling: PoissonSampling,
    n_draws: usize,
) -> Requests {
    Requests::schedule(move |noise_multiplier| {
        let event = sampling.event(DpEvent::gaussian(noise_multiplier));
        let step = |t| PlannedRelease::new(format!("{name} {t}"), event.clone(), n_draws as u64);
        (1..=n_steps).map(step).collect()
    })
}

/// A request with the general replacement factor.
pub(crate) fn request(label: impl Into<String>, share: f64, n_draws: usize) -> ReleaseRequest {
    ReleaseRequest::new(label, share, ReplaceFactor::Two, n_draws as u64)
}
