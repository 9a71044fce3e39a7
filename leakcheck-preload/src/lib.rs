//! The part of cargo-leakcheck that is preloaded into tests.
#![no_std]

pub mod unwind;
