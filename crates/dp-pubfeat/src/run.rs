//! What all fits begin and end with.

use dp_accounting::{Certificate, Plan, PlannedRelease, Spend};
use dp_core::{Interactions, Private, params};

use crate::paid::Paid;
use crate::problem::{Vectors, assumptions};
use crate::{ProblemSetup, Result};

/// Settings and data of a fit, and whether it is made on users' given vectors.
pub(crate) struct Fit<'a> {
    pub(crate) setup: &'a ProblemSetup,
    pub(crate) data: &'a Private<Interactions>,
    /// Items and length of vectors that the model has.
    pub(crate) model: (usize, usize),
}

impl Fit<'_> {
    /// Checks that settings, model, table, plan and spends belong together, before any data is touched.
    pub(crate) fn pay<'p>(
        &self,
        plan: &'p Plan,
        wanted: &[PlannedRelease],
        spends: Vec<Spend>,
    ) -> Result<Paid<'p>> {
        let (n_items, dim) = self.model;
        self.setup.unit.check(plan.adjacency())?;
        params::same_size("model's dim", dim, self.setup.dim)?;
        self.setup.check_table(self.data, n_items)?;
        Paid::new(plan, wanted, spends)
    }
}

/// The certificate of a run that made all its releases: on trust are the unit's meaning, the origin of users' vectors, and `more`.
pub(crate) fn certify(
    paid: Paid<'_>,
    (setup, vectors): (&ProblemSetup, Vectors),
    (output, more): (&str, &[&str]),
    insecure: bool,
) -> Result<Certificate> {
    let mut trust = assumptions(setup, vectors);
    trust.extend(more.iter().map(|&s| s.to_owned()));
    paid.certificate(output, &trust, insecure)
}
