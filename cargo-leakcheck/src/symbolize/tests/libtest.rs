//! A whole call stack of a libtest binary, walked by its frame pointers.

use super::*;

const SOURCE: &str = r#"
use std::cell::RefCell;
thread_local! { static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) }; }

struct Walking;
#[global_allocator]
static ALLOCATOR: Walking = Walking;
unsafe impl std::alloc::GlobalAlloc for Walking {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        if layout.size() == 4242 {
            record();
        }
        unsafe { std::alloc::System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: std::alloc::Layout) {
        unsafe { std::alloc::System.dealloc(at, layout) }
    }
}

#[inline(never)]
fn record() {
    let mut frame: *const usize;
    #[cfg(target_arch = "x86_64")]
    unsafe { std::arch::asm!("mov {}, rbp", out(reg) frame) };
    #[cfg(target_arch = "aarch64")]
    unsafe { std::arch::asm!("mov {}, x29", out(reg) frame) };
    STACK.with_borrow_mut(|stack| {
        // Up to the frame of libtest's that runs the test; above it may be code without frame pointers.
        while !frame.is_null() && frame.is_aligned() && stack.len() < 40 {
            let caller = unsafe { *frame.add(1) };
            if caller == 0 {
                break;
            }
            stack.push(caller);
            let next = unsafe { *frame } as *const usize;
            if next <= frame {
                break;
            }
            frame = next;
        }
    });
}

fn make() -> Vec<u8> {
    Vec::with_capacity(4242) // site
}

#[test]
fn leaks() {
    STACK.with_borrow_mut(|stack| stack.reserve(100));
    let vec = make(); // test
    STACK.with_borrow(|stack| println!("stack {}", stack.iter().map(|a| format!("{a:x} ")).collect::<String>()));
    print!("{}", std::fs::read_to_string("/proc/self/maps").unwrap());
    drop(vec);
}
"#;

/// The marked stack of the one test, and the program.
fn stack(flags: &[&str]) -> (Vec<Frame>, Program) {
    let base = ["rustc", "--edition=2024", "--test", "-Cforce-frame-pointers=yes"];
    let program = Program::compile("program.rs", SOURCE, &[&base, flags].concat());
    let output = run(Command::new(&program.binary).args(["--nocapture", "--exact", "leaks"]));
    let (_, output) = output.split_once("stack ").unwrap();
    let (addresses, maps) = output.split_once('\n').unwrap();
    let frames = addresses.split_whitespace().map(|text| u64::from_str_radix(text, 16).unwrap()).collect();
    let mappings = maps.lines().map_while(mapping).collect();
    let snapshot = Snapshot { stacks: vec![CallStack { frames }], mappings, ..Snapshot::default() };
    let findings = vec![finding(Some(0), FindingKind::DefinitelyLost, 4242)];
    let explained = Symbolizer::new(program.own()).explain(&snapshot, findings);
    (explained.into_iter().next().unwrap().stack.unwrap(), program)
}

#[test]
fn only_the_users_frames_are_own_and_the_site_is_the_line_that_allocates() {
    for flags in [
        &["-g"][..],
        &["-g", "-Csymbol-mangling-version=v0"],
        &["-Copt-level=2", "-Cdebuginfo=line-tables-only"],
        &["-Copt-level=2", "-g"],
    ] {
        let (frames, program) = stack(flags);
        let own: Vec<_> = frames.iter().filter(|frame| frame.own).map(|frame| frame.line).collect();
        let (made, called) = (Some(program.line("site")), Some(program.line("test")));
        assert_eq!(own, [made, called], "{flags:?}: {frames:#?}");
        assert_eq!(site(&frames, &program.own()).unwrap().line, made);
        // Line tables have bare names, which the symbol table completes where there is a symbol.
        let call = |f: &Frame| f.function.as_deref().is_some_and(|name| name.starts_with("call_once<"));
        assert!(!frames.iter().any(|frame| !frame.inlined && call(frame)), "{frames:#?}");
        assert!(frames.len() > 10, "the stack reaches into libtest: {frames:#?}");
    }
}
