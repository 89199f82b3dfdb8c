//! What all checked settings have in common.

/// `params` and `assuming` of a type with the fields `params` and `assumptions`.
macro_rules! settings_and_assumptions {
    ($fit:ty, $params:ty) => {
        impl $fit {
            /// The settings.
            #[must_use]
            pub const fn params(&self) -> &$params {
                &self.params
            }

            /// Names something that the run takes on trust, to be listed in its certificate.
            #[must_use]
            pub fn assuming(mut self, assumption: impl Into<String>) -> Self {
                self.assumptions.push(assumption.into());
                self
            }
        }
    };
}
