//! The attribute's arguments. Every complaint points at the argument it is about.

use leakcheck_common::{SizeError, parse_size};
use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, Result, Token, UnOp};

/// The arguments as the lines of a record: `key=value`, each ended by a line feed.
pub fn parse(arguments: TokenStream) -> Result<String> {
    if arguments.is_empty() {
        let message = format!("`leak_budget` needs at least one limit, such as `bytes = 0`; {KEYS}");
        return Err(Error::new(Span::call_site(), message));
    }
    lines.parse2(arguments)
}

/// What is alive is noted down after each.
const MOST_ITERATIONS: u64 = 1000;

const KEYS: &str = "its arguments are `bytes`, `blocks`, `reachable_bytes`, `reachable_blocks`, \
                    `outstanding_bytes`, `fds`, `kernel_bytes`, `ipc`, `children`, `threads`, `mapped_bytes`, `iterations`, \
                    `warmup`, `bytes_per_iteration`, `peak_bytes`, `total_blocks` and `ignore`";

fn lines(input: ParseStream) -> Result<String> {
    let mut lines = String::new();
    let mut seen = Vec::<Ident>::new();
    let mut errors = None::<Error>;
    while !input.is_empty() {
        let key = input
            .parse::<Ident>()
            .map_err(|error| Error::new(error.span(), "expected an argument such as `bytes = 0`"))?;
        let no_value = || Error::new(key.span(), format!("`{key}` needs a value: `{key} = ...`"));
        if !input.peek(Token![=]) || input.peek2(Token![,]) {
            return Err(no_value());
        }
        input.parse::<Token![=]>()?;
        if input.is_empty() {
            return Err(no_value());
        }
        let value = value(&key, &input.parse::<Expr>()?);
        let value = if seen.contains(&key) {
            Err(Error::new(key.span(), format!("`{key}` is given twice")))
        } else {
            value
        };
        match value {
            Ok(value) => lines.push_str(&format!("{key}={value}\n")),
            Err(error) => match &mut errors {
                None => errors = Some(error),
                Some(errors) => errors.combine(error),
            },
        }
        seen.push(key);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    errors.map_or_else(|| goes_together(&seen, lines), Err)
}

/// What is said of iterations needs to be how many there are, and some of them have to be judged.
fn goes_together(keys: &[Ident], lines: String) -> Result<String> {
    let key = |name: &str| keys.iter().find(|key| *key == name);
    let number = |name: &str| {
        let of = |line: &str| line.split_once('=').filter(|(key, _)| *key == name)?.1.parse::<u64>().ok();
        lines.lines().find_map(of)
    };
    if let (None, Some(alone)) = (key("iterations"), key("warmup").or(key("bytes_per_iteration"))) {
        let message = format!("`{alone}` needs `iterations`: how often the body is run");
        return Err(Error::new(alone.span(), message));
    }
    match (key("warmup"), number("warmup"), number("iterations")) {
        (Some(key), Some(warmup), Some(iterations)) if warmup >= iterations => Err(Error::new(
            key.span(),
            format!("`warmup` leaves none of {iterations} iterations to be judged"),
        )),
        _ => Ok(lines),
    }
}

/// The value as the record has it.
fn value(key: &Ident, value: &Expr) -> Result<String> {
    match key.to_string().as_str() {
        "bytes"
        | "reachable_bytes"
        | "outstanding_bytes"
        | "kernel_bytes"
        | "mapped_bytes"
        | "bytes_per_iteration"
        | "peak_bytes" => bytes(key, value).map(|bytes| bytes.to_string()),
        "blocks" | "reachable_blocks" | "total_blocks" => {
            number(key, value, "blocks").map(|blocks| blocks.to_string())
        }
        "fds" => number(key, value, "descriptors").map(|descriptors| descriptors.to_string()),
        "ipc" => number(key, value, "objects").map(|objects| objects.to_string()),
        "children" => number(key, value, "child processes").map(|children| children.to_string()),
        "threads" => number(key, value, "threads").map(|threads| threads.to_string()),
        "iterations" => match number(key, value, "iterations")? {
            iterations @ 2..=MOST_ITERATIONS => Ok(iterations.to_string()),
            _ => Err(Error::new_spanned(
                value,
                format!("`iterations` is a number from 2 to {MOST_ITERATIONS}"),
            )),
        },
        "warmup" => number(key, value, "iterations").map(|iterations| iterations.to_string()),
        "ignore" => reason(value),
        _ => Err(Error::new(key.span(), format!("unknown argument `{key}`; {KEYS}"))),
    }
}

fn bytes(key: &Ident, value: &Expr) -> Result<u64> {
    match literal(value)? {
        Some(Lit::Int(number)) => integer(number),
        Some(Lit::Str(text)) => {
            let value = text.value();
            parse_size(&value).map_err(|error| Error::new(text.span(), no_size(&value, error)))
        }
        _ => Err(Error::new_spanned(value, format!("`{key}` is a whole number or a size such as \"4 KiB\""))),
    }
}

fn no_size(text: &str, error: SizeError<'_>) -> String {
    match error {
        SizeError::NoSize => {
            format!("`{}` is no size; write a whole number and a unit, such as \"4 KiB\"", text.trim())
        }
        SizeError::UnknownUnit(unit) => format!("unknown unit `{unit}`; use B, kB, KiB, MB, MiB, GB or GiB"),
        SizeError::TooLarge => {
            format!("`{}` is more than the {} bytes that fit in 64 bits", text.trim(), u64::MAX)
        }
    }
}

fn number(key: &Ident, value: &Expr, of: &str) -> Result<u64> {
    match literal(value)? {
        Some(Lit::Int(number)) => integer(number),
        _ => Err(Error::new_spanned(value, format!("`{key}` is a whole number of {of}"))),
    }
}

fn reason(value: &Expr) -> Result<String> {
    let Some(Lit::Str(text)) = literal(value)? else {
        return Err(Error::new_spanned(value, "`ignore` is a string that says why"));
    };
    let reason = text.value();
    if reason.trim().is_empty() {
        return Err(Error::new(text.span(), "`ignore` needs a reason"));
    }
    // The record has a line an argument.
    if reason.contains('\n') {
        return Err(Error::new(text.span(), "the reason must be a single line"));
    }
    Ok(reason)
}

/// The literal in `value`, also when it came through a macro's `$limit:expr`.
fn literal(value: &Expr) -> Result<Option<&Lit>> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Ok(Some(lit)),
        Expr::Group(group) => literal(&group.expr),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Err(Error::new_spanned(value, "a limit cannot be negative"))
        }
        _ => Ok(None),
    }
}

fn integer(number: &LitInt) -> Result<u64> {
    if !number.suffix().is_empty() {
        let message =
            format!("a limit has no suffix; a size is a string such as \"4 KiB\" (found `{number}`)");
        return Err(Error::new(number.span(), message));
    }
    number.base10_parse().map_err(|_| Error::new(number.span(), "a limit must fit in 64 bits"))
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::parse;

    #[test]
    fn values_become_plain_numbers_in_the_order_written() {
        let arguments = quote! {
            outstanding_bytes = "1 MiB", bytes = 4_096, blocks = 0x10, reachable_bytes = "2 kB",
            reachable_blocks = 3, fds = 4, ipc = 5, children = 6, threads = 7, kernel_bytes = "1 KiB", mapped_bytes = "8 KiB",
            peak_bytes = "1 GiB", total_blocks = 8, ignore = "a = b, later",
        };
        assert_eq!(
            parse(arguments).unwrap(),
            "outstanding_bytes=1048576\nbytes=4096\nblocks=16\nreachable_bytes=2000\nreachable_blocks=3\nfds=4\nipc=5\nchildren=6\nthreads=7\nkernel_bytes=1024\nmapped_bytes=8192\npeak_bytes=1073741824\ntotal_blocks=8\nignore=a = b, later\n"
        );
    }

    #[test]
    fn every_wrong_argument_is_reported() {
        let error = parse(quote!(bytes = -1, bites = 0, blocks = "4 KiB", blocks = 1)).unwrap_err();
        let messages = error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>();
        assert_eq!(messages[0], "a limit cannot be negative");
        assert!(messages[1].starts_with("unknown argument `bites`"), "{}", messages[1]);
        assert_eq!(messages[2..], ["`blocks` is a whole number of blocks", "`blocks` is given twice"]);
    }

    #[test]
    fn iterations_are_said_and_some_are_judged() {
        let lines = "iterations=20\nwarmup=3\nbytes_per_iteration=1024\n";
        let given = quote!(iterations = 20, warmup = 3, bytes_per_iteration = "1 KiB");
        assert_eq!(parse(given).unwrap(), lines);
        for (given, message) in [
            (quote!(warmup = 3), "`warmup` needs `iterations`: how often the body is run"),
            (
                quote!(bytes_per_iteration = 0, bytes = 0),
                "`bytes_per_iteration` needs `iterations`: how often the body is run",
            ),
            (quote!(iterations = 3, warmup = 3), "`warmup` leaves none of 3 iterations to be judged"),
            (quote!(iterations = 1), "`iterations` is a number from 2 to 1000"),
            (quote!(iterations = 1001), "`iterations` is a number from 2 to 1000"),
        ] {
            assert_eq!(parse(given).unwrap_err().to_string(), message);
        }
    }
}
