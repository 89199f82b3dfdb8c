//! The page as one file of HTML: no script, nothing from the network, light and dark.

mod blocks;
mod charts;
mod style;

use std::fmt::Write as _;

use super::page::Page;
use crate::output::escaped;
use blocks::put_block;
use style::style;

/// Nothing may be loaded or run, whatever a name in the page says.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The whole page.
pub(crate) fn html(page: &Page) -> String {
    let run = page.facts.first().map_or("", |(_, name)| name);
    let title = escaped(&format!("{} \u{b7} {run}", page.title));
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{}</style>\n</head>\n<body class=\"{}\">\n",
        style(),
        if page.internal {
            "internal"
        } else {
            "released"
        }
    );
    put_head(&mut text, page);
    text.push_str("<main>\n");
    for section in &page.sections {
        // writing to a string does not fail
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
    let _ = write!(
        text,
        "</main>\n<footer><p>{}</p></footer>\n</body>\n</html>\n",
        escaped(&page.footer)
    );
    text
}

fn put_head(text: &mut String, page: &Page) {
    let kind = match (page.internal, &page.caution) {
        (true, _) => "For the operator only",
        (false, Some(_)) => "Not private",
        (false, None) => "Released",
    };
    let _ = writeln!(
        text,
        "<header>\n<p class=\"kind\">{kind}</p>\n<h1>{}</h1>",
        escaped(&page.title)
    );
    if let Some(caution) = &page.caution {
        let _ = writeln!(
            text,
            "<p class=\"caution\" role=\"note\">{}</p>",
            escaped(caution)
        );
    }
    let _ = writeln!(
        text,
        "<p class=\"lead\">{}</p>\n<dl class=\"facts\">",
        escaped(&page.lead)
    );
    for (name, value) in &page.facts {
        let _ = writeln!(
            text,
            "<div><dt>{name}</dt><dd>{}</dd></div>",
            escaped(value)
        );
    }
    text.push_str("</dl>\n<nav aria-label=\"Sections\">\n");
    for section in &page.sections {
        let _ = writeln!(
            text,
            "<a href=\"#{}\">{}</a>",
            section.id,
            escaped(section.title)
        );
    }
    text.push_str("</nav>\n</header>\n");
}
