//! What certificates of runs take on trust.

use dp_mechanism::ClientSampling;

use super::{Participation, PpSgd};

const N_USERS_IS_PUBLIC: &str = "the declared number of users is public or was paid for elsewhere";
const SAMPLES_ARE_SECRET: &str = "who took part in which round stays secret";
const EVERYBODY_TRAINS: &str = "every client trains in every round, whether asked or not, and missing a round does not depend on being asked";
const OWN_PARTICIPATION_IS_KNOWN: &str = "the stated guarantee is against those who do not know who took part: \
    against a user who knows its own participation the sampling ratio is m/(n - 1), against k users who pool theirs m/(n - k), \
    for samples of m of n";

impl PpSgd {
    /// What the certificate takes on trust beyond what holds for every run, and `more`.
    pub(crate) fn assumptions(&self, more: &[&'static str]) -> Vec<&'static str> {
        let own: &[&str] = match self.params().participation {
            Participation::Full => &[N_USERS_IS_PUBLIC],
            Participation::Sampled(ClientSampling::Poisson(_)) => {
                &[N_USERS_IS_PUBLIC, SAMPLES_ARE_SECRET]
            }
            Participation::Sampled(ClientSampling::FixedSize(_)) => &[
                SAMPLES_ARE_SECRET,
                EVERYBODY_TRAINS,
                OWN_PARTICIPATION_IS_KNOWN,
            ],
        };
        [own, more].concat()
    }
}
