//! The initial stack of a program (System V ABI), as its template has it, and what it is to be for a process that is forked
//! from there.

use std::ffi::CString;

use crate::trace::variables::Variables;

const AT_RANDOM: u64 = 25;

/// A place in memory, and what is written there.
pub type Write = (u64, Vec<u8>);

/// What there is on it.
pub struct Initial {
    /// Where the pointers to arguments are.
    pointers: u64,
    /// Arguments and variables, with their addresses, each with the zero behind it.
    arguments: Vec<Write>,
    variables: Vec<Write>,
    /// Where the kernel has put 16 random bytes.
    pub random: u64,
}

/// A stack for other arguments and variables.
pub struct Changed {
    /// What is to be written.
    pub writes: Vec<Write>,
    /// Where the arguments end.
    pub end: u64,
}

impl Initial {
    /// Reads it: `bytes` are what is from the stack pointer on.
    pub fn parse(stack: u64, bytes: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let bytes = bytes.get(index.checked_mul(8)?..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        let text = |pointer: u64| {
            let text = bytes.get(usize::try_from(pointer.checked_sub(stack)?).ok()?..)?;
            let end = text.iter().position(|byte| *byte == 0)?;
            Some((pointer, text[..=end].to_vec()))
        };
        let texts = |from: usize| {
            let pointers = (from..).map_while(|index| word(index).filter(|pointer| *pointer != 0));
            pointers.map(text).collect::<Option<Vec<_>>>()
        };
        let arguments = texts(1)?;
        let variables = texts(arguments.len() + 2)?;
        let mut index = arguments.len() + variables.len() + 3;
        let random = loop {
            match word(index)? {
                0 => return None,
                AT_RANDOM => break word(index + 1)?,
                _ => index += 2,
            }
        };
        let is_whole = word(0)? == arguments.len() as u64 && !arguments.is_empty();
        // The kernel puts them one behind the other.
        let follow = arguments.windows(2).all(|pair| pair[0].0 + pair[0].1.len() as u64 == pair[1].0);
        (is_whole && follow).then_some(Self { pointers: stack + 8, arguments, variables, random })
    }

    /// The stack for these arguments and variables; none where they do not fit in.
    pub fn change(&self, arguments: &[CString], variables: &Variables) -> Option<Changed> {
        if arguments.len() != self.arguments.len() || variables.iter().count() != self.variables.len() {
            return None;
        }
        let start = self.arguments.first()?.0;
        let room: usize = self.arguments.iter().map(|(_, text)| text.len()).sum();
        let (mut pointers, mut texts) = (Vec::new(), Vec::new());
        for argument in arguments {
            pointers.extend((start + texts.len() as u64).to_ne_bytes());
            texts.extend_from_slice(argument.as_bytes_with_nul());
        }
        let end = start + texts.len() as u64;
        if texts.len() > room {
            return None;
        }
        texts.resize(room, 0);
        let mut writes = vec![(self.pointers, pointers), (start, texts)];
        for ((place, before), variable) in self.variables.iter().zip(variables.iter()) {
            let variable = variable.to_bytes_with_nul();
            if variable.len() != before.len() {
                return None;
            }
            if variable != before {
                writes.push((*place, variable.to_vec()));
            }
        }
        Some(Changed { writes, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: u64 = 0x7ffc_0000_1000;

    fn strings(texts: &[&str]) -> Vec<CString> {
        texts.iter().map(|text| CString::new(*text).unwrap()).collect()
    }

    fn variables(texts: &[&str]) -> Variables {
        Variables::new(strings(texts).into(), None)
    }

    /// As the kernel makes it: count, arguments, 0, variables, 0, the auxiliary vector, and then the texts.
    fn stack(arguments: &[&str], variables: &[&str]) -> Vec<u8> {
        let words = arguments.len() + variables.len() + 7;
        let mut texts = Vec::new();
        let mut place = |text: &&str| {
            let place = STACK + (words * 8 + texts.len()) as u64;
            texts.extend(text.bytes().chain([0]));
            place
        };
        let mut all = vec![arguments.len() as u64];
        all.extend(arguments.iter().map(&mut place));
        all.push(0);
        all.extend(variables.iter().map(&mut place));
        all.extend([0, AT_RANDOM, 0xabc, 0, 0]);
        assert_eq!(all.len(), words);
        all.into_iter().flat_map(u64::to_ne_bytes).chain(texts).collect()
    }

    /// What a program finds: its arguments, by the pointers to them.
    fn read(bytes: &[u8], place: u64) -> String {
        let text = &bytes[(place - STACK) as usize..];
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(text[..end].to_vec()).unwrap()
    }

    #[test]
    fn others_are_found_where_those_of_the_template_were() {
        let mut bytes = stack(&["/bin/t", "--exact", "xxxxxxxx"], &["A=1", "TMPDIR=/t0", "B="]);
        let initial = Initial::parse(STACK, &bytes).unwrap();
        assert_eq!(initial.random, 0xabc);
        let arguments = strings(&["/bin/t", "--exact", "a::b"]);
        let changed = initial.change(&arguments, &variables(&["A=1", "TMPDIR=/t7", "B="])).unwrap();
        for (place, written) in &changed.writes {
            bytes[(place - STACK) as usize..][..written.len()].copy_from_slice(written);
        }
        let pointer = |index: usize| u64::from_ne_bytes(bytes[index * 8..][..8].try_into().unwrap());
        let found: Vec<_> = (1..4).map(|index| read(&bytes, pointer(index))).collect();
        assert_eq!(found, ["/bin/t", "--exact", "a::b"]);
        let found: Vec<_> = (5..8).map(|index| read(&bytes, pointer(index))).collect();
        assert_eq!(found, ["A=1", "TMPDIR=/t7", "B="]);
        // `/proc/self/cmdline` is from the first argument to there.
        assert_eq!(changed.end, pointer(1) + "/bin/t-exact---a::b-".len() as u64);
    }

    #[test]
    fn what_does_not_fit_is_not_forked() {
        let bytes = stack(&["/bin/t", "xxx"], &["A=1"]);
        let initial = Initial::parse(STACK, &bytes).unwrap();
        let fits = |arguments: &[&str], theirs: &[&str]| {
            initial.change(&strings(arguments), &variables(theirs)).is_some()
        };
        assert!(fits(&["/bin/t", "abc"], &["A=2"]));
        assert!(!fits(&["/bin/t", "abcd"], &["A=1"]));
        assert!(!fits(&["/bin/t", "a", ""], &["A=1"]));
        assert!(!fits(&["/bin/t", "abc"], &["A=12"]));
        assert!(!fits(&["/bin/t", "abc"], &["A=1", "B="]));
    }

    #[test]
    fn nothing_is_believed_of_what_cannot_be_read() {
        let bytes = stack(&["/bin/t"], &["A=1"]);
        for length in 0..bytes.len() {
            assert!(Initial::parse(STACK, &bytes[..length]).is_none(), "{length}");
        }
        assert!(Initial::parse(STACK, &[0; 64]).is_none());
    }
}
