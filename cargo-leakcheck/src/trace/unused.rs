//! Whether a function uses its first argument. The optimizer calls one that does not with whatever is in the
//! register, or not at all.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use super::code::Code;

/// Calls that are followed, one below the other.
const DEPTH: usize = 3;

impl Code {
    /// Whether a function, or what it calls, reads the register of the first argument, as far as anybody knows.
    pub(super) fn uses_first_argument(&self, address: u64) -> bool {
        self.reads(address, DEPTH)
    }

    fn reads(&self, address: u64, depth: usize) -> bool {
        let size = self.symbols.iter().find(|symbol| symbol.1 == address).map_or(0, |symbol| symbol.2);
        if depth == 0 || size == 0 {
            return true;
        }
        let mut factory = InstructionInfoFactory::new();
        let inside = address..address + size;
        self.decode(address, size as usize).iter().any(|instruction| {
            reads_first(&mut factory, instruction)
                || match next(instruction) {
                    Next::Here => false,
                    Next::At(target) => !inside.contains(&target) && self.reads(target, depth - 1),
                    Next::Unknown => true,
                }
        })
    }
}

fn reads_first(factory: &mut InstructionInfoFactory, instruction: &Instruction) -> bool {
    factory.info(instruction).used_registers().iter().any(|used| {
        let read = !matches!(used.access(), OpAccess::Write | OpAccess::CondWrite | OpAccess::NoMemAccess);
        read && used.register().full_register() == Register::RDI
    })
}

/// Where an instruction leads to.
enum Next {
    /// To the one behind it, or back to the caller.
    Here,
    /// A call or jump: to this address.
    At(u64),
    /// A call or jump to an address that is not in it.
    Unknown,
}

fn next(instruction: &Instruction) -> Next {
    use iced_x86::FlowControl as Flow;
    match instruction.flow_control() {
        Flow::Next | Flow::Return => Next::Here,
        _ if instruction.op0_kind() == OpKind::NearBranch64 => Next::At(instruction.near_branch_target()),
        _ => Next::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    #[test]
    fn what_is_called_counts() {
        let source = "
            #[inline(never)] fn nothing(_: &u8, _: usize) {}
            #[inline(never)] fn writes(block: &mut u8) { *block = 1 }
            #[inline(never)] fn second(_: &u8, n: usize) -> usize { n + 1 }
            #[inline(never)] fn hands_on(block: &mut u8) { writes(block); std::hint::black_box(0); }
            fn main() {
                std::hint::black_box((nothing as *const u8, writes as *const u8, second as *const u8));
                std::hint::black_box(hands_on as *const u8);
            }";
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Utf8PathBuf::try_from(folder.path().join(name)).unwrap();
        std::fs::write(path("a.rs"), source).unwrap();
        let mut rustc = std::process::Command::new("rustc");
        rustc.args(["-O", "--edition=2024", "-o"]).args([path("a"), path("a.rs")]);
        assert!(rustc.status().unwrap().success());
        let code = Code::read(&path("a"), false).unwrap();
        for (name, uses) in [("7nothing", false), ("6writes", true), ("6second", false), ("8hands_on", true)]
        {
            let function = code.symbols.iter().find(|symbol| symbol.0.contains(name)).unwrap();
            assert_eq!(code.uses_first_argument(function.1), uses, "{name}");
        }
    }
}
