//! What a certificate takes on trust about units, users' vectors and weights.

use super::{ProblemSetup, ProtectedUnit};

/// Where the vectors of users come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// They are given with the table or by clients.
    Given,
    /// They are fitted in the run, on a user's own ratings and released item vectors.
    Fitted,
}

const USER: &[&str] = &["one person has one user id"];
const USER_VECTOR: &str =
    "each user's vector was made from that user's own data and from public or released values only";

const EXAMPLE: &[&str] = &[
    "the unit is the record of one pair of user and item: in neighbouring tables it has another label, or is exchanged for the record of a pair \
     that the table does not have (for adding and removing: is there or not)",
    "every pair of user and item has at most one record in either of two neighbouring tables: an exchange whose new record overwrites another one \
     of its pair, or whose old record had covered another one, moves two units and is not covered",
    "a person with several records is protected for each of them, not for all together",
];
const EXAMPLE_VECTOR: &str = "vectors of users are no part of the unit and not protected: they were made from public or released values, or from \
     data other than the records, and are the same in neighbouring data sets";

/// The meaning of the unit, the origin of users' vectors and of weights, one sentence each.
pub(crate) fn assumptions(setup: &ProblemSetup, vectors: Vectors) -> Vec<String> {
    let (unit, vector) = match setup.unit {
        ProtectedUnit::User => (USER, USER_VECTOR),
        ProtectedUnit::Example => (EXAMPLE, EXAMPLE_VECTOR),
    };
    let given = (vectors == Vectors::Given).then_some(vector);
    let said = unit.iter().copied().chain(given).map(str::to_owned);
    said.chain(setup.weights.assumption()).collect()
}
