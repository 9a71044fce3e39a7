use super::*;

const ROWS: [Row; 4] = [
    Row { start: 0x1010, cfa_offset: 1, kind: kind::RSP, rbp_at: 0 },
    Row { start: 0x1011, cfa_offset: 2, kind: kind::RSP, rbp_at: -2 },
    Row { start: 0x1014, cfa_offset: 2, kind: kind::RBP, rbp_at: -2 },
    Row { start: 0x1320, cfa_offset: 0, kind: kind::NONE, rbp_at: 0 },
];

/// `push rbp; mov rbp,rsp` at the start of a function of 0x310 bytes, by the layout as it is documented.
fn file() -> [u8; 104] {
    let mut file = [0; 104];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"LKUNWIND");
    put(8, &[1, 0, 0, 0, 1]);
    put(16, &[104]);
    put(24, &0x1122_3344_5566_7788_u64.to_le_bytes());
    put(32, &[56]);
    put(40, &[88]);
    put(48, &[4, 0, 0, 0, 4]);
    put(56, &[0x10, 0x10, 0, 0, 1, 0, 3, 0]);
    put(64, &[0x11, 0x10, 0, 0, 2, 0, 3, 0xfe]);
    put(72, &[0x14, 0x10, 0, 0, 2, 0, 4, 0xfe]);
    put(80, &[0x20, 0x13]);
    // Blocks 0x1000, 0x1100, 0x1200, 0x1300.
    put(88, &[3, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 4]);
    file
}

const KEY: u64 = 0x1122_3344_5566_7788;

#[test]
fn each_address_has_the_last_row_that_starts_before_it() {
    let file = file();
    let table = Table::new(&file).unwrap();
    assert!(table.module(KEY + 1).is_none());
    let rows = table.module(KEY).unwrap();
    assert!(rows.iter().eq(ROWS));
    for address in 0..0x2000 {
        let expected = ROWS.iter().rev().find(|row| u64::from(row.start) <= address);
        assert_eq!(rows.find(address).as_ref(), expected, "{address:#x}");
    }
    assert_eq!(rows.find(0x1_0000_1010), None);
}

#[test]
fn a_call_is_followed_from_each_instruction_of_the_prologue() {
    // The stack from 0x100 up: local, saved rbp, return address.
    let stack = |address: u64| [7, 0x900, 0x4000].get((address.checked_sub(0x100)? / 8) as usize).copied();
    let caller = |row: Row, sp, fp| row.caller(Frame { sp, fp }, stack);
    let outer = Some((0x4000, Frame { sp: 0x118, fp: 0x900 }));
    assert_eq!(caller(ROWS[0], 0x110, 0x900), outer);
    assert_eq!(caller(ROWS[1], 0x108, 0x900), outer);
    assert_eq!(caller(ROWS[2], 0x100, 0x108), outer);
    assert_eq!(caller(ROWS[3], 0x100, 0x108), None);
}

#[test]
fn a_broken_chain_ends() {
    let caller = |row: Row, sp, fp, word| row.caller(Frame { sp, fp }, |_| word);
    assert!(caller(ROWS[2], 0x100, 0xf8, Some(1)).is_some());
    // The caller's frame would not be above the callee's.
    assert_eq!(caller(ROWS[2], 0x100, 0xf0, Some(1)), None);
    assert_eq!(caller(ROWS[2], 0x100, u64::MAX, Some(1)), None);
    assert_eq!(caller(ROWS[0], u64::MAX, 0, Some(1)), None);
    assert_eq!(caller(ROWS[0], 0x100, 0, None), None);
    // What starts a thread may return to nowhere.
    assert_eq!(caller(ROWS[0], 0x100, 0, Some(0)), None);
}

#[test]
fn files_that_are_not_whole_are_refused() {
    let whole = file();
    for length in 0..whole.len() {
        assert!(Table::new(&whole[..length]).is_none(), "{length} bytes");
    }
    // Magic, version, number of modules and length.
    for at in [0, 7, 8, 12, 16, 23] {
        let mut file = whole;
        file[at] ^= 0xff;
        assert!(Table::new(&file).is_none(), "byte {at}");
    }
    // Where rows and index are and how many: they would be out of bounds.
    for at in [32, 39, 40, 47, 48, 51, 52, 55] {
        let mut file = whole;
        file[at] ^= 0xff;
        assert!(Table::new(&file).unwrap().module(KEY).is_none(), "byte {at}");
    }
}

#[test]
fn nonsense_does_no_harm() {
    let whole = file();
    for at in 24..whole.len() {
        for bit in 0..8 {
            let mut file = whole;
            file[at] ^= 1 << bit;
            let Some(rows) = Table::new(&file).unwrap().module(KEY) else { continue };
            for address in (0..0x3000).step_by(7).chain([u64::MAX]) {
                let _ = step(&rows, address, Frame { sp: 8, fp: 64 }, Some);
            }
        }
    }
}
