//! What the end-to-end tests are made of: fixtures say in comments what must be found ([`marker`],
//! [`fixture`]), the tool says in its report what it found ([`report`]), and [`compare`] holds the two
//! against each other. [`tool`] runs it, and [`browser`] shows its page.

pub mod browser;
pub mod compare;
pub mod document;
pub mod fixture;
pub mod many;
pub mod marker;
pub mod report;
pub mod source;
pub mod tool;
pub mod truth;
pub mod user;
