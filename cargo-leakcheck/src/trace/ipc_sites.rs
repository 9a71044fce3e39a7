//! Where to place probes at functions of the C library that make and remove IPC objects.
//!
//! They are called rarely: their entries are good enough. No return probes, which replace return addresses
//! that a walk meets (`sem_open` allocates): probes are at each `ret`.

use iced_x86::FlowControl;
use leakcheck_common::{ipc, site};

use super::code::Code;
use super::sites::{Program, Site};

const FUNCTIONS: [(&str, u64); 12] = [
    ("shmget", site::IPC_MAKE + ipc::SHARED_MEMORY),
    ("semget", site::IPC_MAKE + ipc::SEMAPHORES),
    ("msgget", site::IPC_MAKE + ipc::MESSAGES),
    ("mq_open", site::IPC_MAKE + ipc::POSIX_QUEUE),
    ("shm_open", site::IPC_MAKE + ipc::POSIX_MEMORY),
    ("sem_open", site::IPC_MAKE + ipc::POSIX_SEMAPHORE),
    ("shmctl", site::IPC_REMOVE + ipc::SHARED_MEMORY),
    ("semctl", site::IPC_REMOVE + ipc::SEMAPHORES),
    ("msgctl", site::IPC_REMOVE + ipc::MESSAGES),
    ("mq_unlink", site::IPC_REMOVE + ipc::POSIX_QUEUE),
    ("shm_unlink", site::IPC_REMOVE + ipc::POSIX_MEMORY),
    ("sem_unlink", site::IPC_REMOVE + ipc::POSIX_SEMAPHORE),
];

impl Code {
    /// The sites in a C library.
    pub fn ipc_sites(&self) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for (wanted, entry) in FUNCTIONS {
            let kind = entry & 0xff;
            for (_, address, size) in self.symbols.iter().filter(|symbol| symbol.0 == wanted) {
                let instructions = self.decode(*address, *size as usize).into_iter();
                let returns = instructions
                    .filter(|instruction| instruction.flow_control() == FlowControl::Return)
                    .map(|instruction| instruction.ip());
                let makes = entry - kind == site::IPC_MAKE;
                let returns = returns.filter(|_| makes).map(|place| (place, site::IPC_MADE + kind));
                for (place, cookie) in std::iter::once((*address, entry)).chain(returns) {
                    // Versions of a symbol share an address.
                    if let Some(offset) = self.file_offset(place)
                        && sites.iter().all(|site| site.offset != offset)
                    {
                        sites.push(Site { program: Program::Ipc, cookie, offset });
                    }
                }
            }
        }
        sites
    }
}
