//! Nanoseconds for calls of this crate: `cost block|ignore|scope COUNT`, what `cargo xtask bench marks` runs.

use std::hint::black_box;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let count: u32 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let value = Box::new(1);
    let start = Instant::now();
    match what.as_str() {
        "ignore" => (0..count).for_each(|_| leakcheck::ignore(black_box(&value))),
        "scope" => (0..count).for_each(|_| drop(black_box(leakcheck::scope(black_box("name")).bytes(1)))),
        _ => (0..count).for_each(|number| drop(black_box(Box::new(number)))),
    }
    println!("{}", start.elapsed().as_nanos() as f64 / f64::from(count));
}
