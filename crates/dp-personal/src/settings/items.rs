//! Settings of item vectors that are learned from users on devices.

use std::path::PathBuf;

use dp_data::TableSource;

use super::{
    FeatureSettings, GuaranteeSettings, LedgerSettings, OutputSettings, Range, ResumeSettings,
    Shapes, settings,
};

settings! {
    /// Item vectors, learned by SSP-c from examples and vectors of users who are on devices.
    struct ItemsSettings {
        /// An empty table, which names the data: examples are on the devices
        data: TableSource = { positional: true, shapes: Shapes::Nothing },
        /// Public catalogue of items, each once, with their features
        items: PathBuf = { value_name: "CATALOGUE", shapes: Shapes::ByContents },
        /// What is publicly known of items.
        features: FeatureSettings = flatten,
        /// The guarantee that it is to have.
        guarantee: GuaranteeSettings = flatten,
        /// What is fitted, and how.
        model: ItemModelSettings = flatten,
        /// Name under which devices know the run. The same name and state of the ledger continue a server that ended before it paid
        run: Option<String> = { value_name: "NAME", usual: "a random one", requires: ["ledger"], conflicts: ["no_ledger"], shapes: Shapes::Nothing },
        /// Where the privacy loss is recorded.
        ledger: LedgerSettings = flatten,
        /// Whether an interrupted run goes on.
        resume: ResumeSettings = flatten,
        /// What the run leaves behind.
        output: OutputSettings = flatten,
    }

    /// Settings of the model.
    struct ItemModelSettings under "Settings (public: never choose them by looking at the data)" {
        /// Length of users' and items' vectors
        dim: usize = { value_name: "D", range: Range::of(1.0, 256.0) },
        /// Bound on the norm of a user's vector; longer ones are shortened
        vector_norm: f64 = { value_name: "X", default: "1", range: Range::of(1e-6, 1e6) },
        /// Bound on labels; larger ones are clipped
        label_bound: f64 = { value_name: "X", range: Range::of(1e-6, 1e6) },
        /// Maximum examples per device; the rest are left out
        max_examples: usize = { value_name: "N", range: Range::of(1.0, 65536.0) },
        /// Expected norm of an item's vector
        item_norm: f64 = { value_name: "X", default: "1", range: Range::of(1e-6, 1e6) },
        /// Share of the prior variance of item vectors that features do not explain
        own_share: f64 = { value_name: "SHARE", default: "0.1", range: Range::below_one() },
    }
}
