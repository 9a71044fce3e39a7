//! The attribute macro behind the `leakcheck` crate, where it is documented. Depend on that one.
#![forbid(unsafe_code)]

mod arguments;
mod expand;

/// Sets the memory budget that `cargo leakcheck` judges this test by.
///
/// The arguments and what they limit are in the documentation of the `leakcheck` crate. The function
/// itself is left as it is; a wrong argument is a compile error that points at it.
#[proc_macro_attribute]
pub fn leak_budget(
    arguments: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}
