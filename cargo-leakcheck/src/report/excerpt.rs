//! The user's source line that allocated, read from disk.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::time::SystemTime;

use camino::Utf8PathBuf;

use super::text;
use crate::model::Frame;
use crate::model::OwnCode;

/// Sources larger than this are no sources that people wrote.
const MAX_FILE: u64 = 16 << 20;

/// Lines longer than this say nothing on a terminal.
const MAX_LINE: usize = 400;

/// A source line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    /// The line, without its line feed.
    pub text: String,
    /// Where in `text` the marked place starts.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Source files, each read once.
#[derive(Default)]
pub(super) struct Sources {
    files: RefCell<HashMap<Utf8PathBuf, Option<Source>>>,
    /// When modules were built.
    modules: RefCell<HashMap<String, Option<SystemTime>>>,
}

/// A file as it was read.
struct Source {
    bytes: Vec<u8>,
    /// Where its lines end, without their line feeds.
    ends: Vec<usize>,
    changed: SystemTime,
}

impl Source {
    /// A line, counted from 1.
    fn line(&self, number: u32) -> Option<&[u8]> {
        let index = number.checked_sub(1)? as usize;
        let start = if index == 0 { 0 } else { self.ends.get(index - 1)? + 1 };
        let line = &self.bytes[start..*self.ends.get(index)?];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl Sources {
    /// The line a frame stands in. None where the file is not the packages', is not there, is no
    /// regular file, was changed after the module was built, or has no such line.
    pub fn excerpt(&self, frame: &Frame, own: &OwnCode) -> Option<Excerpt> {
        self.read(frame, own, |source, number| mark(source.line(number)?, frame.column))
    }

    /// The lines around it, by their numbers.
    pub fn around(&self, frame: &Frame, own: &OwnCode, more: u32) -> Option<BTreeMap<u32, String>> {
        self.read(frame, own, |source, number| {
            let numbers = number.saturating_sub(more)..=number.saturating_add(more);
            let lines = numbers.filter_map(|number| {
                let line = source.line(number).filter(|line| line.len() <= MAX_LINE)?;
                Some((number, clean(line)))
            });
            Some(lines.collect())
        })
    }

    fn read<T>(
        &self,
        frame: &Frame,
        own: &OwnCode,
        look: impl FnOnce(&Source, u32) -> Option<T>,
    ) -> Option<T> {
        let file = frame.file.as_deref().filter(|file| own.in_workspace(file))?;
        let path = own.root.join(file);
        let mut files = self.files.borrow_mut();
        let source = files.entry(path).or_insert_with_key(|path| read(path.as_str())).as_ref()?;
        let mut modules = self.modules.borrow_mut();
        let built = frame.module.as_deref().and_then(|module| {
            let built = || std::fs::metadata(module).and_then(|file| file.modified()).ok();
            *modules.entry(module.to_owned()).or_insert_with(built)
        });
        if built.is_some_and(|built| source.changed > built) {
            return None;
        }
        look(source, frame.line?)
    }
}

/// A line with its marked place: the character at the column, or all of it without a column.
fn mark(line: &[u8], column: Option<u32>) -> Option<Excerpt> {
    if line.len() > MAX_LINE || line.trim_ascii().is_empty() {
        return None;
    }
    // Columns count bytes. Escaping changes the length of what is before the column, so that each
    // side is escaped by itself.
    let indent = line.len() - line.trim_ascii_start().len();
    let column = column.map(|column| column as usize - 1).filter(|&column| column < line.len());
    let (before, after) = line.split_at(column.unwrap_or(indent));
    let (before, after) = (clean(before), clean(after));
    let marked = match column {
        Some(_) => after.chars().next().map_or(0, char::len_utf8),
        None => after.trim_end().len(),
    };
    Some(Excerpt { start: before.len(), end: before.len() + marked, text: before + &after })
}

/// Tabs keep their width; everything else of that kind is shown as what it is.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.split('\t').map(|part| text::line(part).into_owned()).collect::<Vec<_>>().join("\t")
}

fn read(path: &str) -> Option<Source> {
    // Opening a pipe would wait for its writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
    let metadata =
        file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= MAX_FILE)?;
    let mut bytes = Vec::new();
    File::take(file, MAX_FILE).read_to_end(&mut bytes).ok()?;
    let feeds = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place);
    let ends = feeds.chain([bytes.len()]).collect();
    Some(Source { bytes, ends, changed: metadata.modified().ok()? })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    struct Workspace {
        _directory: tempfile::TempDir,
        own: OwnCode,
    }

    impl Workspace {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = Utf8PathBuf::from_path_buf(directory.path().to_owned()).unwrap();
            Self { _directory: directory, own: OwnCode { packages: vec![root.clone()], root } }
        }

        fn at(&self, file: &str, line: u32, column: Option<u32>) -> Option<Excerpt> {
            let frame = Frame { file: Some(file.into()), line: Some(line), column, ..Frame::default() };
            Sources::default().excerpt(&frame, &self.own)
        }

        fn write(&self, file: &str, bytes: &[u8]) {
            fs::write(self.own.root.join(file), bytes).unwrap();
        }
    }

    fn marked(excerpt: Option<Excerpt>) -> Option<(String, String)> {
        excerpt.map(|e| (e.text.clone(), e.text[e.start..e.end].to_owned()))
    }

    #[test]
    fn the_column_counts_bytes() {
        let workspace = Workspace::new();
        workspace.write("lib.rs", "first\nlet ä = f();\r\n".as_bytes());
        let column = "let ä = ".len() as u32 + 1;
        let expected = Some(("let ä = f();".to_owned(), "f".to_owned()));
        assert_eq!(marked(workspace.at("lib.rs", 2, Some(column))), expected);
        let all = Some(("let ä = f();".to_owned(), "let ä = f();".to_owned()));
        assert_eq!(marked(workspace.at("lib.rs", 2, None)), all);
        // A column in the middle of a character, or behind the line, is no reason to fail.
        assert!(workspace.at("lib.rs", 2, Some(6)).is_some());
        assert_eq!(marked(workspace.at("lib.rs", 2, Some(99))), all);
        assert_eq!(workspace.at("lib.rs", 3, Some(1)), None);
        assert_eq!(workspace.at("lib.rs", 9, Some(1)), None);
    }

    #[test]
    fn lines_around_end_with_the_file() {
        let workspace = Workspace::new();
        let long = "x".repeat(MAX_LINE + 1);
        workspace.write("lib.rs", format!("one\r\n\ttwo\x07\n{long}\nfour").as_bytes());
        let around = |line, more| {
            let frame = Frame { file: Some("lib.rs".into()), line: Some(line), ..Frame::default() };
            let lines = Sources::default().around(&frame, &workspace.own, more).unwrap();
            lines.into_iter().map(|(number, line)| format!("{number}{line}")).collect::<Vec<_>>()
        };
        assert_eq!(around(1, 1), ["1one", "2\ttwo\\u{7}"]);
        assert_eq!(around(4, 2), ["2\ttwo\\u{7}", "4four"]);
        assert!(around(9, 2).is_empty());
    }

    #[test]
    fn strange_bytes_are_shown_escaped() {
        let workspace = Workspace::new();
        workspace.write("x.c", b"\tp\xff\x1b[2J = malloc(7);\n");
        let text = "\tp\u{fffd}\\u{1b}[2J = malloc(7);";
        assert_eq!(marked(workspace.at("x.c", 1, Some(11))), Some((text.to_owned(), "m".to_owned())));
    }

    #[test]
    fn what_is_no_source_file_of_the_packages_is_not_read() {
        let workspace = Workspace::new();
        let pipe = workspace.own.root.join("pipe");
        nix::unistd::mkfifo(pipe.as_std_path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(workspace.at("pipe", 1, None), None);
        assert_eq!(workspace.at("missing.rs", 1, None), None);
        assert_eq!(workspace.at("/etc/passwd", 1, None), None);
        let huge = File::create(workspace.own.root.join("huge.rs")).unwrap();
        huge.set_len(MAX_FILE + 1).unwrap();
        assert_eq!(workspace.at("huge.rs", 1, None), None);
        workspace.write("long.js", &[b'x'; MAX_LINE + 1]);
        assert_eq!(workspace.at("long.js", 1, None), None);
    }

    #[test]
    fn a_file_changed_after_the_build_is_not_shown() {
        let workspace = Workspace::new();
        workspace.write("lib.rs", b"let x = 1;\n");
        workspace.write("binary", b"");
        let source = File::options().write(true).open(workspace.own.root.join("lib.rs")).unwrap();
        let built = fs::metadata(workspace.own.root.join("binary")).unwrap().modified().unwrap();
        let module = Some(workspace.own.root.join("binary").to_string());
        let frame = Frame { file: Some("lib.rs".into()), line: Some(1), module, ..Frame::default() };
        let excerpt = || Sources::default().excerpt(&frame, &workspace.own);
        source.set_modified(built - Duration::from_secs(1)).unwrap();
        assert!(excerpt().is_some());
        source.set_modified(built + Duration::from_secs(1)).unwrap();
        assert_eq!(excerpt(), None);
    }
}
