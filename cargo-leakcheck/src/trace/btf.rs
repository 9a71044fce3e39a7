//! What the kernel says of its own types (BTF, Documentation/bpf/btf.rst), as far as it is needed: the
//! numbers of functions, and what tracepoints are called with. aya-obj keeps the latter to itself.

/// Kinds of types (include/uapi/linux/btf.h, `BTF_KIND_…`).
mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const TYPEDEF: u32 = 8;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const DECL_TAG: u32 = 17;
    pub const ENUM64: u32 = 19;
    pub const LAST: u32 = ENUM64;
}

/// The type of a parameter, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// An integer.
    Integer,
    /// A pointer.
    Pointer,
    /// Something else.
    Other,
}

/// Where the kernel has its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Reads what [`Btf::parse`] takes.
///
/// # Errors
/// Why it cannot be read.
pub fn read() -> Result<Vec<u8>, String> {
    std::fs::read(TYPES).map_err(|error| format!("{TYPES} cannot be read: {error}"))
}

/// The types, by their numbers less 1.
pub struct Btf<'a> {
    types: Vec<Type<'a>>,
    strings: &'a [u8],
}

#[derive(Clone, Copy)]
struct Type<'a> {
    kind: u32,
    name: u32,
    /// The type that it refers to, if its kind does.
    of: u32,
    /// What follows: members, parameters.
    rest: &'a [u8],
}

impl<'a> Btf<'a> {
    /// Finds the types in what `/sys/kernel/btf/vmlinux` holds; none where that is something else.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        const MAGIC: u32 = 0xeb9f;
        let header = bytes.get(..24)?;
        let [magic, length, types_at, types_length, strings_at, strings_length] =
            std::array::from_fn(|place| word(header, place).unwrap_or(0));
        if magic & 0xffff != MAGIC {
            return None;
        }
        let body = bytes.get(length as usize..)?;
        let part = |at: u32, length: u32| body.get(at as usize..)?.get(..length as usize);
        let (mut rest, strings) = (part(types_at, types_length)?, part(strings_at, strings_length)?);
        let mut types = Vec::new();
        while !rest.is_empty() {
            let (name, info, of) = (word(rest, 0)?, word(rest, 1)?, word(rest, 2)?);
            let (kind, count) = (info >> 24 & 0x1f, info as usize & 0xffff);
            let length = match kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => count * 12,
                kind::ENUM | kind::FUNC_PROTO => count * 8,
                1..=kind::LAST => 0,
                // How long it is is not known, nor where the next one is.
                _ => return None,
            };
            types.push(Type { kind, name, of, rest: rest.get(12..12 + length)? });
            rest = &rest[12 + length..];
        }
        Some(Self { types, strings })
    }

    /// The number of a function.
    pub fn function(&self, name: &str) -> Option<u32> {
        let place = self.find(kind::FUNC, name)?;
        u32::try_from(place + 1).ok()
    }

    /// What a tracepoint is called with.
    pub fn tracepoint(&self, name: &str) -> Option<Vec<Parameter>> {
        let pointer = self.types[self.find(kind::TYPEDEF, &format!("btf_trace_{name}"))?].of;
        let function = self.get(self.get(pointer).filter(|pointer| pointer.kind == kind::PTR)?.of)?;
        let parameters = (function.kind == kind::FUNC_PROTO).then_some(function.rest.chunks_exact(8))?;
        // The first is what the tracepoint's own user has given.
        Some(parameters.skip(1).map(|parameter| self.parameter(word(parameter, 1).unwrap_or(0))).collect())
    }

    /// Where a structure has a member, in bytes. `members` leads there through structures within each other.
    pub fn member(&self, structure: &str, members: &[&str]) -> Option<u32> {
        let mut within = self.get(self.find(kind::STRUCT, structure)? as u32 + 1)?;
        let mut bits = 0;
        for name in members {
            let (of, at) = self.member_of(within, name)?;
            bits += at;
            within = self.get(self.plain(of))?;
        }
        (bits % 8 == 0).then_some(bits / 8)
    }

    /// The type of a member, and where it is, in bits. Members without names lend theirs.
    fn member_of(&self, within: &Type<'a>, name: &str) -> Option<(u32, u32)> {
        if !matches!(within.kind, kind::STRUCT | kind::UNION) {
            return None;
        }
        within.rest.chunks_exact(12).find_map(|member| {
            let (called, of, at) = (word(member, 0)?, word(member, 1)?, word(member, 2)?);
            // Of bit fields the size is in the upper byte.
            let at = at & 0xff_ffff;
            if called == 0 {
                let (of, inner) = self.member_of(self.get(self.plain(of))?, name)?;
                return Some((of, at + inner));
            }
            self.is_called(called, name).then_some((of, at))
        })
    }

    /// The size of a structure in bytes.
    pub fn size(&self, structure: &str) -> Option<u32> {
        Some(self.types[self.find(kind::STRUCT, structure)?].of)
    }

    /// The type behind qualifiers and names of types.
    fn plain(&self, mut number: u32) -> u32 {
        while let Some(of) = self.get(number).filter(|of| (kind::TYPEDEF..kind::FUNC).contains(&of.kind)) {
            number = of.of;
        }
        number
    }

    fn parameter(&self, number: u32) -> Parameter {
        match self.get(self.plain(number)).map(|of| of.kind) {
            Some(kind::INT) => Parameter::Integer,
            Some(kind::PTR) => Parameter::Pointer,
            _ => Parameter::Other,
        }
    }

    fn get(&self, number: u32) -> Option<&Type<'a>> {
        self.types.get(number.checked_sub(1)? as usize)
    }

    fn find(&self, kind: u32, name: &str) -> Option<usize> {
        self.types.iter().position(|of| of.kind == kind && self.is_called(of.name, name))
    }

    fn is_called(&self, at: u32, name: &str) -> bool {
        let rest = self.strings.get(at as usize..).and_then(|text| text.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// The word at a place, counted in words.
fn word(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(place * 4..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `typedef void (*btf_trace_x)(void *, unsigned long, const void *, struct s);` and `void f(void)`,
    /// encoded by hand after the document.
    fn example() -> Vec<u8> {
        let strings = b"\0btf_trace_x\0f\0f_more\0";
        let info = |kind: u32, count: u32| kind << 24 | count;
        let types: Vec<u32> = [
            &[0, info(kind::INT, 0), 8, 64][..],     // 1: unsigned long
            &[0, info(kind::PTR, 0), 0],             // 2: void *
            &[0, info(10, 0), 0],                    // 3: const void
            &[0, info(kind::PTR, 0), 3],             // 4: const void *
            &[0, info(kind::STRUCT, 1), 8, 0, 1, 0], // 5: struct s
            &[0, info(kind::FUNC_PROTO, 4), 0, 0, 2, 0, 1, 0, 4, 0, 5], // 6
            &[0, info(kind::PTR, 0), 6],             // 7
            &[1, info(kind::TYPEDEF, 0), 7],         // 8
            &[15, info(kind::FUNC, 0), 6],           // 9: f_more
            &[13, info(kind::FUNC, 0), 6],           // 10: f
        ]
        .concat();
        let length = types.len() as u32 * 4;
        let header = [1 << 16 | 0xeb9f, 24, 0, length, length, strings.len() as u32];
        let words = header.iter().chain(&types).flat_map(|word| word.to_le_bytes());
        words.chain(strings.iter().copied()).collect()
    }

    #[test]
    fn functions_and_tracepoints_are_found_by_their_whole_names() {
        let bytes = example();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.function("f"), Some(10));
        assert_eq!(btf.function("f_more"), Some(9));
        assert_eq!(btf.function("btf_trace_x"), None);
        let wanted = [Parameter::Integer, Parameter::Pointer, Parameter::Other];
        assert_eq!(btf.tracepoint("x").as_deref(), Some(&wanted[..]));
        assert_eq!(btf.tracepoint("y"), None);
    }

    /// `struct a { char c; struct { union { struct b { int x; int y; } const b; }; }; };`
    #[test]
    fn members_are_found_through_others() {
        let strings = b"\0a\0b\0c\0x\0y\0";
        let info = |kind: u32, count: u32| kind << 24 | count;
        let types: Vec<u32> = [
            &[0, info(kind::INT, 0), 4, 32][..],                // 1: int
            &[3, info(kind::STRUCT, 2), 8, 7, 1, 0, 9, 1, 32],  // 2: struct b
            &[0, info(10, 0), 2],                               // 3: const struct b
            &[0, info(kind::UNION, 1), 8, 3, 3, 0],             // 4
            &[0, info(kind::STRUCT, 1), 8, 0, 4, 0],            // 5
            &[1, info(kind::STRUCT, 2), 12, 5, 1, 0, 0, 5, 32], // 6: struct a
        ]
        .concat();
        let length = types.len() as u32 * 4;
        let header = [1 << 16 | 0xeb9f, 24, 0, length, length, strings.len() as u32];
        let words = header.iter().chain(&types).flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = words.chain(strings.iter().copied()).collect();
        let btf = Btf::parse(&bytes).unwrap();
        assert_eq!(btf.member("a", &["c"]), Some(0));
        assert_eq!(btf.member("a", &["b"]), Some(4));
        assert_eq!(btf.member("a", &["b", "y"]), Some(8));
        assert_eq!(btf.member("a", &["y"]), None);
        assert_eq!(btf.member("a", &["c", "y"]), None);
        assert_eq!(btf.size("a"), Some(12));
    }

    #[test]
    fn damage_is_no_types() {
        let bytes = example();
        assert!((0..bytes.len()).all(|end| Btf::parse(&bytes[..end]).is_none()));
        let mut unknown = bytes.clone();
        unknown[24 + 7] = 20;
        assert!(Btf::parse(&unknown).is_none());
    }
}
