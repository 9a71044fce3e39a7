//! The ledger, compiled by the build script of `leakcheck-preload` into a shared library of its own.
//!
//! A hook never locks, allocates, or calls anything of the C library but the allocator (the first one
//! asks the loader for it); it works
//! from the loader's first allocation to the process's last, on any thread, in signal handlers and
//! in destructors. What finds no room is counted.
#![no_std]
#![no_builtins]

mod account;
mod by_stack;
mod fork;
mod frames;
mod hooks;
#[path = "../src/layout.rs"]
#[allow(dead_code, reason = "some of it is for the tracer only")]
mod layout;
mod ledger;
mod memo;
mod next;
mod pool;
mod sys;
mod table;
mod thread;
#[path = "../src/unwind.rs"]
#[allow(dead_code, reason = "some of it is for the tracer only")]
mod unwind;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
