//! Blocks as plain text for a terminal.

use crate::chart::Chart;
use crate::page::{Block, Table};

/// The blocks one below the other, with columns aligned by spaces. A block with a title is
/// indented.
#[must_use]
pub fn terminal(blocks: &[Block]) -> String {
    let mut text = String::new();
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        put(&mut text, block);
    }
    text
}

fn put(text: &mut String, block: &Block) {
    match block {
        Block::Text(words) | Block::Note(words) | Block::Warning(words) => put_line(text, words),
        Block::Facts(facts) => {
            let rows = facts.iter().map(|(n, v)| vec![n.clone(), v.clone()]);
            put_table(text, &Table::new("", ["", ""], rows).with_text([1]));
        }
        Block::Numbers(numbers) => {
            let rows = numbers
                .iter()
                .map(|of| vec![of.label.clone(), of.value.clone(), of.note.clone()]);
            put_table(text, &Table::new("", ["", "", ""], rows).with_text([2]));
        }
        Block::Hundred(of) => put_line(text, &of.sentence()),
        Block::Chart(chart) => put_chart(text, chart),
        Block::Cards(cards) => cards.iter().for_each(|card| put_chart(text, card)),
        Block::Table(table) => put_table(text, table),
        Block::List(title, entries) => {
            put_line(text, title);
            let bullets = entries.iter().map(|entry| format!("  * {entry}"));
            bullets.for_each(|bullet| put_line(text, &bullet));
        }
        Block::Code(title, code) => {
            put_line(text, title);
            code.lines().for_each(|line| put_line(text, line));
        }
    }
}

fn put_chart(text: &mut String, chart: &Chart) {
    match chart.numbers() {
        Some(mut table) => {
            table.title.clone_from(&chart.title);
            put_table(text, &table);
        }
        None => put_line(text, &chart.title),
    }
    if !chart.note.is_empty() {
        put_line(text, &chart.note);
    }
}

fn put_table(text: &mut String, table: &Table) {
    let margin = if table.title.is_empty() { "" } else { "  " };
    if !table.title.is_empty() {
        put_line(text, &table.title);
    }
    let has_heads = table.heads.iter().any(|head| !head.is_empty());
    let heads = Some(&table.heads).filter(|_| has_heads);
    let lines: Vec<&Vec<String>> = heads.into_iter().chain(&table.rows).collect();
    let n_columns = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    // the last cell of a short row extends to the right end
    let reaches =
        |line: &[String], at: usize| at > 0 && at + 1 == line.len() && line.len() < n_columns;
    let widths: Vec<usize> = (0..n_columns)
        .map(|at| {
            let lines = lines.iter().filter(|line| !reaches(line, at));
            let cells = lines.filter_map(|line| line.get(at));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for line in lines {
        let cells = line.iter().enumerate().map(|(at, cell)| {
            let width = widths[at];
            if table.is_text(at) || reaches(line, at) {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        let cells: Vec<String> = cells.collect();
        put_line(text, &format!("{margin}{}", cells.join("  ")));
    }
}

/// One line, without terminal control sequences and without trailing spaces.
fn put_line(text: &mut String, line: &str) {
    let safe = |c: char| match c {
        c if c.is_control() => '?',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '?',
        c => c,
    };
    text.extend(line.trim_end().chars().map(safe));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_names_are_no_commands() {
        let rows: [&[&str]; 3] = [
            &["a\u{1b}[2J", "1.5", "x"],
            &["long name", "10.25", ""],
            &["short", "reaches far"],
        ];
        let rows = rows.map(|row| row.iter().map(|&cell| cell.to_owned()).collect());
        let table = Table::new("t", ["", "v", "note"], rows).with_text([2]);
        assert_eq!(
            terminal(&[Block::Table(table.clone())]),
            "t\n                 v  note\n  a?[2J        1.5  x\n  long name  10.25\n  short      reaches far\n"
        );
        let facts = [("written to", "x"), ("", "y")];
        let facts = facts.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
        let both = [Block::Facts(facts), Block::Text("words".to_owned())];
        assert_eq!(terminal(&both), "written to  x\n            y\n\nwords\n");
    }
}
