//! Leaked blocks and bytes as a profile that `go tool pprof` and Parca read: pprof's `profile.proto`, compressed by gzip.

mod proto;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use prost::Message as _;

use self::proto::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use super::leaked::{self, Leaked, NO_STACK};
use super::{Format, Run, View, text};
use crate::model::{Finding, Frame};

/// The profile.
pub struct Pprof;

impl Format for Pprof {
    fn bytes(&self, run: &Run, view: &View) -> Vec<u8> {
        let mut tables = Tables::new(view);
        let samples = leaked::leaked(run).map(|leaked| tables.sample(&leaked)).collect();
        let profile = tables.profile(samples, run);
        // The header has no time in it: the same run has the same bytes.
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&profile.encode_to_vec()).expect("writing to memory cannot fail");
        gzip.finish().expect("writing to memory cannot fail")
    }
}

/// Values that have numbers, in the order in which they are first met. 0 is none.
struct Table<T>(HashMap<T, u64>);

impl<T: Hash + Eq> Table<T> {
    /// The value's number, and whether it is new.
    fn number(&mut self, value: T) -> (u64, bool) {
        let next = self.0.len() as u64 + 1;
        let number = *self.0.entry(value).or_insert(next);
        (number, number == next)
    }
}

/// Mapping, address, and the functions and lines there.
type Place = (u64, u64, Vec<(u64, i64)>);

/// What samples refer to.
struct Tables<'a> {
    view: &'a View,
    strings: HashMap<String, i64>,
    string_table: Vec<String>,
    functions: (Table<(i64, i64)>, Vec<Function>),
    mappings: (Table<i64>, Vec<Mapping>),
    locations: (Table<Place>, Vec<Location>),
}

impl<'a> Tables<'a> {
    fn new(view: &'a View) -> Self {
        let mut tables = Self {
            view,
            strings: HashMap::new(),
            string_table: Vec::new(),
            functions: (Table(HashMap::new()), Vec::new()),
            mappings: (Table(HashMap::new()), Vec::new()),
            locations: (Table(HashMap::new()), Vec::new()),
        };
        // The format wants it to be the first.
        tables.string("");
        tables
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.string_table.len() as i64;
        self.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn sample(&mut self, leaked: &Leaked<'_>) -> Sample {
        let Leaked { test, finding, frames } = leaked;
        let Finding { kind, measure, process, .. } = finding;
        let mut location_id = Vec::new();
        match frames {
            // A location has the calls that were inlined there, and the function that is there.
            Some(frames) => {
                for place in frames.chunk_by(|frame, _| frame.inlined) {
                    location_id.push(self.location(place));
                }
            }
            None => location_id.push(self.location_of(0, 0, &[(NO_STACK.to_owned(), None, 0)])),
        }
        let binary = test.test.binary.id();
        let labels = [
            ("kind", Some(text::kind(*kind))),
            ("package", Some(test.test.binary.package.as_str())),
            ("binary", Some(binary.as_str())),
            ("test", Some(test.test.name.as_str())),
            ("process", process.as_deref()),
        ];
        let label = labels
            .into_iter()
            .filter_map(|(key, value)| {
                let value = value.filter(|value| !value.is_empty())?;
                Some(Label { key: self.string(key), str: self.string(&text::line(value)) })
            })
            .collect();
        let value = [measure.blocks, measure.bytes].map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        Sample { location_id, value: value.to_vec(), label }
    }

    /// Frames with one address, the last of which is a function of its own.
    fn location(&mut self, frames: &[Frame]) -> u64 {
        let address = frames.first().map_or(0, |frame| frame.address);
        let mapping = match frames.first().and_then(|frame| frame.module.as_deref()) {
            Some(module) => self.mapping(module),
            None => 0,
        };
        let line = |frame: &Frame| {
            let file = frame.file.as_deref().map(|file| self.view.own.shown(file).to_owned());
            (leaked::name(frame).into_owned(), file, i64::from(frame.line.unwrap_or(0)))
        };
        let lines: Vec<_> = frames.iter().map(line).collect();
        self.location_of(mapping, address, &lines)
    }

    fn location_of(&mut self, mapping_id: u64, address: u64, lines: &[(String, Option<String>, i64)]) -> u64 {
        let lines: Vec<_> = lines
            .iter()
            .map(|(name, file, line)| (self.function(name, file.as_deref().unwrap_or_default()), *line))
            .collect();
        let (id, is_new) = self.locations.0.number((mapping_id, address, lines.clone()));
        if is_new {
            let line = lines.into_iter().map(|(function_id, line)| Line { function_id, line }).collect();
            self.locations.1.push(Location { id, mapping_id, address, line });
        }
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.string(name), self.string(&text::line(file)));
        let (id, is_new) = self.functions.0.number((name, filename));
        if is_new {
            self.functions.1.push(Function { id, name, filename });
        }
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        let filename = self.string(&text::line(module));
        let (id, is_new) = self.mappings.0.number(filename);
        if is_new {
            // Nobody needs to look for more in that file.
            let mapping = Mapping {
                id,
                filename,
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            };
            self.mappings.1.push(mapping);
        }
        id
    }

    fn profile(mut self, sample: Vec<Sample>, run: &Run) -> Profile {
        let mut value =
            |type_: &str, unit: &str| ValueType { r#type: self.string(type_), unit: self.string(unit) };
        let sample_type = vec![value("blocks", "count"), value("bytes", "bytes")];
        // Every block is seen, and none stands for others.
        let period_type = Some(value("space", "bytes"));
        let default_sample_type = self.string("bytes");
        Profile {
            sample_type,
            sample,
            mapping: self.mappings.1,
            location: self.locations.1,
            function: self.functions.1,
            string_table: self.string_table,
            duration_nanos: i64::try_from(run.duration.as_nanos()).unwrap_or(i64::MAX),
            period_type,
            period: 1,
            default_sample_type,
        }
    }
}
