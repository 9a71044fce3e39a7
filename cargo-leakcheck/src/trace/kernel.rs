//! The kernel side as the tracer sees it: programs, probes, tables.

use std::cell::RefCell;
use std::collections::HashMap as StdHashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use aya::maps::{Array, Map, MapData, MapError};
use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_common::{LOG_PAGE_WORDS, LOG_STACKS, bad_free, block, process, site, stack, thread};
use leakcheck_preload::layout::{WINDOW_BYTES, WINDOW_MAGIC};
use nix::unistd::Pid;

use super::accounts::Accounts;
use super::ipc;
use super::mappings;
use super::object::{self, refused};
use super::probed::Probed;
use super::rows::Rows;
use super::sites::{Program, Site};
use super::sizes;
use super::table::{Table, take};
use crate::error::{Error, Result};
use crate::options::TraceOptions;
use crate::sys::{self, SharedBits};

/// Words of a process record.
pub type ProcessRecord = [u64; process::WORDS];
/// Words of a thread record.
pub type ThreadRecord = [u64; thread::WORDS];
/// Words of the record of a bad free.
pub type BadFreeRecord = [u64; bad_free::WORDS];
/// Words of a block record.
pub type BlockRecord = [u64; block::WORDS];

/// The loaded programs and their tables. Dropping it removes every probe.
pub struct Kernel {
    programs: StdHashMap<String, OwnedFd>,
    links: Vec<OwnedFd>,
    threads: Table<u32, ThreadRecord>,
    pub(super) processes: Table<u32, ProcessRecord>,
    blocks: Table<[u64; 2], BlockRecord>,
    pub(super) stacks: Table<[u64; 2], [u64; stack::WORDS]>,
    bad_frees: Table<[u64; 2], BadFreeRecord>,
    log: Table<[u32; 2], [u64; LOG_PAGE_WORDS]>,
    pub(super) accounts: Accounts,
    rows: RefCell<Rows>,
    /// libtest's entries into test bodies, by the paths of their files.
    bodies: StdHashMap<Utf8PathBuf, Vec<Site>>,
    /// Which threads are in the window, for the ledger.
    window: SharedBits,
    window_fd: Arc<OwnedFd>,
    /// Held because the programs use it.
    _settings: (Array<MapData, [u64; 2]>, Array<MapData, u64>),
}

impl Kernel {
    /// Loads the programs and makes the tables, large ones if the programs are to record; nothing is probed
    /// yet.
    ///
    /// # Errors
    /// No privileges, or the kernel refuses the programs or the tables.
    pub fn load(options: &TraceOptions, records: bool) -> Result<Self> {
        let mut loaded = object::load(&sizes::of_tables(options, records), records)?;
        // Before any table is taken: the instructions have the numbers of their descriptors.
        let (accounts, links) = Accounts::new(options, &mut loaded);
        let object::Loaded { programs, mut tables, .. } = loaded;
        let namespace = fs_err::metadata("/proc/self/ns/pid")
            .map_err(|source| Error::System { call: "reading the process id namespace".into(), source })?;
        let refused_spare = |error: MapError| refused("SPARE_ONLY", &error);
        let mut spare_only =
            Array::try_from(Map::Array(take(&mut tables, "SPARE_ONLY"))).map_err(refused_spare)?;
        spare_only.set(0, u64::from(options.spare_only), 0).map_err(refused_spare)?;
        let mut settings = Array::try_from(Map::Array(take(&mut tables, "PID_NAMESPACE")))
            .map_err(|error| refused("PID_NAMESPACE", &error))?;
        settings
            .set(0, [kernel_device(namespace.dev()), namespace.ino()], 0)
            .map_err(|error| refused("PID_NAMESPACE", &error))?;
        let window_fd = take(&mut tables, "WINDOW")
            .fd()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| Error::System { call: "duplicating table WINDOW".into(), source })?;
        let window = SharedBits::map(&window_fd, WINDOW_BYTES / 8)
            .map_err(|source| Error::System { call: "mapping table WINDOW".into(), source })?;
        window.set_word(WINDOW_BYTES / 8 - 1, WINDOW_MAGIC);
        Ok(Self {
            programs,
            links,
            accounts,
            rows: RefCell::default(),
            bodies: StdHashMap::new(),
            threads: Table::take(&mut tables, "THREADS")?,
            processes: Table::take(&mut tables, "PROCESSES")?,
            blocks: Table::take(&mut tables, "BLOCKS")?,
            stacks: Table::take_with_spare(&mut tables, "STACKS")?,
            bad_frees: Table::take(&mut tables, "BAD_FREES")?,
            log: Table::take_with_spare(&mut tables, "LOG")?,
            window,
            window_fd: Arc::new(window_fd),
            _settings: (settings, spare_only),
        })
    }

    /// What is known of the frames of modules.
    pub fn rows(&self) -> &RefCell<Rows> {
        &self.rows
    }

    /// Places probes in a file, for every process that maps it.
    ///
    /// # Errors
    /// A probe cannot be placed: nothing would be seen, so nothing is run.
    pub fn attach(&mut self, file: &Utf8Path, sites: &[Site]) -> Result<()> {
        if sites.is_empty() {
            return Ok(());
        }
        let probed = Probed::open(file).map_err(|source| Error::File {
            action: "place probes in",
            path: file.to_owned(),
            source,
        })?;
        let path = probed.path();
        let entries = sites.iter().filter(|site| site.cookie == site::BODY_ENTER).copied();
        let name = file.canonicalize_utf8().unwrap_or_else(|_| file.to_owned());
        self.bodies.entry(name).or_default().extend(entries);
        for (name, wanted, at_return) in [
            ("allocate", Program::Allocate, false),
            ("allocated", Program::Allocate, true),
            ("deallocate", Program::Deallocate, false),
            ("body", Program::Body, false),
            ("outer", Program::Outer, false),
            ("exit", Program::Exit, false),
            ("module", Program::Module, false),
            ("lookup", Program::Lookup, false),
            (ipc::PROGRAM, Program::Ipc, false),
            (mappings::PROGRAM, Program::Mapping, false),
        ] {
            let sites = sites.iter().filter(|site| site.program == wanted);
            let (offsets, cookies): (Vec<u64>, Vec<u64>) =
                sites.map(|site| (site.offset, site.cookie)).unzip();
            if offsets.is_empty() {
                continue;
            }
            let Some(program) = self.programs.get(name) else { continue };
            let link = sys::link_uprobes(program.as_fd(), &path, &offsets, &cookies, at_return).map_err(
                |errno| {
                    let error = std::io::Error::from(errno);
                    refused(&format!("place {} probes in {file}", offsets.len()), &error)
                },
            )?;
            self.links.push(link);
        }
        Ok(())
    }

    /// libtest's entries into test bodies, by the paths of files as mappings have them.
    pub fn bodies(&self) -> &StdHashMap<Utf8PathBuf, Vec<Site>> {
        &self.bodies
    }

    /// Has a process stop where it enters its first test body.
    pub fn stop_in_body(&mut self, pid: Pid) -> Result<(), MapError> {
        let mut counters = self.process(pid)?;
        counters[process::LISTED] = 1;
        self.processes.insert(key(pid), &counters)
    }

    /// Starts to follow a process by its first thread, which has this record; `ledger` is where its ledger counts blocks, or 0.
    pub fn add_process(
        &mut self,
        pid: Pid,
        record: &ThreadRecord,
        ledger: u64,
        stops_in_body: bool,
    ) -> Result<(), MapError> {
        let mut counters = [0; process::WORDS];
        counters[process::LISTED] = u64::from(stops_in_body || self.accounts.need_begin());
        counters[process::LEDGER] = ledger;
        self.processes.insert(key(pid), &counters)?;
        self.set_thread(pid, record)
    }

    /// Starts to follow a thread that `parent` has started; it is in the window if its parent is.
    pub fn add_thread(&mut self, parent: Pid, thread: Pid) -> Result<(), MapError> {
        let parent = self.thread(parent)?;
        let mut record = [0; thread::WORDS];
        let ranges = [thread::LIBC_START, thread::LIBC_SIZE, thread::CXX_START, thread::CXX_SIZE];
        let others = [thread::PROGRAM, thread::NOTES, thread::LAYERS, thread::IN_WINDOW];
        for word in ranges.into_iter().chain(others) {
            record[word] = parent[word];
        }
        self.set_thread(thread, &record)
    }

    /// The record of a thread.
    pub fn thread(&self, thread: Pid) -> Result<ThreadRecord, MapError> {
        self.threads.get(&key(thread))
    }

    /// Replaces the record of a thread that does not run.
    pub fn set_thread(&mut self, id: Pid, record: &ThreadRecord) -> Result<(), MapError> {
        self.window.set(key(id) as usize, record[thread::IN_WINDOW] != 0);
        self.threads.insert(key(id), record)
    }

    /// The window bits, to be mapped by a ledger.
    pub fn window(&self) -> Arc<OwnedFd> {
        self.window_fd.clone()
    }

    /// Tells the kernel side where the ledger of a process counts its blocks.
    pub fn set_ledger(&mut self, pid: Pid, address: u64) -> Result<(), MapError> {
        let mut record = self.process(pid)?;
        record[process::LEDGER] = address;
        self.processes.insert(key(pid), &record)
    }

    /// Forgets a thread that has ended.
    pub fn remove_thread(&mut self, thread: Pid) {
        // One that was never added is as good as removed.
        let _ = self.threads.remove(&key(thread));
        self.window.set(key(thread) as usize, false);
    }

    /// The counters of a process.
    pub fn process(&self, pid: Pid) -> Result<ProcessRecord, MapError> {
        self.processes.get(&key(pid))
    }

    /// The record of one block.
    pub fn block(&self, pid: Pid, address: u64) -> Option<BlockRecord> {
        self.blocks.get(&block_key(pid, address)).ok()
    }

    /// Every address that the process ever got from its allocator.
    pub fn addresses(&self, pid: Pid, counters: &ProcessRecord) -> Vec<u64> {
        self.logged(pid, 0, counters[process::LOGGED_BLOCKS])
    }

    /// The return addresses of a recorded call stack, innermost first.
    pub fn stack(&self, pid: Pid, hash: u64) -> Option<Vec<u64>> {
        let record = self.stacks.get(&block_key(pid, hash)).ok()?;
        let count = (record[stack::COUNT] as usize).min(leakcheck_common::MAX_FRAMES);
        Some(record[stack::FRAMES..][..count].to_vec())
    }

    /// The bad frees of a process.
    pub fn bad_frees(&self, pid: Pid, counters: &ProcessRecord) -> Vec<BadFreeRecord> {
        (0..counters[process::BAD_FREES])
            .map_while(|number| self.bad_frees.get(&block_key(pid, number)).ok())
            .collect()
    }

    /// Removes everything that is recorded of a process.
    pub fn remove_process(&mut self, pid: Pid) -> Result<()> {
        let Ok(counters) = self.process(pid) else { return Ok(()) };
        let keys = |values: Vec<u64>| -> Vec<[u64; 2]> {
            values.into_iter().map(|value| block_key(pid, value)).collect()
        };
        let blocks = keys(self.addresses(pid, &counters));
        let stacks = keys(self.logged(pid, LOG_STACKS, counters[process::LOGGED_STACKS]));
        let bad_frees = keys((0..counters[process::BAD_FREES]).collect());
        let pages: Vec<[u32; 2]> =
            [(0, counters[process::LOGGED_BLOCKS]), (LOG_STACKS, counters[process::LOGGED_STACKS])]
                .into_iter()
                .flat_map(|(kind, count)| pages(count).map(move |page| [key(pid), kind | page]))
                .collect();
        let deleted = self
            .blocks
            .remove_all(&blocks)
            .and_then(|()| self.stacks.remove_all(&stacks))
            .and_then(|()| self.bad_frees.remove_all(&bad_frees))
            .and_then(|()| self.log.remove_all(&pages));
        if let Some(Ok(ipc)) = &self.accounts.ipc
            && counters[process::IPC_CALLS] > 0
        {
            ipc.forget(pid);
        }
        if let Some(Ok(objects)) = &self.accounts.objects
            && counters[process::OBJECTS] > 0
        {
            objects.forget(pid);
        }
        if let Some(Ok(mappings)) = &self.accounts.mappings
            && counters[process::MAPPINGS] > 0
        {
            mappings.forget(pid);
        }
        let _ = self.processes.remove(&key(pid));
        if let Some(Ok(created)) = &self.accounts.created
            && counters[process::STARTED] > 0
        {
            created.ended(|pid| self.processes.get(&key(pid)).is_ok());
        }
        if let Some(Ok(files)) = &mut self.accounts.files {
            files.ended(counters[process::FILES], |pid| self.processes.get(&key(pid)).is_ok());
        }
        deleted.map_err(|errno| Error::System {
            call: format!("clearing the records of process {pid}"),
            source: errno.into(),
        })
    }

    pub(super) fn logged(&self, pid: Pid, kind: u32, count: u64) -> Vec<u64> {
        let mut values = Vec::with_capacity(count as usize);
        for page in pages(count) {
            let rest = (count as usize - values.len()).min(LOG_PAGE_WORDS);
            // A page that found no room is counted as a loss by the kernel side. Of two each word is in one.
            let mut words = [0; LOG_PAGE_WORDS];
            for page in self.log.get_each(&[key(pid), kind | page]) {
                words.iter_mut().zip(page).for_each(|(word, more)| *word |= more);
            }
            values.extend_from_slice(&words[..rest]);
        }
        values
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Closing a link waits for an RCU grace period: let all wait for the same one.
        std::thread::scope(|scope| {
            for link in sys::remove_links(std::mem::take(&mut self.links)) {
                scope.spawn(move || drop(link));
            }
        });
    }
}

fn pages(count: u64) -> std::ops::Range<u32> {
    0..count.div_ceil(LOG_PAGE_WORDS as u64) as u32
}

pub(super) fn key(pid: Pid) -> u32 {
    pid.as_raw().cast_unsigned()
}

pub(super) fn block_key(pid: Pid, value: u64) -> [u64; 2] {
    [u64::from(key(pid)), value]
}

/// The kernel's own encoding of a device number (`new_encode_dev` is for user space only).
fn kernel_device(device: u64) -> u64 {
    u64::from(nix::sys::stat::major(device) as u32) << 20 | nix::sys::stat::minor(device)
}
