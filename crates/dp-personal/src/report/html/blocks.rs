//! Blocks of a section as HTML.

use std::fmt::Write as _;

use super::charts::{put_bars, put_curve, put_hundred};
use crate::output::escaped;
use crate::report::page::{Block, Number, Table};

pub(super) fn put_block(text: &mut String, block: &Block) {
    match block {
        Block::Text(words) => {
            let _ = writeln!(text, "<p>{}</p>", escaped(words));
        }
        Block::Note(words) => {
            let _ = writeln!(text, "<p class=\"note\">{}</p>", escaped(words));
        }
        Block::Numbers(numbers) => put_numbers(text, numbers),
        Block::Hundred(of) => put_hundred(text, of),
        Block::Bars(bars) => put_bars(text, bars),
        Block::Cards(cards) => {
            text.push_str("<div class=\"cards\">\n");
            for card in cards {
                put_bars(text, card);
            }
            text.push_str("</div>\n");
        }
        Block::Curve(curve) => put_curve(text, curve),
        Block::Table(table) => put_table(text, table),
        Block::List(title, entries) => {
            let _ = writeln!(text, "<h3>{}</h3>\n<ul class=\"plain\">", escaped(title));
            for entry in entries {
                let _ = writeln!(text, "<li>{}</li>", escaped(entry));
            }
            text.push_str("</ul>\n");
        }
        Block::Details(title, code) => {
            let _ = writeln!(
                text,
                "<details><summary>{}</summary><pre tabindex=\"0\">{}</pre></details>",
                escaped(title),
                escaped(code)
            );
        }
    }
}

fn put_numbers(text: &mut String, numbers: &[Number]) {
    text.push_str("<dl class=\"numbers\">\n");
    for of in numbers {
        let _ = writeln!(
            text,
            "<div><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"note\">{}</dd></div>",
            escaped(&of.label),
            escaped(&of.value),
            escaped(&of.note)
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
    for head in &table.heads {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escaped(head));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let cell = escaped(cell);
            let _ = if at == 0 {
                write!(text, "<th scope=\"row\">{cell}</th>")
            } else {
                write!(text, "<td>{cell}</td>")
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>\n");
}
