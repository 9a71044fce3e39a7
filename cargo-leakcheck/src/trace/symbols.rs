//! Names of the kernel's functions, by `/proc/kallsyms`.

use std::io::{self, BufRead, BufReader};

/// Where the kernel's functions are.
pub const SYMBOLS: &str = "/proc/kallsyms";

/// Lines `ADDRESS TYPE NAME`, behind which a module may be named, sorted by address but for modules. Making them takes the
/// kernel some tens of milliseconds.
///
/// # Errors
/// They cannot be read.
pub fn lines() -> io::Result<impl BufRead> {
    Ok(BufReader::with_capacity(1 << 16, std::fs::File::open(SYMBOLS)?))
}

/// Functions by where they start.
#[derive(Debug, Default)]
pub struct Symbols(Vec<(u64, Box<str>)>);

impl Symbols {
    /// Reads them; none where they cannot be read.
    pub fn read() -> Self {
        lines().map(Self::parse).unwrap_or_default()
    }

    fn parse(lines: impl BufRead) -> Self {
        let function = |line: Vec<u8>| {
            let line = String::from_utf8(line).ok()?;
            let mut fields = line.split_ascii_whitespace();
            let (address, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
            let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
            // Padding in front of a function is no function.
            let is_function = matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with("__pfx_");
            is_function.then(|| (address, name.into()))
        };
        let mut functions: Vec<_> = lines.split(b'\n').map_while(Result::ok).filter_map(function).collect();
        functions.sort_by_key(|(address, _)| *address);
        Self(functions)
    }

    /// The function that a return address is in.
    pub fn function(&self, return_address: u64) -> Option<&str> {
        // A call may be the last instruction of its function.
        let behind = self.0.partition_point(|(start, _)| *start < return_address);
        Some(&self.0[behind.checked_sub(1)?].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_address_is_in_the_function_that_called() {
        let lines = b"0000000000000300 t h\t[module]\n0000000000000100 T f\n0000000000000200 W g\n\
            0000000000000180 d data\n00000000000001f0 t __pfx_g\n";
        let symbols = Symbols::parse(&lines[..]);
        let at = |address| symbols.function(address);
        assert_eq!(
            [0x100, 0x101, 0x1ff, 0x200, 0x201, 0x999].map(at),
            [
                None,
                Some("f"),
                Some("f"),
                // `f` ends with a call that does not come back.
                Some("f"),
                Some("g"),
                Some("h")
            ]
        );
        // Who may not know addresses is shown zeros.
        assert_eq!(Symbols::parse(&b"0000000000000000 T f\n"[..]).function(0x100), None);
    }
}
