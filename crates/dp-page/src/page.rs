//! The document model: a page as text and numbers, independent of the output format.

use crate::chart::{Chart, Hundred};
use crate::{html, markdown};

/// Who may read a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anybody: everything is computed from released values.
    Released,
    /// Its values were computed as if they were released, by a run without a guarantee.
    NotPrivate,
    /// Only the operator: computed from private data.
    Internal,
}

/// One page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Who may read it.
    pub kind: Kind,
    /// Its heading.
    pub title: String,
    /// Names and values under the heading.
    pub facts: Vec<(String, String)>,
    /// The first paragraph.
    pub lead: String,
    /// A warning before everything else.
    pub caution: Option<String>,
    /// The body.
    pub sections: Vec<Section>,
    /// Small type at the end.
    pub footer: String,
}

/// A part of a page with its own heading.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its anchor: the address of the section ends in `#id`.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The content, in order.
    pub blocks: Vec<Block>,
}

/// The kinds of content of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A remark in small type.
    Note(String),
    /// A paragraph that readers must not miss.
    Warning(String),
    /// Names and values, line by line; an empty name continues the previous one.
    Facts(Vec<(String, String)>),
    /// A few numbers in large type.
    Numbers(Vec<Number>),
    /// A number of people out of a hundred.
    Hundred(Hundred),
    /// One chart.
    Chart(Chart),
    /// Small charts in a grid.
    Cards(Vec<Chart>),
    /// A table.
    Table(Table),
    /// A list under a title.
    List(&'static str, Vec<String>),
    /// JSON under a title, verbatim; in HTML it is collapsed by default.
    Code(&'static str, String),
}

/// A number in large type.
#[derive(Debug, Clone)]
pub struct Number {
    /// The number.
    pub value: String,
    /// What it measures.
    pub label: String,
    /// How to interpret it.
    pub note: String,
}

/// Rows and columns. The first column is text; the others are numbers, aligned to the right, unless
/// listed in `text`.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its caption; may be empty.
    pub title: String,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
    /// Columns that contain text, in addition to the first, counted from 0.
    pub text: Vec<usize>,
}

impl Page {
    /// A single self-contained HTML file: no script, nothing loaded from the network, light and
    /// dark.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The same text and numbers as Markdown; a chart with a file is linked.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }

    /// Names and contents of the charts that are separate files. Those of an internal page are
    /// marked as internal.
    pub fn figures(&self) -> impl Iterator<Item = (&str, String)> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        let charts = blocks.filter_map(|block| match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        });
        charts.filter_map(|chart| Some((chart.file.as_deref()?, self.figure(chart))))
    }

    fn figure(&self, chart: &Chart) -> String {
        let head = match self.kind {
            Kind::Released => return chart.svg(),
            Kind::NotPrivate => "NOT PRIVATE: no guarantee covers this.",
            Kind::Internal => "Internal: not covered by the guarantee.",
        };
        let mut chart = chart.clone();
        chart.note = format!("{head} {}", chart.note);
        chart.svg()
    }
}

impl Section {
    /// A section with its anchor, heading and content.
    #[must_use]
    pub const fn new(id: &'static str, title: &'static str, blocks: Vec<Block>) -> Self {
        Self { id, title, blocks }
    }
}

impl Table {
    /// A table whose columns after the first are numbers.
    pub fn new(
        title: impl Into<String>,
        heads: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            heads: heads.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
            text: Vec::new(),
        }
    }

    /// The same with some of the columns containing text.
    #[must_use]
    pub fn with_text(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.text.extend(columns);
        self
    }

    pub(crate) fn is_text(&self, column: usize) -> bool {
        column == 0 || self.text.contains(&column)
    }
}
