//! What goes to cargo.

use std::ffi::OsString;

use super::Surroundings;
use super::args::CargoArgs;
use super::choices::WhenArg;
use crate::options::BuildOptions;

/// The arguments as cargo takes them.
pub fn build(cargo: CargoArgs, color: Option<WhenArg>, surroundings: Surroundings) -> BuildOptions {
    let mut shared = Vec::new();
    let pair = |flag: &str, value: OsString| [OsString::from(flag), value];
    shared.extend(cargo.place.manifest_path.map(|path| pair("--manifest-path", path)).into_iter().flatten());
    shared.extend(cargo.config.iter().flat_map(|value| pair("--config", value.into())));
    shared.extend(cargo.unstable.into_iter().flat_map(|value| pair("-Z", value)));
    for (given, flag) in
        [(cargo.locked, "--locked"), (cargo.offline, "--offline"), (cargo.frozen, "--frozen")]
    {
        shared.extend(given.then(|| flag.into()));
    }

    let mut all = shared.clone();
    for (given, flag) in [
        (cargo.workspace, "--workspace"),
        (cargo.lib, "--lib"),
        (cargo.bins, "--bins"),
        (cargo.tests, "--tests"),
        (cargo.examples, "--examples"),
        (cargo.benches, "--benches"),
        (cargo.all_targets, "--all-targets"),
        (cargo.all_features, "--all-features"),
        (cargo.no_default_features, "--no-default-features"),
        (cargo.release, "--release"),
        (cargo.ignore_rust_version, "--ignore-rust-version"),
        (cargo.quiet, "--quiet"),
    ] {
        all.extend(given.then(|| flag.into()));
    }
    for (values, flag) in [
        (cargo.package, "--package"),
        (cargo.exclude, "--exclude"),
        (cargo.bin, "--bin"),
        (cargo.test, "--test"),
        (cargo.example, "--example"),
        (cargo.bench, "--bench"),
        (cargo.features, "--features"),
        (cargo.place.target.iter().map(OsString::from).collect(), "--target"),
        (cargo.profile.into_iter().collect(), "--profile"),
        (cargo.build_jobs.into_iter().collect(), "--jobs"),
    ] {
        all.extend(values.into_iter().flat_map(|value| pair(flag, value)));
    }
    all.extend((0..cargo.verbose).map(|_| "--verbose".into()));
    let color = color.map(|color| match color {
        WhenArg::Auto => "auto",
        WhenArg::Always => "always",
        WhenArg::Never => "never",
    });
    all.extend(color.into_iter().flat_map(|when| pair("--color", when.into())));

    let Surroundings { environment, directory, executable, .. } = surroundings;
    BuildOptions {
        cargo: environment.get(std::ffi::OsStr::new("CARGO")).cloned().unwrap_or_else(|| "cargo".into()),
        executable,
        directory,
        environment,
        cargo_args: all,
        metadata_args: shared,
        with_dependencies: false,
        target_dir: cargo.place.target_dir,
        targets: cargo.place.target,
        configs: cargo.config,
    }
}
