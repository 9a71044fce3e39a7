//! What the attribute turns into: the function as it was, and its record beside it.

use leakcheck_common::{BUDGET_MAGIC, BUDGET_SECTION};
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Error, FnArg, Ident, Result, Signature, Visibility};

use crate::arguments;

/// The item, followed by its record or by what is wrong with the attribute. The item comes first in
/// either case, so that a wrong budget does not hide the test from the compiler and the editor.
pub fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let beside = match test_name.parse2(item.clone()) {
        Ok(name) => arguments::parse(arguments).map(|lines| record(&name, &lines)),
        Err(error) => Err(error),
    };
    let beside = beside.unwrap_or_else(Error::into_compile_error);
    quote!(#item #beside)
}

/// The name of the function that `input` is. Its body is not looked at.
fn test_name(input: ParseStream) -> Result<Ident> {
    let attributes = input.call(Attribute::parse_outer)?;
    if let Some(other) = attributes.iter().find(|attribute| {
        attribute.path().segments.last().is_some_and(|segment| segment.ident == "leak_budget")
    }) {
        return Err(Error::new_spanned(other, "a test has one `leak_budget`; put all limits in it"));
    }
    let not_a_test = "`leak_budget` belongs on a test function";
    let function = input.cursor().token_stream();
    input.parse::<Visibility>()?;
    let signature = input.parse::<Signature>().map_err(|_| Error::new_spanned(function, not_a_test))?;
    if let Some(receiver @ FnArg::Receiver(_)) = signature.inputs.first() {
        return Err(Error::new_spanned(receiver, not_a_test));
    }
    input.parse::<TokenStream>()?;
    Ok(signature.ident)
}

/// A static that puts the budget into the test binary, see `BUDGET_MAGIC`.
///
/// No token of it may carry a span of the user's: the compiler then takes the code for foreign, and
/// neither `forbid(unsafe_code)` nor other lints of the user's apply. It names nothing but `core`, so that
/// the dependency can have any name.
fn record(name: &Ident, lines: &str) -> TokenStream {
    let name = name.to_string();
    let magic = Literal::byte_string(&BUDGET_MAGIC);
    quote! {
        #[cfg(all(test, target_os = "linux"))]
        const _: () = {
            const TEXT: &::core::primitive::str =
                ::core::concat!(::core::module_path!(), "::", #name, "\n", #lines);
            #[used]
            #[unsafe(link_section = #BUDGET_SECTION)]
            static RECORD: [::core::primitive::u8; 8 + TEXT.len()] = {
                let mut record = [0; 8 + TEXT.len()];
                let (header, text) = record.split_at_mut(8);
                let (magic, length) = header.split_at_mut(4);
                magic.copy_from_slice(#magic);
                length.copy_from_slice(&(TEXT.len() as ::core::primitive::u32).to_le_bytes());
                text.copy_from_slice(TEXT.as_bytes());
                record
            };
        };
    }
}
