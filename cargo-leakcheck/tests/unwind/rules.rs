//! What the assembler's directives for frames become.

use std::process::Command;

use cargo_leakcheck::trace::unwind;
use leakcheck_preload::unwind::{Row, kind};
use object::{Object as _, ObjectSection as _};

/// The rows of a library with this code, their starts counted from the start of the code.
fn rows(assembly: &str) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("code.s"), folder.path().join("code.so"));
    std::fs::write(&source, format!(".text\n{assembly}")).unwrap();
    // No procedure linkage, no start files: all frames are the source's. The linker's own table would
    // have it look for mistakes.
    let status = Command::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,--no-eh-frame-hdr", "-o"])
        .args([&library, &source])
        .status();
    assert!(status.expect("needs a C compiler").success());
    let data = std::fs::read(library).unwrap();
    let text = object::File::parse(data.as_slice()).unwrap().section_by_name(".text").unwrap().address();
    let mut rows = unwind::rows(&data, "code.so".into()).unwrap();
    for row in &mut rows {
        row.start -= text as u32;
    }
    rows
}

const UNKNOWN: (u8, u16, i8) = (kind::UNKNOWN, 0, 0);

#[test]
fn what_a_row_can_hold_it_holds_and_anything_else_is_unknown() {
    // Register 3 is rbx, 6 rbp, 7 rsp, 16 the return address. A function starts with CFA = rsp + 8.
    let cases = [
        (".cfi_def_cfa_offset 16", (kind::RSP, 2, 0)),
        (".cfi_def_cfa 6, 16\n.cfi_offset 6, -16", (kind::RBP, 2, -2)),
        (".cfi_offset 6, -16\n.cfi_restore 6", (kind::RSP, 1, 0)),
        (".cfi_offset 6, -16\n.cfi_same_value 6", (kind::RSP, 1, 0)),
        (".cfi_offset 3, -16", (kind::RSP, 1, 0)),
        (".cfi_def_cfa_register 3", UNKNOWN),
        // DW_CFA_def_cfa_expression: DW_OP_breg7 (rsp) 8
        (".cfi_escape 0x0f, 2, 0x77, 8", UNKNOWN),
        // The largest offsets that there is room for, and the next.
        (".cfi_def_cfa_offset 524280", (kind::RSP, 65535, 0)),
        (".cfi_def_cfa_offset 524288", UNKNOWN),
        (".cfi_def_cfa_offset 12", UNKNOWN),
        (".cfi_offset 6, -1024", (kind::RSP, 1, -128)),
        (".cfi_offset 6, -1032", UNKNOWN),
        (".cfi_offset 6, 0", UNKNOWN),
        (".cfi_register 6, 3", UNKNOWN),
        (".cfi_undefined 6", UNKNOWN),
        // DW_CFA_val_expression of rbp: DW_OP_breg7 (rsp) 8
        (".cfi_escape 0x16, 6, 2, 0x77, 8", UNKNOWN),
        (".cfi_undefined 16", (kind::OUTERMOST, 0, 0)),
        (".cfi_offset 16, -16", UNKNOWN),
        (".cfi_register 16, 3", UNKNOWN),
        (".cfi_signal_frame", UNKNOWN),
    ];
    let code = cases
        .map(|(directives, _)| format!(".p2align 4\n.cfi_startproc\nnop\n{directives}\nnop\n.cfi_endproc\n"));
    let rows = rows(&code.concat());
    for (number, (directives, expected)) in (0..).zip(cases) {
        let at = |address| rows.iter().rfind(|row| row.start <= address).unwrap();
        let row = at(16 * number + 1);
        assert_eq!((row.kind, row.cfa_offset, row.rbp_at), expected, "{directives}");
        assert_eq!(at(16 * number + 2).kind, kind::NONE, "{directives}");
    }
}

#[test]
fn rows_that_say_the_same_are_one() {
    let function = ".cfi_startproc\nnop\n.cfi_offset 3, -16\nnop\n.cfi_endproc\n";
    let gap = ".skip 300\n";
    let frame = Row { start: 0, cfa_offset: 1, kind: kind::RSP, rbp_at: 0 };
    let none = Row::default();
    assert_eq!(
        rows(&[function, function, gap, function].concat()),
        [frame, Row { start: 4, ..none }, Row { start: 304, ..frame }, Row { start: 306, ..none }]
    );
}

#[test]
fn an_entry_with_a_mistake_describes_what_comes_before_it() {
    // DW_CFA_remember_state twice fewer than DW_CFA_restore_state (0x0b); then another function.
    let code = ".cfi_startproc\nnop\n.cfi_def_cfa_offset 16\nnop\n.cfi_escape 0x0b\nnop\nnop\n.cfi_endproc\n\
                .cfi_startproc\nnop\n.cfi_endproc\n";
    let rows = rows(code).into_iter().map(|row| (row.start, row.kind, row.cfa_offset));
    assert!(rows.eq([
        (0, kind::RSP, 1),
        (1, kind::RSP, 2),
        (2, kind::UNKNOWN, 0),
        (4, kind::RSP, 1),
        (5, kind::NONE, 0),
    ]));
}

#[test]
fn of_functions_that_overlap_the_one_that_starts_later_counts() {
    // No assembler writes this: an entry for addresses 0 to 8, whose CFA moves at 1 and 6 (DW_CFA_advance_loc,
    // DW_CFA_def_cfa_offset), then two for 2 to 5, as of functions that were found to be the same.
    let entry = |start: u8, size: u8, program: &str| {
        format!(
            ".long 2f - 1f\n1: .long 1b - cie\n.long code + {start} - .\n.long {size}\n.byte 0, {program}\n\
             .balign 8\n2:\n"
        )
    };
    let cie = "cie: .long 2f - 1f\n1: .long 0\n.byte 1\n.string \"zR\"\n.byte 1, 0x78, 16, 1, 0x1b\n\
               .byte 0x0c, 7, 8, 0x90, 1\n.balign 8\n2:\n";
    let code = [
        "code: .skip 16, 0x90\n.section .eh_frame, \"a\", @progbits\n",
        cie,
        &entry(0, 8, "0x41, 0x0e, 16, 0x45, 0x0e, 24"),
        &entry(2, 3, "0x0e, 32"),
        &entry(2, 3, "0x0e, 32"),
    ];
    let rows = rows(&code.concat()).into_iter().map(|row| (row.start, row.kind, row.cfa_offset));
    let rows: Vec<_> = rows.collect();
    // Behind the later one nothing is known, as to the C library, which looks for the last start before an address.
    assert_eq!(rows, [(0, kind::RSP, 1), (1, kind::RSP, 2), (2, kind::RSP, 4), (5, kind::NONE, 0)]);
}

#[test]
fn files_without_frames() {
    assert_eq!(rows("nop\n"), []);
    let error = unwind::rows(b"#!/bin/sh\n", "script".into()).unwrap_err().to_string();
    assert!(error.starts_with("script: its frames cannot be read: "), "{error}");
}
