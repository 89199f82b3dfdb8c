//! The page as Markdown, section by section.

use std::fmt::Write as _;

use crate::chart::Chart;
use crate::page::{Block, Page, Table};
use crate::prose::{Piece, pieces};

/// The whole page.
pub(crate) fn page(page: &Page) -> String {
    // writing to a string does not fail
    let mut text = format!("# {}\n\n", inline(&page.title));
    if let Some(caution) = &page.caution {
        let _ = writeln!(text, "**{}**\n", prose(caution));
    }
    let _ = writeln!(text, "{}\n", prose(&page.lead));
    for (name, value) in &page.facts {
        let _ = writeln!(text, "* {}: {}", inline(name), prose(value));
    }
    for section in &page.sections {
        let _ = write!(text, "\n## {}\n", section.title);
        for block in &section.blocks {
            text.push('\n');
            put(&mut text, block);
        }
    }
    if !page.footer.is_empty() {
        let _ = write!(text, "\n---\n\n{}\n", prose(&page.footer));
    }
    text
}

fn put(text: &mut String, block: &Block) {
    match block {
        Block::Text(words) | Block::Note(words) => {
            let _ = writeln!(text, "{}", prose(words));
        }
        Block::Warning(words) => {
            let _ = writeln!(text, "**{}**", prose(words));
        }
        Block::Facts(facts) => {
            let rows = facts.iter().map(|(n, v)| vec![n.clone(), v.clone()]);
            put_rows(text, &Table::new("", ["", ""], rows).with_text([1]));
        }
        Block::Numbers(numbers) => {
            let rows = numbers
                .iter()
                .map(|of| vec![of.label.clone(), of.note.clone(), of.value.clone()]);
            put_rows(text, &Table::new("", ["", "", ""], rows).with_text([1]));
        }
        Block::Hundred(of) => {
            let _ = writeln!(text, "{}", prose(&of.sentence()));
        }
        Block::Chart(chart) => put_chart(text, chart),
        Block::Cards(cards) => {
            for (at, card) in cards.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "\n" });
                put_chart(text, card);
            }
        }
        Block::Table(table) => {
            if !table.title.is_empty() {
                let _ = writeln!(text, "**{}**\n", inline(&table.title));
            }
            put_rows(text, table);
        }
        Block::List(title, entries) => {
            let _ = writeln!(text, "{title}:\n");
            for entry in entries {
                let _ = writeln!(text, "* {}", prose(entry));
            }
        }
        Block::Code(title, code) => {
            let code = code.replace("```", "'''");
            let _ = writeln!(text, "{title}:\n\n```json\n{code}\n```");
        }
    }
}

/// The file of a chart, if it has one, and its numbers, if no table next to it has them; without
/// either only the note, which then belongs to the table.
fn put_chart(text: &mut String, chart: &Chart) {
    if chart.file.is_none() && chart.numbers().is_none() {
        let _ = writeln!(text, "{}", prose(&chart.note));
        return;
    }
    let title = inline(&chart.title);
    let _ = writeln!(text, "**{title}**. {}", prose(&chart.note));
    if let Some(file) = &chart.file {
        let _ = writeln!(text, "\n![{title}]({file})");
    }
    if let Some(table) = chart.numbers() {
        text.push('\n');
        put_rows(text, &table);
    }
}

fn put_rows(text: &mut String, table: &Table) {
    let row = |cells: &[String]| {
        let shown = |(at, cell): (usize, &String)| match at {
            0 => inline(cell),
            _ => prose(cell),
        };
        let cells: Vec<String> = cells.iter().enumerate().map(shown).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&row(&table.heads));
    text.push('|');
    for at in 0..table.heads.len() {
        text.push_str(if table.is_text(at) { "---|" } else { "---:|" });
    }
    text.push('\n');
    for cells in &table.rows {
        text.push_str(&row(cells));
    }
}

/// A sentence escaped for Markdown, with its code as such. Nothing can be escaped within code, so
/// only code without special characters is.
fn prose(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=,:+ ".contains(c);
    let markdown = |piece| match piece {
        Piece::Words(words) => inline(words),
        Piece::Code(code) if code.chars().all(is_plain) => format!("`{code}`"),
        Piece::Code(code) => inline(&format!("`{code}`")),
    };
    pieces(text).map(markdown).collect()
}

/// Text escaped for Markdown: markup, links and cell separators are escaped, as is HTML within
/// Markdown, and marks that change the direction of writing are shown as `?`.
fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            // many Markdown viewers turn bare addresses into links; character references prevent
            // this
            ':' if text[at..].starts_with("://") => safe.push_str("&#58;"),
            '.' if text[..at].to_lowercase().ends_with("www") => safe.push_str("&#46;"),
            '@' if !is_number(&text[at + 1..]) => safe.push_str("&#64;"),
            // as in HTML
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('?'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => safe.extend(['\\', c]),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Whether a text begins with a number that is no part of a name or an address.
fn is_number(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let goes_on = |c: char| c.is_alphanumeric() || "-._".contains(c);
    rest.len() < text.len() && !rest.starts_with(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(
            inline("a|b <script> [x](y) `z`\n# c"),
            "a\\|b &lt;script&gt; \\[x\\](y) \\`z\\` \\# c"
        );
        assert_eq!(
            inline(
                "1: https://a.example WWW.a.example me@a.example \u{202e}cod Recall@20 me@1and1.com"
            ),
            "1: https&#58;//a.example WWW&#46;a.example me&#64;a.example ?cod Recall@20 me&#64;1and1.com"
        );
    }

    #[test]
    fn code_in_sentences_is_code_if_it_needs_no_escapes() {
        assert_eq!(
            prose("method `am-ssp`, a_b `c"),
            "method `am-ssp`, a\\_b \\`c"
        );
        assert_eq!(prose("`a|b` `<b>`"), "\\`a\\|b\\` \\`&lt;b&gt;\\`");
    }
}
