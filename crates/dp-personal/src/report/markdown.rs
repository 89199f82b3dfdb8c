//! The page as Markdown, section for section.

use std::fmt::Write as _;

use super::page::{Bars, Block, Curve, Page, Table, Unit, short};

/// Curves of more points than this are not written out.
const MOST_POINTS: usize = 24;
/// Signs of a full bar.
const BAR: f64 = 24.0;

/// The whole page.
pub(crate) fn markdown(page: &Page) -> String {
    // writing to a string does not fail
    let mut text = format!("# {}\n\n", inline(&page.title));
    if let Some(caution) = &page.caution {
        let _ = writeln!(text, "**{}**\n", inline(caution));
    }
    let _ = writeln!(text, "{}\n", inline(&page.lead));
    for (name, value) in &page.facts {
        let _ = writeln!(text, "* {name}: {}", inline(value));
    }
    for section in &page.sections {
        let _ = write!(text, "\n## {}\n", section.title);
        for block in &section.blocks {
            text.push('\n');
            put(&mut text, block);
        }
    }
    let _ = write!(text, "\n---\n\n{}\n", inline(&page.footer));
    text
}

fn put(text: &mut String, block: &Block) {
    match block {
        Block::Text(words) | Block::Note(words) => {
            let _ = writeln!(text, "{}", inline(words));
        }
        Block::Numbers(numbers) => {
            let _ = writeln!(text, "| | | |\n|---|---:|---|");
            for of in numbers {
                let [label, value, note] = [&of.label, &of.value, &of.note].map(|t| inline(t));
                let _ = writeln!(text, "| {label} | **{value}** | {note} |");
            }
        }
        Block::Hundred(of) => {
            let _ = writeln!(
                text,
                "{:.1} of 100 found, {:.0} by blind guessing. {}",
                of.found,
                of.blind,
                inline(&of.caption)
            );
        }
        Block::Bars(bars) => put_bars(text, bars),
        Block::Cards(cards) => {
            for (at, card) in cards.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { "\n" });
                put_bars(text, card);
            }
        }
        Block::Curve(curve) => put_curve(text, curve),
        Block::Table(table) => put_table(text, table),
        Block::List(title, entries) => {
            let _ = writeln!(text, "{title}:\n");
            for entry in entries {
                let _ = writeln!(text, "* {}", inline(entry));
            }
        }
        Block::Details(title, code) => {
            let _ = writeln!(
                text,
                "{title}:\n\n```json\n{}\n```",
                code.replace("```", "'''")
            );
        }
    }
}

fn put_bars(text: &mut String, bars: &Bars) {
    let _ = writeln!(
        text,
        "**{}**. {}\n",
        inline(&bars.title),
        inline(&bars.note)
    );
    let has_details = bars.rows.iter().any(|row| !row.detail.is_empty());
    let mut heads = vec![String::new()];
    heads.extend(has_details.then(String::new));
    heads.extend(bars.series.iter().cloned());
    let one = bars.series.len() == 1;
    heads.extend(one.then(String::new));
    let full = bars.full();
    let rows = bars.rows.iter().map(|row| {
        let mut cells = vec![row.label.clone()];
        cells.extend(has_details.then(|| row.detail.clone()));
        cells.extend(row.values.iter().map(|value| bars.unit.shown(*value)));
        let length = |value: f64| {
            let filled = (0..24).filter(|n| f64::from(*n) < BAR * value.abs() / full);
            "\u{2588}".repeat(filled.count())
        };
        let value = row.values.first().copied().flatten();
        cells.extend(one.then(|| value.map_or_else(String::new, length)));
        cells
    });
    let table = Table {
        title: String::new(),
        rows: rows.collect(),
        heads,
    };
    put_rows(text, &table);
}

fn put_curve(text: &mut String, curve: &Curve) {
    let _ = writeln!(
        text,
        "**{}**. {}",
        inline(&curve.title),
        inline(&curve.note)
    );
    let Some(first) = curve.lines.first() else {
        return;
    };
    if curve.has_table || first.points.len() > MOST_POINTS {
        return;
    }
    text.push('\n');
    let shown = |y| Unit::Plain.shown(Some(y));
    let rows = first.points.iter();
    let mut rows: Vec<Vec<String>> = rows
        .map(|(x, y)| vec![short(*x), first.name.clone(), shown(*y)])
        .collect();
    for level in curve.lines.iter().skip(1).filter(|line| line.dashed) {
        let at = level.points.first().map_or(0.0, |p| p.1);
        rows.push(vec![String::new(), level.name.clone(), shown(at)]);
    }
    let table = Table {
        title: String::new(),
        heads: vec![curve.x.name.clone(), String::new(), curve.y.name.clone()],
        rows,
    };
    put_rows(text, &table);
}

fn put_table(text: &mut String, table: &Table) {
    let _ = writeln!(text, "**{}**\n", inline(&table.title));
    put_rows(text, table);
}

fn put_rows(text: &mut String, table: &Table) {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| inline(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    text.push_str(&row(&table.heads));
    let numbers = "---:|".repeat(table.heads.len().saturating_sub(1));
    let _ = writeln!(text, "|---|{numbers}");
    for cells in &table.rows {
        text.push_str(&row(cells));
    }
}

/// Text as Markdown shows it: what would be markup, a link or the end of a cell is escaped, also of HTML within
/// Markdown, and marks that turn the direction of writing are shown as `?`.
fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            // many readers make links of bare addresses; character references stand in their way
            ':' if text[at..].starts_with("://") => safe.push_str("&#58;"),
            '.' if text[..at].to_lowercase().ends_with("www") => safe.push_str("&#46;"),
            '@' => safe.push_str("&#64;"),
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
            inline("1: https://a.example WWW.a.example me@a.example \u{202e}cod"),
            "1: https&#58;//a.example WWW&#46;a.example me&#64;a.example ?cod"
        );
    }
}
