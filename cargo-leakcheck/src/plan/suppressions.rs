//! Suppressions that a test binary has for LeakSanitizer: the text that its function `__lsan_default_suppressions` returns
//! (compiler-rt, `sanitizer/lsan_interface.h`). The file is read, never run.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, Register};
use object::read::ReadCache;
use object::{File, Object as _, ObjectSection as _, ObjectSymbol as _, ReadRef};

use crate::error::{Error, Result};
use crate::model::TestBinary;

/// The function's name.
pub const FUNCTION: &str = "__lsan_default_suppressions";
/// Instructions of it that are looked at; a function that returns a text has a handful.
const MOST: usize = 16;

/// The text; none where there is no such function.
///
/// # Errors
/// The file cannot be read, or [`Error::Format`] where the function computes what it returns.
pub fn of_binary(binary: &TestBinary) -> Result<Option<String>> {
    let path = || binary.path.clone();
    let file = fs_err::File::open(&binary.path);
    let file = file.map_err(|source| Error::File { action: "open", path: path(), source })?;
    let elf = ReadCache::new(file.into_file());
    read(&elf).map_err(|reason| Error::Format { path: path(), reason })
}

fn read<'data>(elf: impl ReadRef<'data>) -> Result<Option<String>, String> {
    let Ok(file) = File::parse(elf) else { return Ok(None) };
    // Most binaries have many symbols, and not this one: its name alone is quickly looked for.
    let names = file.section_by_name(".strtab").and_then(|section| section.data().ok()).unwrap_or_default();
    if !names.windows(FUNCTION.len()).any(|name| name == FUNCTION.as_bytes()) {
        return Ok(None);
    }
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(FUNCTION) && symbol.is_definition());
    let Some(symbol) = symbol else { return Ok(None) };
    let bytes_at = |address: u64| {
        let section =
            file.sections().find(|it| (it.address()..it.address() + it.size()).contains(&address))?;
        section.data().ok()?.get((address - section.address()) as usize..)
    };
    let code = bytes_at(symbol.address()).ok_or_else(|| format!("{FUNCTION} has no code"))?;
    let text = match returned(code, symbol.address()) {
        None => return Err(format!("{FUNCTION} computes what it returns, and is not called")),
        Some(0) => return Ok(None),
        Some(address) => bytes_at(address).and_then(|bytes| bytes.split(|byte| *byte == 0).next()),
    };
    let text = text.and_then(|text| str::from_utf8(text).ok());
    text.map(|text| Some(text.to_owned())).ok_or_else(|| format!("{FUNCTION} returns no text"))
}

/// The address that a function returns whose code this is, if it does nothing else.
fn returned(code: &[u8], address: u64) -> Option<u64> {
    let mut result = None;
    for instruction in &mut Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter().take(MOST) {
        match instruction.mnemonic() {
            Mnemonic::Ret => return result,
            Mnemonic::Lea if is_result(&instruction) && instruction.is_ip_rel_memory_operand() => {
                result = Some(instruction.ip_rel_memory_address());
            }
            // An executable at a fixed address.
            Mnemonic::Mov if is_result(&instruction) && has_immediate(&instruction) => {
                result = Some(instruction.immediate(1));
            }
            Mnemonic::Xor
                if is_result(&instruction) && instruction.op1_register().full_register() == Register::RAX =>
            {
                result = Some(0);
            }
            Mnemonic::Endbr64 | Mnemonic::Nop | Mnemonic::Push | Mnemonic::Pop => {}
            // The frame pointer.
            Mnemonic::Mov
                if instruction.op0_register() == Register::RBP
                    && instruction.op1_register() == Register::RSP => {}
            _ => return None,
        }
    }
    None
}

fn is_result(instruction: &Instruction) -> bool {
    instruction.op0_register().full_register() == Register::RAX
}

fn has_immediate(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Mov_r32_imm32 | Code::Mov_r64_imm64 | Code::Mov_rm64_imm32)
}

#[cfg(test)]
mod tests {
    use super::returned;

    /// As gcc and rustc write them, by the manual of the instruction set.
    #[test]
    fn a_function_that_returns_a_text_is_read() {
        // push rbp; mov rbp, rsp; lea rax, [rip + 0x100]; pop rbp; ret
        let debug = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x05, 0, 1, 0, 0, 0x5d, 0xc3];
        // The instruction behind `lea` is at 0x1000 + 11.
        assert_eq!(returned(&debug, 0x1000), Some(0x110b));
        // endbr64; lea rax, [rip + 0x10]; ret
        let release = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x05, 0x10, 0, 0, 0, 0xc3];
        assert_eq!(returned(&release, 0x1000), Some(0x101b));
        // mov eax, 0x402010; ret
        assert_eq!(returned(&[0xb8, 0x10, 0x20, 0x40, 0, 0xc3], 0x1000), Some(0x40_2010));
        // xor eax, eax; ret
        assert_eq!(returned(&[0x31, 0xc0, 0xc3], 0x1000), Some(0));
    }

    #[test]
    fn whatever_else_it_does_is_not_guessed() {
        // lea rax, [rip]; call; ret
        assert_eq!(returned(&[0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc3], 0), None);
        // mov rax, [rip]; ret
        assert_eq!(returned(&[0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xc3], 0), None);
        // Nothing is returned.
        assert_eq!(returned(&[0xc3], 0), None);
        assert_eq!(returned(&[0x90; 40], 0), None);
    }
}
