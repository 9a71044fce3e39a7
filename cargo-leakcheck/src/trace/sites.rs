//! Where to place probes: symbols of the C library and of test binaries, and the instruction of
//! each function that costs least to probe.

use camino::Utf8Path;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};
use leakcheck_common::site;

use super::code::Code;
use super::outer;
use crate::error::{Error, Result};

/// Which kernel program a site is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Entry and return of an allocating function.
    Allocate,
    /// Entry of `free`.
    Deallocate,
    /// libtest's test body.
    Body,
    /// Entry of a library function that allocates for its caller.
    Outer,
    /// `exit`.
    Exit,
    /// `dlopen`, `dlmopen`, `dlclose`.
    Module,
    /// Entry of `dlsym`.
    Lookup,
    /// Functions that make and remove IPC objects, and the `ret` instructions of the former.
    Ipc,
    /// Functions that change what is mapped.
    Mapping,
}

/// A place to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The program to run there.
    pub program: Program,
    /// Its cookie.
    pub cookie: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// The allocating functions of a C library: name, kind, whether every C library has it.
const ALLOCATORS: [(&str, u64, bool); 8] = [
    ("malloc", site::ALLOC_SIZE, true),
    ("calloc", site::ALLOC_COUNT, true),
    // `reallocarray` calls or jumps to it in every version.
    ("realloc", site::REALLOC, true),
    ("posix_memalign", site::ALLOC_OUT, true),
    ("memalign", site::ALLOC_ALIGNED, false),
    ("aligned_alloc", site::ALLOC_ALIGNED, false),
    ("valloc", site::ALLOC_SIZE, false),
    ("pvalloc", site::ALLOC_SIZE, false),
];

impl Code {
    pub(super) fn decode(&self, address: u64, bytes: usize) -> Vec<Instruction> {
        let Some(offset) = self.file_offset(address) else { return Vec::new() };
        let start = (offset as usize).min(self.data().len());
        let end = start.saturating_add(bytes).min(self.data().len());
        Decoder::with_ip(64, &self.data()[start..end], address, DecoderOptions::NONE).into_iter().collect()
    }

    /// The address at a function where a probe costs least.
    pub(super) fn cheapest(&self, address: u64) -> u64 {
        cheapest(&self.decode(address, 64), address)
    }

    /// The sites in a C library.
    ///
    /// # Errors
    /// The library lacks a function that every C library has.
    pub fn libc_sites(&self, path: &Utf8Path, at_entry: bool) -> Result<Vec<Site>> {
        let mut sites: Vec<Site> = Vec::new();
        let wanted = ALLOCATORS
            .iter()
            .map(|&(name, cookie, required)| (name, Program::Allocate, cookie, required))
            .chain([
                ("free", Program::Deallocate, 0, true),
                ("exit", Program::Exit, 0, true),
                ("dlopen", Program::Module, site::OPEN, false),
                ("dlmopen", Program::Module, site::OPEN_IN, false),
                ("dlclose", Program::Module, site::UNLOAD, false),
                ("dlsym", Program::Lookup, 0, false),
                ("dlvsym", Program::Lookup, 0, false),
            ]);
        for (name, program, cookie, required) in wanted {
            let mut found = false;
            for (_, address, _) in self.symbols.iter().filter(|symbol| symbol.0 == name) {
                let place = if at_entry { *address } else { self.cheapest(*address) };
                let Some(offset) = self.file_offset(place) else { continue };
                found = true;
                // Versions and aliases of a symbol share an address.
                if sites.iter().all(|site| site.offset != offset) {
                    sites.push(Site { program, cookie, offset });
                }
            }
            if required && !found {
                return Err(Error::Format {
                    path: path.to_owned(),
                    reason: format!("has no function `{name}`; only glibc can be traced so far"),
                });
            }
        }
        sites.extend(self.outer_sites(outer::is_libc));
        Ok(sites)
    }

    /// The sites of functions in a library that allocate for their callers.
    pub(super) fn outer_sites(&self, is_outer: impl Fn(&str) -> bool) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for (_, address, _) in self.symbols.iter().filter(|symbol| is_outer(&symbol.0)) {
            let place = self.cheapest(*address);
            if let Some(offset) = self.file_offset(place)
                && sites.iter().all(|site| site.offset != offset)
            {
                sites.push(Site { program: Program::Outer, cookie: 0, offset });
            }
        }
        sites
    }

    /// The part of a static executable that is the C library's: the linker puts it in one place, behind what
    /// is the program's own. Address behind the first page, and size.
    pub fn libc_span(&self) -> Option<(u64, u64)> {
        let glibc = self.has_glibc_malloc();
        let is_libc = |name: &str| match name {
            "exit" | "abort" | "__libc_start_main" | "_IO_puts" => true,
            "malloc" | "free" | "__malloc_arena_thread_freeres" => glibc,
            name => outer::is_libc(name),
        };
        let found = || self.symbols.iter().filter(|symbol| is_libc(&symbol.0));
        let start = found().map(|symbol| symbol.1).min()?;
        let end = found().map(|symbol| symbol.1 + symbol.2).max()?;
        Some((start - self.first_page(), end - start))
    }

    /// The sites in a copy of the C++ library.
    pub fn cxx_sites(&self) -> Vec<Site> {
        self.outer_sites(outer::is_cxx)
    }

    /// The sites in a test binary: libtest's entries into a test body and the ways out of it. Empty
    /// without libtest.
    pub fn body_sites(&self) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        let mut add = |cookie, address| {
            if let Some(offset) = self.file_offset(address)
                && sites.iter().all(|site| site.offset != offset)
            {
                sites.push(Site { program: Program::Body, cookie, offset });
            }
        };
        for (name, address, size) in &self.symbols {
            // Demangling every symbol of a large binary would take longer than the test.
            let body = name.contains("__rust_begin_short_backtrace");
            if !body && !name.contains("cleanup") {
                continue;
            }
            let name = format!("{:#}", rustc_demangle::demangle(name));
            if body && name.starts_with("test::__rust_begin_short_backtrace") {
                add(site::BODY_ENTER, *address);
                for instruction in self.decode(*address, *size as usize) {
                    if instruction.flow_control() == FlowControl::Return {
                        add(site::BODY_RETURN, instruction.ip());
                    }
                }
            } else if name.starts_with("std::panicking::") && name.ends_with("::cleanup") {
                add(site::PANIC_CAUGHT, *address);
            }
        }
        if sites.iter().all(|site| site.cookie == site::PANIC_CAUGHT) {
            sites.clear();
        }
        sites
    }
}

/// The address of the first instruction that the kernel emulates instead of single-stepping a copy
/// (a ninth of the cost; arch/x86/kernel/uprobes.c, `push_setup_xol_ops` and
/// `branch_setup_xol_ops`), as long as everything before it leaves the arguments and the stack
/// pointer alone and stays in the function. Otherwise the entry.
fn cheapest(instructions: &[Instruction], entry: u64) -> u64 {
    let mut factory = InstructionInfoFactory::new();
    for instruction in instructions {
        let flow = instruction.flow_control();
        let emulated = match flow {
            FlowControl::ConditionalBranch => !matches!(
                instruction.mnemonic(),
                Mnemonic::Jrcxz | Mnemonic::Jecxz | Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne
            ),
            FlowControl::UnconditionalBranch | FlowControl::Call => true,
            FlowControl::Next => {
                let push = instruction.mnemonic() == Mnemonic::Push
                    && instruction.op0_register().is_gpr64()
                    && instruction.len() <= 2;
                push || (instruction.mnemonic() == Mnemonic::Nop && instruction.len() == 1)
            }
            _ => false,
        };
        if emulated {
            return instruction.ip();
        }
        let harmful = factory.info(instruction).used_registers().iter().any(|used| {
            let written =
                !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
            written
                && matches!(
                    used.register().full_register(),
                    Register::RDI | Register::RSI | Register::RDX | Register::RCX | Register::RSP
                )
        });
        if harmful || flow != FlowControl::Next {
            break;
        }
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(code: &[u8]) -> u64 {
        let instructions: Vec<_> =
            Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).into_iter().collect();
        cheapest(&instructions, 0x1000) - 0x1000
    }

    #[test]
    fn the_first_emulated_instruction_is_chosen() {
        // push r12
        assert_eq!(place(&[0x41, 0x54, 0x55]), 0);
        // test rdi,rdi; je +5
        assert_eq!(place(&[0x48, 0x85, 0xff, 0x74, 0x05, 0x55]), 3);
        // endbr64; push rbp
        assert_eq!(place(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), 4);
        // cmp byte [rip+0],0; je +0
        assert_eq!(place(&[0x80, 0x3d, 0, 0, 0, 0, 0, 0x74, 0x00]), 7);
    }

    #[test]
    fn arguments_and_stack_pointer_are_not_touched_before_it() {
        // xor edi,edi; push rbp
        assert_eq!(place(&[0x31, 0xff, 0x55]), 0);
        // mov rdx,rax; push rbp
        assert_eq!(place(&[0x48, 0x89, 0xc2, 0x55]), 0);
        // sub rsp,8; push rbp
        assert_eq!(place(&[0x48, 0x83, 0xec, 0x08, 0x55]), 0);
        // mov rax,rsi; push rbp: reading is harmless
        assert_eq!(place(&[0x48, 0x89, 0xf0, 0x55]), 3);
        // ret; push rbp
        assert_eq!(place(&[0xc3, 0x55]), 0);
    }
}
