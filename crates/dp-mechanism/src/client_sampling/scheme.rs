use dp_accounting::Spend;
use dp_core::{DpEvent, Interactions};

use super::{ClientSample, FixedSizeSampling, PoissonSampling, RoundKey};
use crate::payment::check_neighbours;
use crate::{Error, NoiseSource, Result};

/// How the clients of a step are drawn.
///
/// A sum over a sample remembers its scheme, and its release takes a spend for exactly that
/// scheme: sampling that was not accounted for cannot be configured.
///
/// # Examples
/// ```
/// use dp_core::{DpEvent, Interactions};
/// use dp_mechanism::{ClientSampling, PoissonSampling};
///
/// let sampling = ClientSampling::from(PoissonSampling::new(0.25)?);
/// assert_eq!(sampling.event(DpEvent::gaussian(2.0)), DpEvent::sampled_gaussian(2.0, 0.25));
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientSampling {
    /// Every client independently, with one probability.
    Poisson(PoissonSampling),
    /// A uniform one of all subsets of one size.
    FixedSize(FixedSizeSampling),
}

impl From<PoissonSampling> for ClientSampling {
    fn from(sampling: PoissonSampling) -> Self {
        Self::Poisson(sampling)
    }
}

impl From<FixedSizeSampling> for ClientSampling {
    fn from(sampling: FixedSizeSampling) -> Self {
        Self::FixedSize(sampling)
    }
}

impl ClientSampling {
    /// The event of a mechanism that runs on a sample of this kind.
    #[must_use]
    pub fn event(&self, on_the_sample: DpEvent) -> DpEvent {
        match self {
            Self::Poisson(poisson) => poisson.event(on_the_sample),
            Self::FixedSize(fixed) => fixed.event(on_the_sample),
        }
    }

    /// Draws who of `n_clients` takes part, from a fresh key: to audit the law of the draw. A step
    /// that asks clients draws by [`pay_and_sample`](Self::pay_and_sample).
    ///
    /// # Errors
    /// [`Error::EntropyUnavailable`]; [`Error::Population`] when samples of fixed size are from
    /// another number of clients.
    pub fn sample(&self, n_clients: usize, noise: &mut NoiseSource) -> Result<ClientSample> {
        match self {
            Self::Poisson(poisson) => poisson.sample(n_clients, noise),
            Self::FixedSize(fixed) => {
                let expected = fixed.population_size();
                if n_clients != expected {
                    return Err(Error::Population { expected });
                }
                fixed.sample(noise)
            }
        }
    }

    /// Whether samples of shards of users make a sample of all of them.
    pub(crate) const fn check_shards(&self) -> Result<()> {
        match self {
            Self::Poisson(_) => Ok(()),
            Self::FixedSize(_) => Err(Error::Sampling),
        }
    }

    /// Refuses a table of another size than a sample of fixed size is from: before anything is paid.
    ///
    /// # Errors
    /// [`Error::Population`], which does not carry the number of users.
    pub(crate) const fn check_population(&self, n_users: usize) -> Result<()> {
        match self {
            Self::FixedSize(fixed) if fixed.population_size() != n_users => {
                Err(Error::Population {
                    expected: fixed.population_size(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Who of the users of a table takes part in the round of `key`. Under Poisson sampling that depends on each user's
    /// [id](Interactions::user_id) alone, wherever the user's records are; a sample of fixed size needs all users in one table.
    ///
    /// # Errors
    /// [`Error::Population`] as for [`sample`](Self::sample).
    pub(crate) fn drawn(&self, users: &Interactions, key: &RoundKey) -> Result<Vec<usize>> {
        let n_users = users.n_users();
        match self {
            Self::Poisson(poisson) => Ok(poisson.drawn(n_users, |user| users.user_id(user), key)),
            Self::FixedSize(fixed) => {
                self.check_population(n_users)?;
                Ok(fixed.drawn(key))
            }
        }
    }

    /// The noise multiplier, on the sample, of a spend for one Gaussian release on a sample of
    /// exactly this kind: what [`Grid::new`](crate::Grid::new) wants.
    ///
    /// # Errors
    /// [`Error::WrongSpend`] for every other event.
    pub fn noise_multiplier(&self, spend: &Spend) -> Result<f64> {
        match self.paid_inside(spend)? {
            &DpEvent::Gaussian {
                noise_multiplier, ..
            } => Ok(noise_multiplier),
            _ => Err(self.refuse(spend)),
        }
    }

    /// What the spend pays for on a sample of exactly this kind: the probability equal bit for
    /// bit, or both sizes equal.
    pub(crate) fn paid_inside<'s>(&self, spend: &'s Spend) -> Result<&'s DpEvent> {
        check_neighbours(spend)?;
        #[cfg(privacy_mutants)]
        if let Some(inside) = crate::mutants::any_scheme(spend.event()) {
            return Ok(inside);
        }
        match (self, spend.event()) {
            (
                Self::Poisson(poisson),
                DpEvent::PoissonSampled {
                    sampling_probability,
                    event,
                },
            ) if sampling_probability.to_bits() == poisson.sampling_probability().to_bits() => {
                Ok(event)
            }
            (
                Self::FixedSize(fixed),
                DpEvent::SampledWithoutReplacement {
                    sample_size,
                    population_size,
                    event,
                },
            ) if *sample_size == fixed.sample_size() as u64
                && *population_size == fixed.population_size() as u64 =>
            {
                Ok(event)
            }
            _ => Err(self.refuse(spend)),
        }
    }

    fn refuse(&self, spend: &Spend) -> Error {
        Error::WrongSpend {
            label: spend.label().to_owned(),
            release: match self {
                Self::Poisson(_) => "one Gaussian release on a Poisson sample of this probability",
                Self::FixedSize(_) => "one Gaussian release on a sample of these fixed sizes",
            },
        }
    }
}
