/// Data that must not be disclosed by accident.
///
/// The wrapper has no `Debug`, `Display`, `Clone`, `PartialEq` or serialisation, so private data
/// cannot end up in a log line, an error or a file unnoticed. The two methods that give access have
/// names that a reviewer can search for.
///
/// ```compile_fail
/// let secret = dp_core::Private::new(vec![1.0]);
/// println!("{secret:?}"); // does not compile
/// ```
///
/// # Examples
/// ```
/// use dp_core::Private;
/// let ratings = Private::new(vec![4.0, 5.0]);
/// assert_eq!(ratings.expose().len(), 2);
/// ```
#[allow(
    missing_debug_implementations,
    reason = "printing private data is what this type prevents"
)]
pub struct Private<T>(T);

impl<T> Private<T> {
    /// Marks `value` as private.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Borrows the private value. The caller is responsible for what happens to it.
    pub const fn expose(&self) -> &T {
        &self.0
    }

    /// Unwraps the private value. The caller is responsible for what happens to it.
    pub fn into_exposed(self) -> T {
        self.0
    }
}
