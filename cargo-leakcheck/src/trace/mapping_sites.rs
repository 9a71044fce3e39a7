//! Where to place probes at functions of the C library that change what is mapped.
//!
//! A function that maps is probed behind its system call, at the branch that asks whether it has failed: there the
//! registers have arguments and result, and the kernel emulates it. One that unmaps is probed at its entry: behind the call
//! the addresses may be another thread's already.

use iced_x86::{FlowControl, Mnemonic};
use leakcheck_common::site;

use super::code::Code;
use super::sites::{Program, Site};

const ENTRIES: [(&str, u64); 3] = [("munmap", site::UNMAP), ("shmdt", site::DETACH), ("mremap", site::MOVE)];
const BEHIND: [(&str, u64); 3] = [("mmap", site::MAPPED), ("shmat", site::ATTACHED), ("mremap", site::MOVED)];

impl Code {
    /// The sites in a C library.
    ///
    /// # Errors
    /// It has a function that is not there, or is of an unknown form.
    pub fn mapping_sites(&self) -> Result<Vec<Site>, String> {
        let symbol = |name: &str| {
            let found = self.symbols.iter().find(|symbol| symbol.0 == name);
            found.ok_or_else(|| format!("the C library has no {name}"))
        };
        let site = |name: &str, cookie, place: Option<u64>| {
            let offset = place.and_then(|place| self.file_offset(place));
            let offset = offset.ok_or_else(|| format!("the C library's {name} has an unknown form"))?;
            Ok(Site { program: Program::Mapping, cookie, offset })
        };
        let entries = ENTRIES.map(|(name, cookie)| site(name, cookie, Some(symbol(name)?.1)));
        let behind = BEHIND.map(|(name, cookie)| {
            let (_, address, size) = symbol(name)?;
            site(name, cookie, self.behind_call(*address, *size as usize))
        });
        entries.into_iter().chain(behind).collect()
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
        assert_eq!(sites.len(), ENTRIES.len() + BEHIND.len());
        for site in
            sites.iter().filter(|site| [site::MAPPED, site::ATTACHED, site::MOVED].contains(&site.cookie))
        {
            let address = code.virtual_address(site.offset).unwrap();
            // In front of it is `cmp rax, imm32`, which ends with the lowest error number (Intel's manual, volume 2: 48 3D).
            let before = code.decode(address - 6, 6);
            assert_eq!(before[0].mnemonic(), Mnemonic::Cmp, "{site:?}");
        }
    }
}
