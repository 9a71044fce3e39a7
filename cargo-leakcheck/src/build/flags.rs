//! The compiler flags that make call stacks complete and give them names, added to the user's own.

use std::ffi::{OsStr, OsString};

use cargo_config2::{Config, Flags, TargetTriple};

use crate::error::{Error, Result};
use crate::options::{BuildOptions, Environment};

const ENCODED: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Frame pointers for the call stacks, symbols and line tables for the names. Debug level 1 and not
/// `line-tables-only`, which has no paths for the names of inlined functions.
const RUST: [&str; 3] = ["-Cforce-frame-pointers=yes", "-Cstrip=none", "-Csplit-debuginfo=off"];
const RUST_DEBUG: &str = "-Cdebuginfo=1";

/// The same for C and C++. Leaf functions do not matter: they call no allocator.
const C: &str = "-fno-omit-frame-pointer -g";

/// The variables with which cargo has to be called. `apart` are more flags for rustc.
///
/// # Errors
/// When the user's own flags cannot be found out, or differ between targets.
pub fn variables(
    options: &BuildOptions,
    config: &Config,
    targets: &[TargetTriple],
    apart: &[String],
) -> Result<Environment> {
    let mut variables = Environment::new();
    variables.insert(ENCODED.into(), rust_flags(config, targets, apart)?.into());
    for name in ["CFLAGS", "CXXFLAGS"] {
        let plain = OsString::from(name);
        // The `cc` crate joins all variants that are set; until 1.2 it took only the most specific one.
        let variants = variants(name, options.environment.keys().map(OsString::as_os_str))
            .chain(variants(name, config.env.keys().map(OsStr::new)));
        for variant in variants.chain([plain]) {
            let value = match user_value(options, config, &variant) {
                Some(flags) if !flags.is_empty() => {
                    let mut flags = flags;
                    flags.push(" ");
                    flags.push(C);
                    flags
                }
                _ => C.into(),
            };
            variables.insert(variant, value);
        }
    }
    Ok(variables)
}

/// The value that a variable has in a test under plain `cargo test`: the user's, or that of cargo's
/// `[env]` table.
pub fn user_value(options: &BuildOptions, config: &Config, name: &OsStr) -> Option<OsString> {
    let own = options.environment.get(name);
    let configured = name.to_str().and_then(|name| config.env.get(name));
    match (own, configured) {
        (Some(own), Some(configured)) if !configured.force => Some(own.clone()),
        (_, Some(configured)) => Some(configured.value.clone()),
        (own, None) => own.cloned(),
    }
}

fn rust_flags(config: &Config, targets: &[TargetTriple], apart: &[String]) -> Result<String> {
    let usage =
        |error: cargo_config2::Error| Error::Usage(format!("cannot find out the flags for rustc: {error}"));
    let mut flags: Option<Flags> = None;
    for target in targets {
        let own = config.rustflags(target).map_err(usage)?.unwrap_or_default();
        if flags.as_ref().is_some_and(|flags| flags.flags != own.flags) {
            return Err(Error::Usage(
                "the targets have different rustflags, which cannot be kept in one build; give one --target"
                    .to_owned(),
            ));
        }
        flags = Some(own);
    }
    let mut flags = flags.unwrap_or_default();
    if !has_debug_info(&flags.flags) {
        flags.push(RUST_DEBUG);
    }
    RUST.into_iter().chain(apart.iter().map(String::as_str)).for_each(|flag| flags.push(flag));
    flags.encode().map_err(usage)
}

/// Whether flags ask for debug information themselves; profiles come before flags and do not matter.
fn has_debug_info(flags: &[String]) -> bool {
    let mut level = None;
    let mut rest = flags.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        let option = match flag {
            "-g" => Some("debuginfo=2"),
            "-C" | "--codegen" => rest.next(),
            _ => flag.strip_prefix("-C").or_else(|| flag.strip_prefix("--codegen=")),
        };
        level = option.and_then(|option| option.strip_prefix("debuginfo=")).or(level);
    }
    matches!(level, Some("1" | "2" | "limited" | "full"))
}

/// The names among `names` by which the `cc` crate finds flags for one target or kind of build:
/// `CFLAGS_x86_64-unknown-linux-gnu`, `TARGET_CFLAGS` and so on.
fn variants<'a>(
    name: &'a str,
    names: impl Iterator<Item = &'a OsStr> + 'a,
) -> impl Iterator<Item = OsString> + 'a {
    names
        .filter(move |variant| {
            let variant = variant.to_string_lossy();
            variant.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
                || variant.strip_suffix(name).is_some_and(|kind| kind == "HOST_" || kind == "TARGET_")
        })
        .map(OsStr::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(flags: &[&str]) -> bool {
        has_debug_info(&flags.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn enough_debug_information_of_the_users_own_is_kept() {
        assert!(has(&["-g"]));
        assert!(has(&["-Cdebuginfo=2"]));
        assert!(has(&["--cfg", "x", "-C", "debuginfo=full"]));
        assert!(has(&["--codegen", "debuginfo=limited"]));
        assert!(has(&["--codegen=debuginfo=1"]));
        assert!(has(&["-Cdebuginfo=0", "-g"]), "the last one wins");
    }

    #[test]
    fn too_little_is_raised() {
        assert!(!has(&[]));
        assert!(!has(&["-Cdebuginfo=0"]));
        assert!(!has(&["-g", "-Cdebuginfo=none"]), "the last one wins");
        assert!(!has(&["-Cdebuginfo=line-tables-only"]));
        assert!(!has(&["--cfg", "-g2"]));
    }

    #[test]
    fn variants_of_c_flags() {
        let names = [
            "CFLAGS",
            "CFLAGS_x86_64-unknown-linux-gnu",
            "TARGET_CFLAGS",
            "HOST_CFLAGS",
            "CXXFLAGS_x",
            "MY_CFLAGS",
        ];
        let found: Vec<_> = variants("CFLAGS", names.into_iter().map(OsStr::new)).collect();
        assert_eq!(found, ["CFLAGS_x86_64-unknown-linux-gnu", "TARGET_CFLAGS", "HOST_CFLAGS"]);
    }
}
