//! Settings of the workflows that release nothing from the user's own data: demo, synth, verify,
//! publish and report.

use std::path::PathBuf;

use dp_data::TableSource;

use super::{GeneratedSettings, Range, RatingColumnSettings, choices, settings};

choices! {
    /// The kind of public data.
    enum EvidenceKind {
        /// Ratings.
        Ratings = "ratings",
    }

    /// The kind of generated data.
    enum SynthKind {
        /// Long-tailed ratings, in stars.
        Ratings = "ratings",
        /// Labelled rows of users whose models share a few directions.
        Groups = "groups",
    }
}

settings! {
    /// Settings of a demonstration on generated ratings.
    struct DemoSettings {
        /// Folder for the model; one from an earlier demo is replaced
        out: PathBuf = { value_name: "DIR", default: "dp-demo" },
        /// What is generated.
        generated: GeneratedSettings = flatten,
    }

    /// Settings of generated data for experiments with the other workflows.
    struct SynthSettings {
        /// ratings (long-tailed, in stars) or groups (labelled rows; users' models share a subspace)
        kind: SynthKind = { positional: true, value_name: "KIND" },
        /// Folder for the files; must not exist
        out: PathBuf = { value_name: "DIR" },
        /// Number of users
        n_users: usize = { long: "users", value_name: "N", default: "2000", range: Range::from(1.0) },
        /// ratings: number of items
        n_items: Option<usize> = { long: "items", value_name: "N", usual: "500", range: Range::from(1.0) },
        /// ratings: number of ratings
        n_ratings: Option<usize> = {
            long: "ratings",
            value_name: "N",
            usual: "40 for each user",
            range: Range::from(1.0),
        },
        /// groups: rows per user
        rows_per_user: Option<usize> = { long: "rows", value_name: "N", usual: "10", range: Range::from(1.0) },
        /// groups: features per row
        dim: Option<usize> = { long: "features", value_name: "N", usual: "8", range: Range::from(1.0) },
        /// groups: dimension of the shared subspace
        rank: Option<usize> = { value_name: "K", usual: "2", range: Range::from(1.0) },
        /// The seed.
        generated: GeneratedSettings = flatten,
    }

    /// Settings for item information from public ratings.
    struct EvidenceSettings {
        /// ratings (the only kind)
        kind: EvidenceKind = { positional: true, value_name: "KIND" },
        /// Public ratings, with the item ids of the private data
        ratings: TableSource = { positional: true },
        /// File for the table; must not exist
        out: PathBuf = { value_name: "FILE" },
        /// Table of items; each gets a line
        items: Option<PathBuf> = { value_name: "FILE" },
        /// Feature columns of `items`, used where an item has few ratings
        feature_cols: Option<Vec<String>> = { value_name: "NAMES", delimiter: ',', requires: ["items"] },
        /// Taste factors per item
        n_tastes: usize = { long: "tastes", value_name: "N", default: "9", range: Range::of(0.0, 64.0) },
        /// Columns of the ratings.
        columns: RatingColumnSettings = flatten,
    }

    /// Settings to verify a certificate.
    struct VerifySettings {
        /// A certificate, or a folder written by a command that trains
        certificate: PathBuf = { positional: true },
        /// Also check that this ledger paid for every release (it is only read)
        ledger: Option<PathBuf> = { value_name: "FILE" },
        /// Rebuild the model from its list of releases and compare bit for bit
        recompute: bool = {},
        /// With `recompute`, the list of releases
        releases: Option<PathBuf> = { value_name: "FILE", usual: "the one in the folder", requires: ["recompute"] },
    }

    /// Settings to copy the released files of a run.
    struct PublishSettings {
        /// Folder written by a command that trains
        model: PathBuf = { positional: true, value_name: "DIR" },
        /// Folder for the copy
        dest: PathBuf = { positional: true, value_name: "DEST" },
        /// Replace that folder, unless it holds a ledger or files not from a run
        force: bool = {},
    }

    /// Settings to list similar items.
    struct SimilarSettings {
        /// Folder written by `dp train`
        model: PathBuf = { value_name: "DIR" },
        /// Items by id or part of the title
        titles: Vec<String> = { positional: true, value_name: "ITEM" },
        /// How many similar items to list for each
        count: usize = { short: 'k', value_name: "K", default: "10", range: Range::from(1.0) },
    }

    /// Settings of pages about runs.
    struct ReportSettings {
        /// Folders of trained models; the first is described, the others are compared
        folders: Vec<PathBuf> = { positional: true, value_name: "DIR" },
        /// Item whose nearest items to show: its id or part of its title; repeatable
        titles: Vec<String> = { long: "title", value_name: "NAME", optional: true },
        /// Table of items whose titles replace those of the model
        items: Option<PathBuf> = { value_name: "CATALOGUE" },
        /// Folder for the pages
        out: Option<PathBuf> = { value_name: "DIR", usual: "the first DIR" },
        /// With `out`, also write the internal pages, to OUT-internal
        internal: bool = {},
    }
}
