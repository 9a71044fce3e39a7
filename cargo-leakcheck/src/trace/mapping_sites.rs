//! Where to place probes at functions of the C library that change what is mapped: behind their system calls, at the
//! branch that asks whether they have failed. There the registers have arguments and result, and the kernel emulates the
//! instruction; in front of the calls it would have to single-step.

use iced_x86::{FlowControl, Mnemonic};
use leakcheck_common::site;

use super::code::Code;
use super::sites::{Program, Site};

const FUNCTIONS: [(&str, u64); 5] = [
    ("mmap", site::MAPPED),
    ("shmat", site::ATTACHED),
    ("mremap", site::MOVED),
    ("munmap", site::UNMAPPED),
    ("shmdt", site::DETACHED),
];

impl Code {
    /// The sites in a C library.
    ///
    /// # Errors
    /// It has a function that is not there, or is of an unknown form.
    pub fn mapping_sites(&self) -> Result<Vec<Site>, String> {
        let site = |(name, cookie)| {
            let found = self.symbols.iter().find(|symbol| symbol.0 == name);
            let (_, address, size) = found.ok_or_else(|| format!("the C library has no {name}"))?;
            let place = self.behind_call(*address, *size as usize);
            let offset = place.and_then(|place| self.file_offset(place));
            let offset = offset.ok_or_else(|| format!("the C library's {name} has an unknown form"))?;
            Ok(Site { program: Program::Mapping, cookie, offset })
        };
        FUNCTIONS.map(site).into_iter().collect()
    }

    /// The first branch behind the only system call of a function, with nothing but a comparison in between.
    fn behind_call(&self, address: u64, size: usize) -> Option<u64> {
        let instructions = self.decode(address, size);
        let mut calls = instructions.iter().enumerate().filter(|(_, it)| it.mnemonic() == Mnemonic::Syscall);
        let (Some((call, _)), None) = (calls.next(), calls.next()) else { return None };
        match instructions.get(call + 1..call + 3)? {
            [compare, branch]
                if compare.mnemonic() == Mnemonic::Cmp
                    && branch.flow_control() == FlowControl::ConditionalBranch =>
            {
                Some(branch.ip())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machine that runs the tests has a glibc.
    #[test]
    fn every_function_of_this_c_library_has_its_place() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps
            .lines()
            .find_map(|line| line.split_whitespace().nth(5).filter(|it| it.ends_with("/libc.so.6")));
        let code = Code::read(camino::Utf8Path::new(path.unwrap()), true).unwrap();
        let sites = code.mapping_sites().unwrap();
        assert_eq!(sites.len(), FUNCTIONS.len());
        for site in sites {
            let address = code.virtual_address(site.offset).unwrap();
            // In front of it is `cmp rax, imm32` (Intel's manual, volume 2: 48 3D).
            assert_eq!(code.decode(address - 6, 6)[0].mnemonic(), Mnemonic::Cmp, "{site:?}");
        }
    }
}
