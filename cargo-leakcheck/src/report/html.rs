//! The page: one file for a browser, with everything in it. It holds the JSON document, call stacks as numbers of frames, so
//! that thousands of findings fit, and the source lines as they are now; a script of ours draws what comes into sight.

mod data;
#[cfg(test)]
mod tests;

use super::{Format, Run, View};

/// HTML.
pub struct Html;

const PAGE: &str = include_str!("html/page.html");
const PARTS: [(&str, &str); 2] =
    [("<!--page.css-->", include_str!("html/page.css")), ("<!--page.js-->", include_str!("html/page.js"))];
const DATA: &str = "<!--data-->";

impl Format for Html {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        // Nothing ends the script that holds it, whatever names there are: JSON has this character in texts only.
        let data = data::document(run, view).replace('<', "\\u003c");
        let page = PARTS.iter().fold(PAGE.to_owned(), |page, (mark, part)| page.replace(mark, part));
        page.replacen(DATA, &data, 1).into_bytes()
    }
}
