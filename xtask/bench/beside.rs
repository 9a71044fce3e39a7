//! Tests for measurements: one that waits, to be ended, and loops that leave nothing, with the nanoseconds that a turn takes.

use std::io::Write as _;
use std::os::raw::{c_char, c_int};
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn pipe(ends: *mut c_int) -> c_int;
    fn close(number: c_int) -> c_int;
}

#[test]
fn wait() {
    println!("begun");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(3600));
}

fn measure(once: fn()) {
    const TIMES: u32 = 300_000;
    (0..TIMES / 10).for_each(|_| deep(20, once));
    let start = Instant::now();
    (0..TIMES).for_each(|_| deep(20, once));
    println!("\n{:.1}", start.elapsed().as_nanos() as f64 / f64::from(TIMES));
}

#[inline(never)]
fn deep(depth: u32, once: fn()) {
    if std::hint::black_box(depth) == 0 { once() } else { deep(depth - 1, once) }
    std::hint::black_box(());
}

#[test]
fn opens() {
    // SAFETY: the path ends with a zero, and what is closed was just opened.
    measure(|| assert_eq!(unsafe { close(open(c"/dev/null".as_ptr(), 0)) }, 0));
}

#[test]
fn pipes() {
    measure(|| {
        let mut ends = [0; 2];
        // SAFETY: there is room for two, which are closed once.
        unsafe {
            assert_eq!(pipe(ends.as_mut_ptr()), 0);
            assert_eq!(close(ends[0]) + close(ends[1]), 0);
        }
    });
}
