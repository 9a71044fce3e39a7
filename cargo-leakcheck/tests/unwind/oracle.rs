//! Every address of real files: what the rows make of a frame, and what gimli's rules say when they are
//! followed to the letter.

use std::process::Command;

use cargo_leakcheck::trace::unwind;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, RegisterRule, UnwindContext,
    UnwindSection as _, UnwindTableRow, X86_64,
};
use leakcheck_preload::unwind::{Frame, Table, kind, step};
use object::{Object as _, ObjectSection as _};

/// Far from each other, so that a frame found by the wrong one shows.
const FRAME: Frame = Frame { sp: 0x7000_0000_0000, fp: 0x7000_1000_0000 };

/// A stack with another word in each place.
fn stack(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// The caller by the rules; none where they need more than the stack, `rsp` and `rbp`.
fn by_rules(row: &UnwindTableRow<usize>) -> Option<(u64, Frame)> {
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
    let base = match register.0 {
        6 => FRAME.fp,
        7 => FRAME.sp,
        _ => return None,
    };
    let cfa = base.wrapping_add_signed(offset);
    let saved = |register| match row.register(register) {
        None | Some(RegisterRule::SameValue) => Some(None),
        Some(RegisterRule::Offset(offset)) => Some(Some(stack(cfa.wrapping_add_signed(offset)))),
        Some(_) => None,
    };
    Some((saved(X86_64::RA)??, Frame { sp: cfa, fp: saved(X86_64::RBP)?.unwrap_or(FRAME.fp) }))
}

/// Compares all addresses of the functions in a file; how many, and at how many of them a caller is known.
fn compare(path: &str) -> (u64, u64) {
    let data = std::fs::read(path).unwrap();
    let file = unwind::table(&[(1, unwind::rows(&data, path.into()).unwrap())]);
    let rows = Table::new(&file).unwrap().module(1).unwrap();

    let elf = object::File::parse(data.as_slice()).unwrap();
    let section = elf.section_by_name(".eh_frame").unwrap();
    let frames = EhFrame::from(EndianSlice::new(section.data().unwrap(), LittleEndian));
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let (mut entries, mut context) = (frames.entries(&bases), UnwindContext::new());
    let (mut addresses, mut known, mut functions) = (0, 0, Vec::new());
    while let Some(entry) = entries.next().unwrap() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).unwrap();
        functions.push(fde.initial_address()..fde.end_address());
        let mut table = fde.rows(&frames, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            let expected = if fde.is_signal_trampoline() { None } else { by_rules(row) };
            for address in row.start_address()..row.end_address() {
                let found = step(&rows, address, FRAME, |address| Some(stack(address)));
                assert_eq!(found, expected, "{path} at {address:#x}");
                addresses += 1;
                known += u64::from(expected.is_some());
            }
        }
    }

    // What is between functions, and before and after all of them, is nobody's.
    functions.sort_by_key(|function| function.start);
    for two in functions.windows(2) {
        for address in two[0].end..two[1].start {
            assert_eq!(rows.find(address).unwrap().kind, kind::NONE, "{path} at {address:#x}");
        }
    }
    assert_eq!(rows.find(functions[0].start - 1), None);
    for address in [functions.last().unwrap().end, u64::from(u32::MAX)] {
        assert_eq!(rows.find(address).unwrap().kind, kind::NONE);
    }
    assert_eq!(rows.find(functions[0].start + (1 << 32)), None);
    (addresses, known)
}

fn library(name: &str) -> String {
    let output = Command::new("cc").arg(format!("-print-file-name={name}")).output();
    let path = String::from_utf8(output.expect("needs a C compiler").stdout).unwrap();
    assert!(path.starts_with('/'), "no {name}: needs a C and a C++ compiler");
    path.trim().to_owned()
}

#[test]
fn rows_say_what_the_rules_say_at_every_address() {
    for name in ["libc.so.6", "libstdc++.so.6"] {
        let (addresses, known) = compare(&library(name));
        // All but the procedure linkage tables, which are an entry for each imported function.
        assert!(addresses > 500_000 && known > addresses / 100 * 98, "{name}: {known} of {addresses}");
    }
}
