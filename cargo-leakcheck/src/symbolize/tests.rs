//! Against programs compiled here. They print where they were called from and what is mapped where,
//! so the expected lines come from marks in their sources, not from a symbolizer.

mod elsewhere;
mod generic;
mod libtest;

use std::fs;
use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};

use super::*;
use crate::model::FindingKind;
use crate::snapshot::CallStack;

const RUST: &str = r#"
#[inline(never)]
pub fn here() -> usize {
    let caller: usize;
    #[cfg(target_arch = "x86_64")]
    unsafe { std::arch::asm!("mov {}, [rbp + 8]", out(reg) caller) };
    #[cfg(target_arch = "aarch64")]
    unsafe { std::arch::asm!("ldr {}, [x29, 8]", out(reg) caller) };
    caller
}
pub mod inner {
    #[inline(always)]
    pub fn inlined() -> usize {
        std::hint::black_box(super::here()) // inner
    }
    #[inline(never)]
    pub fn generic<T: Default>(_: T) -> usize {
        std::hint::black_box(inlined()) // outer
    }
}
fn main() {
    println!("{:x}", inner::generic(1_u64));
    print!("{}", std::fs::read_to_string("/proc/self/maps").unwrap());
}
"#;

const CPP: &str = r#"
#include <cstdio>
#include <vector>
__attribute__((noinline)) static void *here() { return __builtin_return_address(0); }
namespace app {
struct List {
    __attribute__((noinline)) void *push(std::vector<int> const &) {
        void *caller = here(); // inner
        return caller;
    }
};
}
int main() {
    printf("%lx\n", (unsigned long)app::List().push({}));
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; (c = fgetc(maps)) != EOF;) putchar(c);
}
"#;

struct Program {
    directory: tempfile::TempDir,
    source: Utf8PathBuf,
    binary: Utf8PathBuf,
}

impl Program {
    fn compile(name: &str, text: &str, compiler: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().canonicalize().unwrap()).unwrap();
        let (source, binary) = (path.join(name), path.join("program"));
        fs::write(&source, text).unwrap();
        run(Command::new(compiler[0])
            .args(&compiler[1..])
            .arg("-o")
            .arg(&binary)
            .arg(name)
            .current_dir(&path));
        Self { directory, source, binary }
    }

    fn line(&self, mark: &str) -> u32 {
        let text = fs::read_to_string(&self.source).unwrap();
        text.lines().position(|line| line.ends_with(&format!("// {mark}"))).unwrap() as u32 + 1
    }

    fn own(&self) -> OwnCode {
        let root = self.source.parent().unwrap().to_owned();
        OwnCode { packages: vec![root.clone()], root }
    }

    /// Runs it: what was mapped, and the return address it printed.
    fn run(&self) -> (Vec<Mapping>, u64) {
        let output = run(&mut Command::new(&self.binary));
        let (address, maps) = output.split_once('\n').unwrap();
        let mappings = maps.lines().map_while(mapping);
        (mappings.collect(), u64::from_str_radix(address, 16).unwrap())
    }

    fn frames(&self) -> Vec<Frame> {
        let (mappings, address) = self.run();
        let frames = explain(&mut Symbolizer::new(self.own()), &mappings, address);
        // The load address is where the file's first byte is mapped.
        let base =
            mappings.iter().find(|m| m.path == self.binary.as_str() && m.offset == 0).unwrap().range.start;
        for frame in &frames {
            assert_eq!(frame.address, address - base);
            assert_eq!(frame.module.as_deref(), Some(self.binary.as_str()));
            assert!(frame.own);
        }
        frames
    }
}

/// A line of `/proc/PID/maps`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.split_ascii_whitespace();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.contains('x');
    let offset = hex(fields.next()?)?;
    let path = fields.nth(2).unwrap_or_default().to_owned();
    Some(Mapping { range: hex(start)?..hex(end)?, offset, readable: true, writable: false, executable, path })
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn finding(stack: Option<usize>, kind: FindingKind, bytes: u64) -> Finding<usize> {
    Finding {
        kind,
        measure: Measure { bytes, blocks: 1 },
        stack,
        below: Measure::default(),
        root: None,
        held_by: None,
        before: crate::snapshot::Before::default(),
        process: None,
        origin: crate::model::Origin::default(),
        in_code: crate::model::InCode::default(),
    }
}

fn explain(symbolizer: &mut Symbolizer, mappings: &[Mapping], address: u64) -> Vec<Frame> {
    let stacks = vec![CallStack { frames: vec![address] }];
    let snapshot = Snapshot { stacks, mappings: mappings.to_vec(), ..Snapshot::default() };
    let mut found = symbolizer.explain(&snapshot, vec![finding(Some(0), FindingKind::DefinitelyLost, 1)]);
    found.remove(0).stack.unwrap()
}

/// A mapping of a whole file at `base`.
fn mapped(path: &Utf8Path, base: u64) -> Vec<Mapping> {
    vec![Mapping {
        range: base..base + (1 << 30),
        offset: 0,
        readable: true,
        writable: false,
        executable: true,
        path: path.to_string(),
    }]
}

#[test]
fn rust_names_lines_and_inlined_calls() {
    let flags = ["rustc", "--edition=2024", "-Cforce-frame-pointers=yes"];
    let cases: [(&[&str], &str, &str); 3] = [
        (&["-g"], "program::inner::inlined", "program::inner::generic"),
        (
            &["-g", "-Csymbol-mangling-version=v0"],
            "program::inner::inlined",
            "program::inner::generic::<u64>",
        ),
        // Line tables have the bare name of an inlined function only.
        (&["-O", "-Cdebuginfo=line-tables-only"], "inlined", "program::inner::generic"),
    ];
    for (more, inner, outer) in cases {
        let program = Program::compile("program.rs", RUST, &[&flags, more].concat());
        let frames = program.frames();
        let seen: Vec<_> =
            frames.iter().map(|f| (f.function.as_deref().unwrap(), f.line.unwrap(), f.inlined)).collect();
        assert_eq!(
            seen,
            [(inner, program.line("inner"), true), (outer, program.line("outer"), false)],
            "{more:?}"
        );
        for frame in &frames {
            assert_eq!(frame.file.as_deref(), Some(program.source.as_str()));
            // Both calls stand in the parentheses of `black_box`.
            assert_eq!(frame.column, Some("        std::hint::black_box(".len() as u32 + 1));
        }
        assert_eq!(site(&frames, &program.own()), Some(&frames[0]));
    }
}

#[test]
fn cpp_names_are_demangled() {
    let program = Program::compile("program.cpp", CPP, &["g++", "-g", "-O0"]);
    let frames = program.frames();
    assert_eq!(frames.len(), 1);
    let name = frames[0].function.as_deref().unwrap();
    assert!(name.starts_with("app::List::push(std::vector<int"), "{name}");
    assert_eq!(frames[0].line, Some(program.line("inner")));
    assert_eq!(frames[0].file.as_deref(), Some(program.source.as_str()));
}

#[test]
fn a_stripped_function_is_unknown_and_not_its_exported_neighbour() {
    let text = "int hidden(int);\n\
                int exported(int a) { return hidden(a) + 1; }\n\
                __attribute__((noinline, visibility(\"hidden\"))) int hidden(int a) { return a * 7; }\n";
    let program =
        Program::compile("lib.c", text, &["gcc", "-g", "-O1", "-fno-toplevel-reorder", "-shared", "-fPIC"]);
    let table = run(Command::new("nm").arg(&program.binary));
    let address = |name: &str| {
        let line = table.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    let (hidden, exported) = (address("hidden"), address("exported"));
    assert!(exported < hidden, "the neighbour must come first to be a tempting guess");

    let mappings = mapped(&program.binary, 0x7f00_0000_0000);
    let at = |address| explain(&mut Symbolizer::new(program.own()), &mappings, 0x7f00_0000_0000 + address);
    assert_eq!(at(hidden + 4)[0].function.as_deref(), Some("hidden"));
    run(Command::new("strip").arg(&program.binary));
    assert_eq!(at(exported + 4)[0].function.as_deref(), Some("exported"));
    let [frame] = &at(hidden + 4)[..] else { panic!() };
    let module = Some(program.binary.to_string());
    assert_eq!(*frame, Frame { module, address: hidden + 4, ..Frame::default() });
}

#[test]
fn a_symbol_without_a_size_names_only_its_own_address() {
    let text = ".globl marker\n.type marker,@function\nmarker: nop\n nop\n nop\n nop\n";
    let program = Program::compile("marker.s", text, &["gcc", "-shared", "-nostdlib"]);
    let table = run(Command::new("nm").arg(&program.binary));
    let line = table.lines().find(|line| line.ends_with(" marker")).unwrap();
    let marker = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let mappings = mapped(&program.binary, 0);
    let at = |address| explain(&mut Symbolizer::new(program.own()), &mappings, address)[0].function.clone();
    assert_eq!(at(marker + 1).as_deref(), Some("marker"));
    assert_eq!(at(marker + 3), None);
}

#[test]
fn files_that_are_gone_leave_the_module_and_offset() {
    let mut symbolizer = Symbolizer::new(OwnCode::default());
    for (path, module) in [
        ("/nonexistent/libplugin.so", "/nonexistent/libplugin.so"),
        // The test's own executable exists, but a deleted file of that name was another one.
        ("/proc/self/exe (deleted)", "/proc/self/exe"),
        ("/dev/zero", "/dev/zero"),
        ("[vdso]", "[vdso]"),
    ] {
        let frames = explain(&mut symbolizer, &mapped(path.into(), 0x1000), 0x1234);
        assert_eq!(frames, [Frame { module: Some(module.into()), address: 0x234, ..Frame::default() }]);
    }
    let frames = explain(&mut symbolizer, &[], 0x1234);
    assert_eq!(frames, [Frame { address: 0x1234, ..Frame::default() }]);
    assert_eq!(explain(&mut symbolizer, &[], 0), [Frame::default()]);
}

#[test]
fn a_place_is_looked_up_once_a_run() {
    let program = Program::compile("program.cpp", CPP, &["g++", "-g"]);
    let mut symbolizer = Symbolizer::new(program.own());
    let (mappings, address) = program.run();
    let first = explain(&mut symbolizer, &mappings, address);
    fs::remove_dir_all(program.directory.path()).unwrap();
    // The next process has the module elsewhere; the file can no longer be asked.
    let moved = mappings.into_iter().map(|mut m| {
        m.range = m.range.start + 0x1000..m.range.end + 0x1000;
        m
    });
    let moved: Vec<_> = moved.collect();
    assert_eq!(explain(&mut symbolizer, &moved, address + 0x1000), first);
}

#[test]
fn equal_findings_are_merged_and_sorted() {
    use FindingKind::{DefinitelyLost, StillReachable};
    let stacks = vec![
        CallStack { frames: vec![0x10] },
        CallStack { frames: vec![0x20] },
        CallStack { frames: vec![0x10] },
    ];
    let snapshot = Snapshot { stacks, ..Snapshot::default() };
    let findings = vec![
        finding(Some(0), StillReachable, 900),
        finding(Some(0), DefinitelyLost, 3),
        finding(Some(1), DefinitelyLost, 5),
        finding(Some(2), DefinitelyLost, 4),
        finding(None, DefinitelyLost, 1),
    ];
    let explained = Symbolizer::new(OwnCode::default()).explain(&snapshot, findings);
    let seen: Vec<_> = explained
        .iter()
        .map(|f| (f.kind, f.stack.as_ref().map(|s| s[0].address), f.measure.bytes, f.measure.blocks))
        .collect();
    assert_eq!(
        seen,
        [
            (DefinitelyLost, Some(0x10), 7, 2),
            (DefinitelyLost, Some(0x20), 5, 1),
            (DefinitelyLost, None, 1, 1),
            (StillReachable, Some(0x10), 900, 1),
        ]
    );
}
