//! nextest's filter expressions (`-E 'package(a) & test(/^b/)'`), by nextest's own parser.

use std::ffi::OsStr;

use guppy::PackageId;
use guppy::graph::cargo::BuildPlatform;
use guppy::graph::{BuildTargetKind, PackageGraph, PackageMetadata};
use miette::{Diagnostic, LabeledSpan};
use nextest_filtering::{
    BinaryQuery, CompiledExpr, EvalContext, Filterset, FiltersetKind, KnownGroups, ParseContext, TestQuery,
};
use nextest_metadata::{RustBinaryId, RustTestBinaryKind, TestCaseName};

use crate::discover::{Discovered, TestCase, Tests};
use crate::error::{Error, Result};
use crate::model::{TargetKind, TestBinary};

/// Whether expressions ask for dependencies, which `cargo metadata` has to name then.
pub fn needs_dependencies(expressions: &[String]) -> bool {
    expressions.iter().any(|expression| Filterset::needs_deps(expression))
}

/// Keeps the tests that any of the expressions accepts; all if there is none. `metadata` is what `cargo metadata`
/// says of the workspace.
///
/// # Errors
/// [`Error::Usage`] for an expression that makes no sense.
pub fn retain(discovered: &mut Vec<Discovered>, expressions: &[String], metadata: &str) -> Result<()> {
    if expressions.is_empty() {
        return Ok(());
    }
    let graph = PackageGraph::from_json(metadata)
        .map_err(|error| Error::Usage(format!("cargo's metadata cannot be used for -E: {error}")))?;
    let context = ParseContext::new(&graph);
    // As for an override in nextest's configuration: there are no groups here.
    let parse = |expression: &String| {
        let kind = FiltersetKind::OverrideFilter;
        Filterset::parse(expression.clone(), &context, kind, &KnownGroups::Unavailable).map_err(|errors| {
            let reasons: Vec<_> = errors.errors.iter().map(|error| explain(error, expression)).collect();
            Error::Usage(format!("-E {expression:?}: {}", reasons.join("; ")))
        })
    };
    let filters = expressions.iter().map(parse).collect::<Result<Vec<_>>>()?;
    discovered.retain_mut(|found| {
        let Some(package) = package(&graph, &found.binary) else { return false };
        let accepts = |name: &str| accepts(&filters, &found.binary, &package, name);
        match &mut found.tests {
            Tests::Libtest(cases) | Tests::Protocol(cases) => {
                cases.retain(|case: &TestCase| accepts(&case.name));
                !cases.is_empty()
            }
            Tests::Unit { .. } => accepts(&found.binary.target),
        }
    });
    Ok(())
}

/// What is wrong, and with which part of the expression.
fn explain(error: &dyn Diagnostic, expression: &str) -> String {
    let label = |label: LabeledSpan| {
        let part = expression.get(label.offset()..label.offset() + label.len()).unwrap_or_default();
        let reason = label.label().unwrap_or("this");
        format!("{reason}: `{part}`")
    };
    let labels: Vec<_> = error.labels().into_iter().flatten().map(label).collect();
    format!("{error}: {}", labels.join(", "))
}

/// Cargo tells a test where its package is.
fn package<'g>(graph: &'g PackageGraph, binary: &TestBinary) -> Option<PackageMetadata<'g>> {
    let directory = binary.environment.iter().find(|(name, _)| name == OsStr::new("CARGO_MANIFEST_DIR"))?;
    let is_there = |package: &PackageMetadata<'_>| {
        package.manifest_path().parent().is_some_and(|path| path.as_os_str() == directory.1)
    };
    graph.workspace().iter().find(is_there)
}

fn accepts(filters: &[Filterset], binary: &TestBinary, package: &PackageMetadata<'_>, name: &str) -> bool {
    let is_macro = package.build_targets().any(|target| matches!(target.kind(), BuildTargetKind::ProcMacro));
    let kind = match binary.kind {
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
    filters.iter().any(|filter| filter.matches_test(&query, &EvalContext { default_filter: &all }))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;

    use super::*;

    /// A library and an integration test of this very package.
    fn found() -> Vec<Discovered> {
        let binary = |target: &str, kind| TestBinary {
            package: "cargo-leakcheck".to_owned(),
            target: target.to_owned(),
            kind,
            path: "/t".into(),
            directory: "/".into(),
            environment: vec![("CARGO_MANIFEST_DIR".into(), env!("CARGO_MANIFEST_DIR").into())],
        };
        let cases = ["parses", "prints"].map(|name| TestCase { name: name.to_owned(), ignored: false });
        vec![
            Discovered {
                binary: Arc::new(binary("cargo_leakcheck", TargetKind::Lib)),
                tests: Tests::Libtest(cases.to_vec()),
            },
            Discovered {
                binary: Arc::new(binary("odd", TargetKind::Test)),
                tests: Tests::Unit { reason: "it lists no tests".to_owned() },
            },
        ]
    }

    fn kept(expressions: &[&str]) -> Result<Vec<String>> {
        let mut command = Command::new(std::env::var("CARGO").unwrap());
        command.args(["metadata", "--no-deps", "--format-version=1", "--offline"]);
        let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let expressions: Vec<_> = expressions.iter().map(|text| (*text).to_owned()).collect();
        let mut discovered = found();
        retain(&mut discovered, &expressions, &String::from_utf8(output.stdout).unwrap())?;
        let names = |found: &Discovered| match &found.tests {
            Tests::Libtest(cases) | Tests::Protocol(cases) => {
                cases.iter().map(|case| case.name.clone()).collect()
            }
            Tests::Unit { .. } => vec![found.binary.target.clone()],
        };
        Ok(discovered.iter().flat_map(names).collect())
    }

    #[test]
    fn expressions_select_tests_and_units() {
        assert_eq!(kept(&[]).unwrap(), ["parses", "prints", "odd"]);
        assert_eq!(kept(&["test(/^pars/)"]).unwrap(), ["parses"]);
        assert_eq!(kept(&["kind(test)", "test(=prints)"]).unwrap(), ["prints", "odd"], "any of them");
        assert_eq!(kept(&["package(cargo-leakcheck) - kind(lib)"]).unwrap(), ["odd"]);
        assert!(needs_dependencies(&["rdeps(a)".to_owned()]) && !needs_dependencies(&["test(a)".to_owned()]));
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
}
