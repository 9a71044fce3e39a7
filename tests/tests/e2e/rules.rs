//! Rules on real tests: what they accept, up to which limit, until when, and suppression files of other tools.

use leakcheck_tests::tool::Workshop;

use crate::baseline::OLD;
use crate::package::Package;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("rules::limits", limits),
    ("rules::roots_cover_what_hangs_below", roots_cover_what_hangs_below),
    ("rules::expired_and_unused", expired_and_unused),
    ("rules::written", written),
    ("rules::suppression_files", suppression_files),
    ("rules::default_suppressions", default_suppressions),
    ("rules::beside_the_baseline", beside_the_baseline),
    ("rules::under_nextest", under_nextest),
];

const CONFIG: &str = ".config/leakcheck.toml";

/// 32 bytes as often as it is called; a test that calls it once, and one that calls it three times.
const INIT: &str = "\
pub fn init() {
    std::mem::forget(std::hint::black_box(Box::new([1_u8; 32])));
}

#[test]
fn once() {
    init();
}

#[test]
fn thrice() {
    (0..3).for_each(|_| init());
}
";

fn limits(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, INIT)?;
    let rule =
        "[[profile.default.rules]]\nname = 'init'\nfunction = 'old::init'\nmax-blocks = 1\nreason = 'once'\n";
    package.write(CONFIG, rule)?;
    let json = package.path("report.json");
    let run = package.run(workshop, &["--json", json.as_str()])?;
    let said = "96 B definitely lost in 3 blocks (budget 0 B), rule 'init' exceeded: 3 > 1";
    run.expect(
        2,
        &[said, "Rule 'init': 128 B in 4 blocks of 2 tests, exceeded: 3 > 1", "1 clean, 1 leaking"],
    )?;
    documents::json(&json)?;
    package.write(CONFIG, &rule.replace("max-blocks = 1", "max-blocks = 3"))?;
    package.run(workshop, &[])?.expect(0, &["Rule 'init': 128 B in 4 blocks of 2 tests\n", "2 clean"])?;
    package.write(CONFIG, &rule.replace("max-blocks = 1", "max-bytes = 95"))?;
    package.run(workshop, &[])?.expect(2, &["rule 'init' exceeded: 96 B > 95 B"])?;
    // For one of the tests, and for other kinds.
    package.write(CONFIG, &rule.replace("max-blocks = 1", "test = 'thrice'"))?;
    package
        .run(workshop, &[])?
        .expect(2, &["Rule 'init': 96 B in 3 blocks of 1 test\n", "1 clean, 1 leaking"])?;
    package.write(CONFIG, &rule.replace("max-blocks = 1", "kind = ['still-reachable', 'descriptor']"))?;
    package
        .run(workshop, &[])?
        .expect(2, &["0 clean, 2 leaking", "rule 'init' (.config/leakcheck.toml:1) is for nothing"])
}

/// A boxed list of boxes: a root of 3 pointers and a length, and what it leads to.
const TREE: &str = "\
fn leaf() -> Box<[u8; 64]> {
    Box::new([1; 64])
}

fn root() -> Box<[Box<[u8; 64]>; 2]> {
    Box::new([leaf(), leaf()])
}

#[test]
fn tree() {
    std::mem::forget(std::hint::black_box(root()));
}

#[test]
fn leaf_alone() {
    std::mem::forget(std::hint::black_box(leaf()));
}
";

/// What is below the root is the root's, by whichever function: a rule for that accepts no tree.
fn roots_cover_what_hangs_below(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, TREE)?;
    let rule = |function: &str| {
        format!(
            "[[profile.default.rules]]\nfunction = 'old::{function}'\nmax-blocks = 1\nreason = 'a tree'\n"
        )
    };
    package.write(CONFIG, &rule("root"))?;
    // 2 pointers, and 2 leaves of 64 bytes.
    let run = package.run(workshop, &[])?;
    run.expect(
        2,
        &[
            "Rule 'old::root': 144 B in 1 block of 1 test\n",
            "64 B definitely lost in 1 block (budget 0 B)",
            "1 clean",
        ],
    )?;
    package.write(CONFIG, &rule("leaf"))?;
    let run = package.run(workshop, &[])?;
    run.expect(
        2,
        &[
            "Rule 'old::leaf': 64 B in 1 block of 1 test\n",
            "16 B definitely and 128 B indirectly lost in 3 blocks",
        ],
    )
}

fn expired_and_unused(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, INIT)?;
    let rules = "[[profile.default.rules]]\nname = 'old'\ncrate = 'old'\nexpires = 2026-01-31\nreason = 'for a while'\n\
                 [[profile.default.rules]]\nname = 'new'\ncrate = 'old'\nexpires = 9999-12-31\nreason = 'for ever'\n";
    package.write(CONFIG, rules)?;
    let expired = "rule 'old' (.config/leakcheck.toml:1) has expired";
    package.run(workshop, &[])?.expect(0, &[expired, "Rule 'new': 128 B in 4 blocks of 2 tests"])?;
    let unused = format!("{rules}[[profile.default.rules]]\nname = 'rest'\ncrate = 'gone'\nreason = 'x'\n");
    package.write(CONFIG, &unused)?;
    let note = "rule 'rest' (.config/leakcheck.toml:11) is for nothing that was found";
    package.run(workshop, &[])?.expect(0, &[note])?;
    let denied =
        "nothing was found that these are for (--deny-unused-rules): rule 'rest' (.config/leakcheck.toml:11)";
    let run = package.run(workshop, &["--deny-unused-rules"])?;
    run.expect(11, &[denied, "2 tests run: 2 clean"])?;
    package.write(CONFIG, &format!("[profile.default]\ndeny-unused-rules = true\n{unused}"))?;
    package.run(workshop, &[])?.expect(11, &["(--deny-unused-rules): rule 'rest'"])?;
    // Of some tests only nobody can tell.
    package.run(workshop, &["once"])?.expect(0, &[])?;
    package.write(CONFIG, &unused)?;
    let some = package.run(workshop, &["once"])?;
    match some.stderr.contains("that was found") {
        true => Err(some.describe()),
        false => some.expect(0, &[]),
    }
}

/// The rules that are printed make the run pass, and not more than that.
fn written(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, &format!("{INIT}{OLD}{TREE}"))?;
    let run = package.run(workshop, &["--write-rules"])?;
    run.expect(2, &["6 leaking"])?;
    package.write(CONFIG, &run.stdout)?;
    let again = package.run(workshop, &["--write-rules"])?;
    again.expect(0, &["7 tests run: 7 clean"]).map_err(|problem| format!("{problem}\n{}", run.stdout))?;
    if !again.stdout.is_empty() {
        return Err(again.describe());
    }
    package.write("src/lib.rs", &format!("{INIT}{OLD}{TREE}").replace("(0..3)", "(0..4)"))?;
    let more = package.run(workshop, &["--write-rules"])?;
    more.expect(2, &["rule 'old::init' exceeded: 4 > 3"])?;
    match more.stdout.contains("# the limit of rule 'old::init' (.config/leakcheck.toml:")
        && more.stdout.contains("is too low: 4 > 3")
    {
        true => Ok(()),
        false => Err(more.describe()),
    }
}

fn suppression_files(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, INIT)?;
    package.write("lsan.supp", "# known\nleak:old::in*t\nthread:x\n")?;
    let valgrind = "{\n by a stack\n Memcheck:Leak\n match-leak-kinds: definite\n fun:malloc\n ...\n fun:_ZN3old4init17h0123456789abcdefE\n ...\n fun:_ZN3old*\n}\n\
                    {\n other\n Memcheck:Value8\n fun:f\n}\n";
    package.write("v.supp", valgrind)?;
    let run = package.run(workshop, &["--suppressions", "lsan.supp"])?;
    run.expect(
        0,
        &["Rule 'leak:old::in*t': 128 B in 4 blocks", "left out:", "lsan.supp:3: `thread:x` is for no leaks"],
    )?;
    let run = package.run(workshop, &["--suppressions", "v.supp"])?;
    run.expect(0, &["Rule 'by a stack': 128 B in 4 blocks", "'other' is for Memcheck:Value8"])?;
    // By the configuration, and as rules of one.
    package.write(CONFIG, "[profile.default]\nsuppressions = ['v.supp']\n")?;
    package.run(workshop, &[])?.expect(0, &["Rule 'by a stack'"])?;
    for file in ["lsan.supp", "v.supp"] {
        let import = package.run(workshop, &["import", file])?;
        import.expect(0, &["left out:"])?;
        package.write(CONFIG, &import.stdout)?;
        package.run(workshop, &[])?.expect(0, &["Rule '", "2 clean"])?;
    }
    package.run(workshop, &["--suppressions", "none.supp"])?.expect(11, &["cannot read", "none.supp"])?;
    package.write("none.supp", "f\n")?;
    package
        .run(workshop, &["--suppressions", "none.supp"])?
        .expect(11, &["none.supp: neither LeakSanitizer's"])
}

/// The text that a test binary has for LeakSanitizer is for its tests.
fn default_suppressions(workshop: &Workshop) -> Outcome {
    let function = "#[cfg(test)]\n#[unsafe(no_mangle)]\npub extern \"C\" fn __lsan_default_suppressions() -> *const u8 { TEXT }\n";
    // The linker keeps it for LeakSanitizer's runtime, which is not there.
    let kept =
        "#[cfg(test)]\n#[used]\nstatic KEPT: extern \"C\" fn() -> *const u8 = __lsan_default_suppressions;\n";
    let text = "#[cfg(test)]\nstatic TEXT_: [u8; 16] = *b\"leak:old::init\\n\\0\";\n#[cfg(test)]\nconst TEXT: *const u8 = &raw const TEXT_ as *const u8;\n";
    let package = Package::new(workshop, &format!("{INIT}{function}{kept}{text}"))?;
    package
        .run(workshop, &[])?
        .expect(0, &["Rule 'leak:old::init': 128 B in 4 blocks of 2 tests", "2 clean"])?;
    package.run(workshop, &["--release"])?.expect(0, &["Rule 'leak:old::init'"])?;
    // Not for another binary of the package.
    package.write("tests/other.rs", "#[test]\nfn other() {\n    old::init();\n}\n")?;
    package.run(workshop, &[])?.expect(2, &["2 clean, 1 leaking"])?;
    // What it computes is not known without running it.
    let computed = function.replace("{ TEXT }", "{ std::hint::black_box(TEXT) }");
    package.write("src/lib.rs", &format!("{INIT}{computed}{kept}{text}"))?;
    package
        .run(workshop, &["--lib"])?
        .expect(2, &["left out: suppressions of old:", "__lsan_default_suppressions computes"])
}

/// What a rule accepts is not known to the baseline as well.
fn beside_the_baseline(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, OLD)?;
    package.write(
        CONFIG,
        "[[profile.default.rules]]\nname = 'two'\nfunction = 'old::tests::two'\nreason = 'x'\n",
    )?;
    package.run(workshop, &["baseline", "write"])?.expect(0, &["1 leak of 1 test known"])?;
    package
        .run(workshop, &[])?
        .expect(0, &["Baseline 1 known\n", "Rule 'two': 24 B in 2 blocks of 1 test", "3 clean"])
}

fn under_nextest(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, INIT)?;
    package.write("lsan.supp", "leak:old::init\n")?;
    package.write(
        CONFIG,
        "[[profile.default.rules]]\nname = 'once'\ntest = 'once'\nfunction = 'old::init'\nreason = 'x'\n",
    )?;
    let nextest =
        |args: &[&str]| package.run(workshop, &[&["nextest"], args, &["run", "--no-fail-fast"]].concat());
    nextest(&[])?.expect(2, &["Rule 'once': 32 B in 1 block of 1 test", "1 leaking"])?;
    let both = ["--suppressions", "lsan.supp", "--deny-unused-rules"];
    nextest(&both)?.expect(0, &["Rule 'once': 32 B", "Rule 'leak:old::init': 96 B in 3 blocks of 1 test"])?;
    package.write("lsan.supp", "leak:old::init\nleak:gone\n")?;
    nextest(&both)?.expect(11, &["rule 'leak:gone'"])
}
