//! The page as a single HTML file: no script, nothing loaded from the network, light and dark.

use std::fmt::Write as _;

use crate::chart::{Chart, Drawing, escaped};
use crate::page::{Block, Kind, Number, Page, Table};
use crate::prose::{Piece, pieces};
use crate::style::page_sheet;

/// Nothing may be loaded or run, whatever names in the page contain.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The whole page.
pub(crate) fn page(page: &Page) -> String {
    let run = page.facts.first().map_or("", |(_, name)| name);
    let title = escaped(&format!("{} \u{b7} {run}", page.title));
    let (kind, class) = match page.kind {
        Kind::Released => ("Released", "released"),
        Kind::NotPrivate => ("Not private", "released"),
        Kind::Internal => ("For the operator only", "internal"),
    };
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body class=\"{class}\">\n\
         <header>\n<p class=\"kind\">{kind}</p>\n<h1>{}</h1>\n",
        page_sheet(),
        escaped(&page.title)
    );
    // writing to a string does not fail
    if let Some(caution) = &page.caution {
        put_warning(&mut text, caution);
    }
    let _ = writeln!(text, "<p class=\"lead\">{}</p>", prose(&page.lead));
    put_facts(&mut text, &page.facts);
    text.push_str("<nav aria-label=\"Sections\">\n");
    for section in &page.sections {
        let (id, title) = (section.id, escaped(section.title));
        let _ = writeln!(text, "<a href=\"#{id}\">{title}</a>");
    }
    text.push_str("</nav>\n</header>\n<main>\n");
    for section in &page.sections {
        let _ = writeln!(
            text,
            "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n<div class=\"body\">",
            section.id,
            escaped(section.title)
        );
        for block in &section.blocks {
            put_block(&mut text, block);
        }
        text.push_str("</div>\n</section>\n");
    }
    let footer = prose(&page.footer);
    let _ = write!(
        text,
        "</main>\n<footer><p>{footer}</p></footer>\n</body>\n</html>\n"
    );
    text
}

/// A sentence escaped for HTML, with its code as such.
fn prose(text: &str) -> String {
    let html = |piece| match piece {
        Piece::Words(words) => escaped(words),
        Piece::Code(code) => format!("<code>{}</code>", escaped(code)),
    };
    pieces(text).map(html).collect()
}

fn put_block(text: &mut String, block: &Block) {
    let _ = match block {
        Block::Text(words) => writeln!(text, "<p>{}</p>", prose(words)),
        Block::Note(words) => writeln!(text, "<p class=\"note\">{}</p>", prose(words)),
        Block::Warning(words) => {
            put_warning(text, words);
            Ok(())
        }
        Block::Facts(facts) => {
            put_facts(text, facts);
            Ok(())
        }
        Block::Numbers(numbers) => {
            put_numbers(text, numbers);
            Ok(())
        }
        Block::Hundred(of) => writeln!(
            text,
            "<figure class=\"hundred\">\n{}\n<p class=\"note\">{}</p>\n</figure>",
            of.svg(),
            prose(&of.caption())
        ),
        Block::Chart(chart) => {
            put_chart(text, chart);
            Ok(())
        }
        Block::Cards(cards) => {
            text.push_str("<div class=\"cards\">\n");
            cards.iter().for_each(|card| put_chart(text, card));
            writeln!(text, "</div>")
        }
        Block::Table(table) => {
            put_table(text, table);
            Ok(())
        }
        Block::List(title, entries) => {
            let entries = entries
                .iter()
                .map(|entry| format!("<li>{}</li>\n", prose(entry)));
            let entries: String = entries.collect();
            let title = escaped(title);
            writeln!(
                text,
                "<h3>{title}</h3>\n<ul class=\"plain\">\n{entries}</ul>"
            )
        }
        Block::Code(title, code) => writeln!(
            text,
            "<details><summary>{}</summary><pre tabindex=\"0\">{}</pre></details>",
            escaped(title),
            escaped(code)
        ),
    };
}

fn put_warning(text: &mut String, words: &str) {
    let words = prose(words);
    let _ = writeln!(text, "<p class=\"caution\" role=\"note\">{words}</p>");
}

fn put_facts(text: &mut String, facts: &[(String, String)]) {
    text.push_str("<dl class=\"facts\">\n");
    for (name, value) in facts {
        let (name, value) = (escaped(name), prose(value));
        let _ = writeln!(text, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    text.push_str("</dl>\n");
}

fn put_numbers(text: &mut String, numbers: &[Number]) {
    text.push_str("<dl class=\"numbers\">\n");
    for of in numbers {
        let _ = writeln!(
            text,
            "<div><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"note\">{}</dd></div>",
            escaped(&of.label),
            escaped(&of.value),
            prose(&of.note)
        );
    }
    text.push_str("</dl>\n");
}

fn put_table(text: &mut String, table: &Table) {
    let _ = write!(
        text,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table class=\"figures\"><caption>{0}</caption>\n<thead><tr>",
        escaped(&table.title)
    );
    let class = |at: usize| match at {
        0 => "",
        at if table.is_text(at) => " class=\"text\"",
        _ => "",
    };
    for (at, head) in table.heads.iter().enumerate() {
        let _ = write!(
            text,
            "<th scope=\"col\"{}>{}</th>",
            class(at),
            escaped(head)
        );
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let _ = match at {
                0 => write!(text, "<th scope=\"row\">{}</th>", escaped(cell)),
                _ => write!(text, "<td{}>{}</td>", class(at), prose(cell)),
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
}

/// A chart: shapes are drawn by the chart module; bars are placed in a table next to their names
/// and numbers.
fn put_chart(text: &mut String, chart: &Chart) {
    let title = escaped(&chart.title);
    let _ = writeln!(text, "<figure>\n<figcaption>{title}</figcaption>");
    if !chart.note.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", prose(&chart.note));
    }
    let legend = chart.legend();
    if legend.len() > 1 {
        text.push_str("<ul class=\"legend\">");
        for (swatch, name) in legend {
            let _ = write!(text, "<li>{swatch}{}</li>", escaped(name));
        }
        text.push_str("</ul>\n");
    }
    match &chart.drawing {
        Drawing::Lines(lines) => {
            let svg = lines.inline(&chart.title);
            let _ = writeln!(text, "<div class=\"plot\">\n{svg}\n</div>");
        }
        Drawing::Bars(bars) => {
            text.push_str("<table class=\"bars\"><tbody>\n");
            for row in &bars.rows {
                let _ = write!(text, "<tr><th scope=\"row\">{}", escaped(&row.label));
                if !row.detail.is_empty() {
                    let _ = write!(text, " <small>{}</small>", escaped(&row.detail));
                }
                text.push_str("</th><td class=\"track\">");
                for (at, value) in row.values.iter().enumerate() {
                    text.push_str(&bars.inline(at, *value));
                }
                text.push_str("</td><td class=\"value\">");
                for (at, value) in row.values.iter().enumerate() {
                    text.push_str("<span>");
                    if let Some(name) = bars.series.get(at).filter(|_| bars.series.len() > 1) {
                        let _ = write!(text, "<span class=\"heard\">{}: </span>", escaped(name));
                    }
                    let _ = write!(text, "{}</span>", bars.unit.shown(*value));
                }
                text.push_str("</td></tr>\n");
            }
            text.push_str("</tbody></table>\n");
        }
    }
    text.push_str("</figure>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_sentences_is_marked_and_names_are_not_markup() {
        assert_eq!(prose("method `a<b>`"), "method <code>a&lt;b&gt;</code>");
        let rows = [vec!["`item`".to_owned(), "by `pooled`".to_owned()]];
        let mut text = String::new();
        put_table(&mut text, &Table::new("t", ["a", "b"], rows));
        let row = "<th scope=\"row\">`item`</th><td>by <code>pooled</code></td>";
        assert!(text.contains(row), "{text}");
    }
}
