#![doc = include_str!("../README.md")]

mod chart;
mod html;
mod markdown;
mod page;
mod prose;
mod style;
mod terminal;

pub use chart::{
    Axis, BarRow, Bars, Chart, Drawing, Hundred, Line, Lines, Point, Stroke, Unit, decimals,
    figure, short, stacked,
};
pub use page::{Block, Kind, Number, Page, Section, Table};
pub use terminal::terminal;
