//! Labelled feature vectors of many users, with their ids and the names of their columns.

use dp_core::Private;

/// Rows `(x, y)` of a file, grouped by user, and the names of the columns of `x`.
///
/// Names of columns are public: they are part of how the data is kept. Everything else is private.
#[allow(
    missing_debug_implementations,
    reason = "holds private records; printing them is never wanted"
)]
pub struct SampleTable {
    features: Vec<String>,
    target: Option<String>,
    users: Private<Vec<SampleUser>>,
    order: Private<Vec<u32>>,
    n_not_finite: Private<usize>,
}

/// One user's rows; by default those of nobody, none.
#[derive(Clone, Default, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "holds one user's private rows; printing it is never wanted"
)]
pub struct SampleUser {
    pub(crate) id: String,
    /// Rows one after the other, each `x` followed by `y`.
    pub(crate) cells: Vec<f32>,
}

impl SampleTable {
    pub(crate) const fn new(
        features: Vec<String>,
        target: Option<String>,
        users: Vec<SampleUser>,
        order: Vec<u32>,
        n_not_finite: usize,
    ) -> Self {
        Self {
            features,
            target,
            users: Private::new(users),
            order: Private::new(order),
            n_not_finite: Private::new(n_not_finite),
        }
    }

    /// Names of the feature columns, in the order of the numbers of `x`. Public.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Name of the column of `y`, if one was read. Public.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// The users, in order of first appearance.
    #[must_use]
    pub const fn users(&self) -> &Private<Vec<SampleUser>> {
        &self.users
    }

    /// For every kept row of the file, in its order, the place of its user in [`users`](Self::users).
    #[must_use]
    pub const fn order(&self) -> &Private<Vec<u32>> {
        &self.order
    }

    /// Rows left out because a number in them is NaN or infinite.
    #[must_use]
    pub const fn n_not_finite(&self) -> &Private<usize> {
        &self.n_not_finite
    }

    /// The users alone.
    #[must_use]
    pub fn into_users(self) -> Private<Vec<SampleUser>> {
        self.users
    }
}

impl SampleUser {
    /// The id as it stands in the file; empty where the file has no user column.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The rows in the order of the file. Of a file read without target every `y` is 0.
    ///
    /// # Panics
    /// When `n_features` is not the number of features of the table.
    pub fn rows(&self, n_features: usize) -> impl ExactSizeIterator<Item = (&[f32], f32)> {
        let width = n_features + 1;
        assert!(
            self.cells.len().is_multiple_of(width),
            "rows of another width"
        );
        self.cells
            .chunks_exact(width)
            .map(move |row| (&row[..n_features], row[n_features]))
    }
}
