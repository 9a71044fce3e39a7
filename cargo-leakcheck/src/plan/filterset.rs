//! nextest's filter expressions (`package(a) & test(/^b/)`), by nextest's own parser: those of `-E`, which select
//! tests, and those of the configuration, which say what overrides are for.

use std::ffi::OsStr;
use std::ops::Range;

use guppy::PackageId;
use guppy::graph::cargo::BuildPlatform;
use guppy::graph::{BuildTargetKind, PackageGraph, PackageMetadata};
use miette::{Diagnostic, LabeledSpan};
use nextest_filtering::errors::FiltersetParseErrors;
use nextest_filtering::{
    BinaryQuery, CompiledExpr, EvalContext, Filterset, FiltersetKind, KnownGroups, ParseContext, TestQuery,
};
use nextest_metadata::{RustBinaryId, RustTestBinaryKind, TestCaseName};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{PlannedTest, TargetKind, TestBinary};
use crate::options::Options;

/// Whether expressions ask for dependencies, which `cargo metadata` has to name then.
pub fn needs_dependencies<'a>(mut expressions: impl Iterator<Item = &'a str>) -> bool {
    expressions.any(Filterset::needs_deps)
}

/// The expressions of a run.
pub struct Filters {
    /// The workspace's packages; none where nobody asks.
    packages: Option<PackageGraph>,
    /// Any of them selects a test; without one, all are selected.
    selecting: Vec<Filterset>,
    /// One for each override of the configuration.
    overrides: Vec<Filterset>,
}

impl Filters {
    /// Reads the expressions of `-E` and those of the configuration. `metadata` is what `cargo metadata` says of the
    /// workspace.
    ///
    /// # Errors
    /// [`Error::Usage`] or [`Error::Config`] for an expression that makes no sense.
    pub fn new(selecting: &[String], config: &Config, metadata: &str) -> Result<Self> {
        let mut filters = Self { packages: None, selecting: Vec::new(), overrides: Vec::new() };
        if selecting.is_empty() && config.filters().next().is_none() {
            return Ok(filters);
        }
        let graph = PackageGraph::from_json(metadata)
            .map_err(|error| Error::Usage(format!("cargo's metadata cannot be used for filters: {error}")))?;
        let context = ParseContext::new(&graph);
        // As for an override in nextest's configuration: there are no groups here.
        let kind = FiltersetKind::OverrideFilter;
        let parse = |text: &str| Filterset::parse(text.to_owned(), &context, kind, &KnownGroups::Unavailable);
        for text in selecting {
            let filter = parse(text)
                .map_err(|errors| Error::Usage(format!("-E {text:?}: {}", explain(&errors, text))))?;
            filters.selecting.push(filter);
        }
        for (number, text) in config.filters().enumerate() {
            let filter = parse(text).map_err(|errors| {
                let (at, message, hint) = first(&errors, text);
                config.wrong_filter(number, at, &message, &hint)
            })?;
            filters.overrides.push(filter);
        }
        filters.packages = Some(graph);
        Ok(filters)
    }

    /// Whether `-E` selects a test.
    pub fn selects(&self, binary: &TestBinary, name: &str) -> bool {
        self.selecting.is_empty() || self.accept(&self.selecting, binary, name).contains(&true)
    }

    /// Gives tests what is configured for them. `options` are those of the run.
    pub fn settle(&self, config: &Config, tests: &mut [PlannedTest], options: &Options) {
        for test in tests {
            let means = self.overrides_for(test);
            config.settle(test, &means, options);
        }
    }

    /// Which of the configuration's overrides are for a test.
    pub fn overrides_for(&self, test: &PlannedTest) -> Vec<bool> {
        self.accept(&self.overrides, &test.binary, test.name.as_str())
    }

    fn accept(&self, filters: &[Filterset], binary: &TestBinary, name: &str) -> Vec<bool> {
        let package = self.packages.as_ref().and_then(|packages| package(packages, binary));
        let accepts = |package: &PackageMetadata<'_>| accept(filters, binary, package, name);
        // A program of the user's own choice is no test of a package.
        package.as_ref().map_or_else(|| vec![false; filters.len()], accepts)
    }
}

/// What is wrong, and with which parts of the expression.
fn explain(errors: &FiltersetParseErrors, expression: &str) -> String {
    let part = |label: LabeledSpan| {
        let part = expression.get(range(&label)).unwrap_or_default();
        let reason = label.label().unwrap_or("this");
        format!("{reason}: `{part}`")
    };
    let reason = |error: &dyn Diagnostic| {
        let labels: Vec<_> = error.labels().into_iter().flatten().map(part).collect();
        format!("{error}: {}", labels.join(", "))
    };
    let reasons: Vec<_> = errors.errors.iter().map(|error| reason(error)).collect();
    reasons.join("; ")
}

/// Where the first mistake is, what it is, and what is to be said there.
fn first(errors: &FiltersetParseErrors, expression: &str) -> (Range<usize>, String, String) {
    let Some(error) = errors.errors.first() else {
        return (0..expression.len(), "an expression that makes no sense".to_owned(), String::new());
    };
    let label = error.labels().and_then(|mut labels| labels.next());
    let at = label.as_ref().map_or(0..expression.len(), range);
    let hint = label.and_then(|label| label.label().map(str::to_owned)).unwrap_or_default();
    (at, error.to_string(), hint)
}

fn range(label: &LabeledSpan) -> Range<usize> {
    label.offset()..label.offset() + label.len()
}

/// Cargo tells a test where its package is.
fn package<'g>(graph: &'g PackageGraph, binary: &TestBinary) -> Option<PackageMetadata<'g>> {
    let directory = binary.environment.iter().find(|(name, _)| name == OsStr::new("CARGO_MANIFEST_DIR"))?;
    let is_there = |package: &PackageMetadata<'_>| {
        package.manifest_path().parent().is_some_and(|path| path.as_os_str() == directory.1)
    };
    graph.workspace().iter().find(is_there)
}

/// Which of the filters accept a test.
fn accept(
    filters: &[Filterset],
    binary: &TestBinary,
    package: &PackageMetadata<'_>,
    name: &str,
) -> Vec<bool> {
    let is_macro = package.build_targets().any(|target| matches!(target.kind(), BuildTargetKind::ProcMacro));
    let kind = match binary.kind {
        TargetKind::ProcMacro => RustTestBinaryKind::PROC_MACRO,
        // Who only knows the sources takes it for a library.
        TargetKind::Lib if is_macro => RustTestBinaryKind::PROC_MACRO,
        TargetKind::Lib | TargetKind::Program => RustTestBinaryKind::LIB,
        TargetKind::Bin => RustTestBinaryKind::BIN,
        TargetKind::Test => RustTestBinaryKind::TEST,
        TargetKind::Example => RustTestBinaryKind::EXAMPLE,
        TargetKind::Bench => RustTestBinaryKind::BENCH,
    };
    let package_id: &PackageId = package.id();
    let query = TestQuery {
        binary_query: BinaryQuery {
            package_id,
            binary_id: &RustBinaryId::from_parts(package.name(), &kind, &binary.target),
            binary_name: &binary.target,
            kind: &kind,
            platform: if kind == RustTestBinaryKind::PROC_MACRO {
                BuildPlatform::Host
            } else {
                BuildPlatform::Target
            },
        },
        test_name: &TestCaseName::new(name),
    };
    let all = CompiledExpr::ALL;
    let context = EvalContext { default_filter: &all };
    filters.iter().map(|filter| filter.matches_test(&query, &context)).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn metadata() -> String {
        let mut command = Command::new(std::env::var("CARGO").unwrap());
        command.args(["metadata", "--no-deps", "--format-version=1", "--offline"]);
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn binary(target: &str, kind: TargetKind, directory: &str) -> TestBinary {
        TestBinary {
            package: "cargo-leakcheck".to_owned(),
            target: target.to_owned(),
            kind,
            path: "/t".into(),
            directory: "/".into(),
            environment: vec![("CARGO_MANIFEST_DIR".into(), directory.into())],
        }
    }

    /// Which tests of a library and of an integration test of this very package are selected.
    fn kept(expressions: &[&str]) -> Result<Vec<&'static str>> {
        let expressions: Vec<_> = expressions.iter().map(|text| (*text).to_owned()).collect();
        let filters = Filters::new(&expressions, &Config::default(), &metadata())?;
        let here = env!("CARGO_MANIFEST_DIR");
        let library = binary("cargo_leakcheck", TargetKind::Lib, here);
        let odd = binary("odd", TargetKind::Test, here);
        let tests = [(&library, "parses"), (&library, "prints"), (&odd, "odd")];
        let selected = tests.into_iter().filter(|(binary, name)| filters.selects(binary, name));
        Ok(selected.map(|(_, name)| name).collect())
    }

    #[test]
    fn expressions_select_tests_and_units() {
        assert_eq!(kept(&[]).unwrap(), ["parses", "prints", "odd"]);
        assert_eq!(kept(&["test(/^pars/)"]).unwrap(), ["parses"]);
        assert_eq!(kept(&["kind(test)", "test(=prints)"]).unwrap(), ["prints", "odd"], "any of them");
        assert_eq!(kept(&["package(cargo-leakcheck) - kind(lib)"]).unwrap(), ["odd"]);
        let needs = |text| needs_dependencies([text].into_iter());
        assert!(needs("rdeps(a)") && !needs("test(a)"));
    }

    #[test]
    fn what_is_in_no_package_is_meant_by_no_expression() {
        let filters = Filters::new(&["all()".to_owned()], &Config::default(), &metadata()).unwrap();
        assert!(!filters.selects(&binary("true", TargetKind::Program, "/"), "true"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let text = kept(&["test(a) & package(=none)"]).unwrap_err().to_string();
        let reason = "operator didn't match any packages: no packages matched this: `=none`";
        assert_eq!(text, format!("-E \"test(a) & package(=none)\": {reason}"));
        for text in ["test(", "group(serial)", "nonsense(x)", "test(/(/)"] {
            let error = kept(&[text]).unwrap_err();
            assert!(matches!(&error, Error::Usage(reason) if reason.contains(text)), "{error}");
        }
    }

    #[test]
    fn an_override_with_a_wrong_filter_is_pointed_at() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("l.toml");
        std::fs::write(&path, "[[profile.default.overrides]]\nfilter = 'all() & package(=none)'\nfds = 1\n")
            .unwrap();
        let path = camino::Utf8PathBuf::try_from(path).unwrap();
        let options = crate::options::ConfigOptions { file: Some(path), ..Default::default() };
        let config = Config::load(&options).unwrap();
        let error = Filters::new(&[], &config, &metadata()).err().unwrap();
        assert!(matches!(error, Error::Config(_)));
        let text = error.to_string();
        // `filter = '` has 10 characters, and `all() & package(` another 16.
        assert!(text.contains("l.toml:2:27") && text.contains("^^^^^ no packages matched this"), "{text}");
    }
}
