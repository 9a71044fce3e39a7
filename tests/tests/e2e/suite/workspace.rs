//! A workspace with 500 tests in every kind of target, twelve of which leak. It is written, since there is nothing to be
//! read in 488 tests that leave nothing; those that leak are below, by hand.

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

/// What leaks: binary, name, body. In harnesses of their own the window is the whole process, whose main thread may
/// still refer to anything; so it is lost by a thread that has ended.
pub const PLANTED: [(&str, &str, &str); 12] = [
    ("parts", "planted::loses_a_box", "Box::leak(Box::new(black_box([1_u8; 4096])));"),
    (
        "parts",
        "planted::makes_a_cycle",
        "struct Node(std::cell::RefCell<Option<std::rc::Rc<Node>>>);
         let node = std::rc::Rc::new(Node(None.into()));
         *node.0.borrow_mut() = Some(node.clone());",
    ),
    (
        "parts::api",
        "planted::leaves_a_file_open",
        "std::mem::forget(std::fs::File::open(\"/dev/null\").unwrap());",
    ),
    (
        "parts::api",
        "planted::leaves_a_child",
        "use std::process::{Command, Stdio};
         let mut command = Command::new(\"sleep\");
         command.arg(\"31557600.125\").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
         drop(command.spawn().unwrap());",
    ),
    ("parts::bin/serve", "planted::forgets_a_string", "std::mem::forget(black_box(\"session\".repeat(9)));"),
    ("parts::example/show", "planted::forgets_a_list", "std::mem::forget(black_box(vec![1_u8; 77]));"),
    ("parts::bench/speed", "planted::forgets_a_list", "std::mem::forget(black_box(vec![1_u8; 78]));"),
    (
        "parts::bench/timing",
        "planted: a thread forgets",
        "std::thread::spawn(|| std::mem::forget(black_box(vec![1_u8; 3007]))).join().unwrap();",
    ),
    (
        "parts::mimic",
        "planted: a thread forgets",
        "std::thread::spawn(|| std::mem::forget(black_box(vec![1_u8; 3008]))).join().unwrap();",
    ),
    ("native", "planted::is_left_by_c", "unsafe { suite_keep(24) };"),
    ("native", "planted::leaves_shared_memory", "assert!(unsafe { suite_shared_memory(4096) } >= 0);"),
    ("macros", "planted::forgets_a_list", "std::mem::forget(black_box(vec![1_u8; 93]));"),
];

/// How a target has its tests.
#[derive(Clone, Copy, PartialEq)]
enum Harness {
    Libtest,
    /// libtest-mimic.
    Mimic,
    /// What benchmark harnesses do: it lists and runs them without being libtest.
    Benchmarks,
}

/// Binary, source file, harness, number of tests with those that leak, and what stands before them.
const TARGETS: [(&str, &str, Harness, usize, &str); 10] = [
    ("parts", "parts/src/lib.rs", Harness::Libtest, 160, "pub fn library() {}"),
    ("parts::api", "parts/tests/api.rs", Harness::Libtest, 120, ""),
    ("parts::more", "parts/tests/more.rs", Harness::Libtest, 60, ""),
    ("parts::bin/serve", "parts/src/bin/serve.rs", Harness::Libtest, 30, "fn main() {}"),
    ("parts::example/show", "parts/examples/show.rs", Harness::Libtest, 20, "fn main() {}"),
    ("parts::bench/speed", "parts/benches/speed.rs", Harness::Libtest, 20, ""),
    ("parts::bench/timing", "parts/benches/timing.rs", Harness::Benchmarks, 10, ""),
    ("parts::mimic", "parts/tests/mimic.rs", Harness::Mimic, 25, ""),
    (
        "native",
        "native/src/lib.rs",
        Harness::Libtest,
        40,
        "#[cfg(test)] unsafe extern \"C\" { fn suite_keep(size: usize); fn suite_shared_memory(size: usize) -> i32; }",
    ),
    (
        "macros",
        "macros/src/lib.rs",
        Harness::Libtest,
        15,
        "#[proc_macro] pub fn nothing(_: proc_macro::TokenStream) -> proc_macro::TokenStream { Default::default() }",
    ),
];

/// Tests besides: a program without a listing, which is a test for cargo and none for nextest.
pub const UNIT: &str = "parts::unit";

/// What a test does that leaves nothing that counts, in turn; `N` is its number.
const CLEAN: [&str; 7] = [
    "assert_eq!(black_box(vec![1_usize; 100 + N]).iter().sum::<usize>(), 100 + N);",
    "assert_eq!(std::thread::spawn(|| format!(\"{:04}\", N)).join().unwrap().len(), 4);",
    "let map: std::collections::HashMap<_, _> = (0..N).map(|n| (n, n.to_string())).collect();
     assert_eq!(map.len(), N);",
    "static KEPT: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
     assert_eq!(KEPT.get_or_init(|| vec![1; 1 + N]).len(), 1 + N);",
    "assert!(std::fs::read(\"/proc/self/stat\").is_ok());",
    "assert!(std::process::Command::new(\"true\").status().unwrap().success());",
    "let file = std::env::temp_dir().join(\"N\");
     std::fs::write(&file, \"N\").unwrap();
     std::fs::remove_file(file).unwrap();",
];

/// What stands in each library and test file besides: leaks that do not count.
const BESIDES: &str = "
#[test]
#[ignore = \"leaks\"]
fn ignored() { std::mem::forget(black_box(vec![1_u8; 5])); }
#[test]
#[should_panic = \"on purpose\"]
fn panics() { std::mem::forget(black_box(vec![1_u8; 6])); panic!(\"on purpose\"); }
";

const MIMIC: &str = "
use libtest_mimic::{Arguments, Trial};
fn main() {
    let arguments = Arguments::from_args();
    let trials = TESTS.iter().map(|&(name, run)| Trial::test(name, move || { run(); Ok(()) }));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
";

const BENCHMARKS: &str = "
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has(\"--list\") {
        let listed = if has(\"--ignored\") { &[] } else { TESTS };
        listed.iter().for_each(|(name, _)| println!(\"{name}: benchmark\"));
        return;
    }
    for (name, run) in TESTS {
        if wanted.is_none_or(|wanted| name == wanted || !has(\"--exact\") && name.contains(wanted.as_str())) {
            run();
        }
    }
}
";

const UNIT_TEXT: &str = "fn main() { assert_eq!(std::hint::black_box(vec![1_u8; 31]).len(), 31); }\n";

const NATIVE: &str = "
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
void suite_keep(size_t size) { void *volatile block = malloc(size); block = NULL; }
int suite_shared_memory(size_t size) { return shmget(IPC_PRIVATE, size, IPC_CREAT | 0600); }
";

const MANIFESTS: [(&str, &str); 4] = [
    (
        "",
        "[workspace]\nresolver = '3'\nmembers = ['parts', 'native', 'macros']\n\
         [profile.dev]\npanic = 'abort'\n[profile.release]\npanic = 'abort'\n",
    ),
    (
        "parts",
        "[package]\nname = 'parts'\nedition = '2024'\n\
         [dev-dependencies]\nlibtest-mimic = '0.8'\n\
         [[example]]\nname = 'show'\ntest = true\n\
         [[bench]]\nname = 'speed'\ntest = true\n\
         [[bench]]\nname = 'timing'\ntest = true\nharness = false\n\
         [[test]]\nname = 'mimic'\nharness = false\n\
         [[test]]\nname = 'unit'\nharness = false\n",
    ),
    ("native", "[package]\nname = 'native'\nedition = '2024'\n[build-dependencies]\ncc = '1'\n"),
    ("macros", "[package]\nname = 'macros'\nedition = '2024'\n[lib]\nproc-macro = true\n"),
];

/// Writes it all; `lock` is a lock file that has the dependencies.
pub fn write(root: &Utf8Path, lock: &Utf8Path) -> Result<(), std::io::Error> {
    let put = |path: Utf8PathBuf, text: &str| {
        fs::create_dir_all(path.parent().expect("it is below the root"))?;
        fs::write(path, text)
    };
    for (folder, text) in MANIFESTS {
        put(root.join(folder).join("Cargo.toml"), text)?;
    }
    fs::copy(lock, root.join("Cargo.lock"))?;
    put(root.join("native/native.c"), NATIVE)?;
    let script = "fn main() { cc::Build::new().file(\"native.c\").compile(\"suite_native\"); }\n";
    put(root.join("native/build.rs"), script)?;
    put(root.join("parts/tests/unit.rs"), UNIT_TEXT)?;
    let mut number = 0;
    for (binary, file, harness, tests, head) in TARGETS {
        put(root.join(file), &source(binary, harness, tests, head, &mut number))?;
    }
    Ok(())
}

fn source(binary: &str, harness: Harness, tests: usize, head: &str, number: &mut usize) -> String {
    let planted: Vec<_> = PLANTED.iter().filter(|(of, ..)| *of == binary).collect();
    // `BESIDES` has one that runs.
    let besides = usize::from(harness == Harness::Libtest);
    let clean: Vec<(String, String)> = (planted.len() + besides..tests)
        .map(|_| {
            *number += 1;
            (format!("test_{number:03}"), CLEAN[*number % CLEAN.len()].replace('N', &number.to_string()))
        })
        .collect();
    let mut text = format!("{head}\n#[allow(unused_imports)]\nuse std::hint::black_box;\n");
    if harness == Harness::Libtest {
        let test = |name: &str, body: &str| format!("#[test]\nfn {name}() {{\n{body}\n}}\n");
        text += BESIDES;
        text.extend(clean.iter().map(|(name, body)| test(name, body)));
        text += "#[cfg(test)]\nmod planted {\n#[allow(unused_imports)]\nuse super::*;\n";
        text.extend(planted.iter().map(|(_, name, body)| test(&name.replace("planted::", ""), body)));
        return text + "}\n";
    }
    let entry = |name: &str, body: &str| format!("({name:?}, || {{\n{body}\n}}),\n");
    text += "const TESTS: &[(&str, fn())] = &[\n";
    text.extend(clean.iter().map(|(name, body)| entry(name, body)));
    text.extend(planted.iter().map(|(_, name, body)| entry(name, body)));
    text + "];\n" + if harness == Harness::Mimic { MIMIC } else { BENCHMARKS }
}
