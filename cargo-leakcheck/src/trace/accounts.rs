//! What the kernel side writes down besides allocations: files, calls that make IPC objects or mappings,
//! processes and threads that are started, objects of the kernel. The tool can do without each of them.

use std::cell::LazyCell;
use std::os::fd::OwnedFd;

use super::btf::{self, Btf};
use super::created::Created;
use super::files::Files;
use super::ipc::{self, IpcCalls};
use super::kernel::Kernel;
use super::mappings::{self, MapCalls};
use super::object::Loaded;
use super::objects::Objects;
use super::started::Started;
use crate::options::{KernelBytes, TraceOptions};

/// Those that are asked for; why there is none, where it cannot be had.
pub struct Accounts {
    /// Files (open file descriptions).
    pub files: Option<Result<Files, String>>,
    /// Calls that make IPC objects.
    pub ipc: Option<Result<IpcCalls, String>>,
    /// Calls that make mappings.
    pub mappings: Option<Result<MapCalls, String>>,
    /// Processes and threads that tests start.
    pub started: Option<Result<Started, String>>,
    /// Who makes files in the directory of POSIX shared memory.
    pub created: Option<Result<Created, String>>,
    /// Objects that the kernel allocates for tests; nothing is recorded before it is started.
    pub objects: Option<Result<Objects, String>>,
}

impl Accounts {
    /// Loads their programs and lets them run, or adds them to those for probes; what is returned with it ends
    /// that when it is closed. Takes tables that are theirs.
    pub fn new(options: &TraceOptions, loaded: &mut Loaded) -> (Self, Vec<OwnedFd>) {
        let Loaded { programs, others, tables } = loaded;
        let mut links = Vec::new();
        let ipc = options.ipc.then(|| {
            let (calls, program) = IpcCalls::new(others, tables)?;
            programs.insert(ipc::PROGRAM.into(), program);
            Ok(calls)
        });
        let mappings = options.mappings.then(|| {
            let (calls, program) = MapCalls::new(others, tables)?;
            programs.insert(mappings::PROGRAM.into(), program);
            Ok(calls)
        });
        let bytes = LazyCell::new(btf::read);
        let types = LazyCell::new(|| {
            let types = Btf::parse(bytes.as_ref().map_err(Clone::clone)?);
            types.ok_or_else(|| "the kernel's types (BTF) have an unknown form".to_owned())
        });
        // Also whose the IPC objects of descendants are.
        let started = (options.children || options.ipc).then(|| {
            let types = types.as_ref().map_err(Clone::clone)?;
            let (started, more) = Started::new(others, types, tables)?;
            links.extend(more);
            Ok(started)
        });
        let wanted = options.descriptors && options.kernel_bytes != KernelBytes::Off || options.kernel_report;
        let objects = wanted.then(|| {
            Objects::new(others, types.as_ref().map_err(Clone::clone)?, tables, options.kernel_report)
        });
        // Last of them: where it fails its tables are closed, and one of them is in the instructions of `started`.
        let files = options.descriptors.then(|| {
            let types = types.as_ref().map_err(Clone::clone)?;
            Files::new(others, types, tables, options.max_files)
        });
        let created = options.ipc.then(|| Created::new(tables));
        (Self { files, ipc, mappings, started, created, objects }, links)
    }

    /// Whether there are any that compare with what was there when a window began.
    pub fn need_begin(&self) -> bool {
        matches!(self.files, Some(Ok(_))) || matches!(self.created, Some(Ok(_)))
    }
}

impl Kernel {
    /// The account of files; none where it is not asked for, or why it cannot be had.
    pub fn files(&self) -> Option<&Result<Files, String>> {
        self.accounts.files.as_ref()
    }

    /// The account of calls that make IPC objects, in the same way.
    pub fn ipc_calls(&self) -> Option<&Result<IpcCalls, String>> {
        self.accounts.ipc.as_ref()
    }

    /// The account of calls that make mappings, in the same way.
    pub fn map_calls(&self) -> Option<&Result<MapCalls, String>> {
        self.accounts.mappings.as_ref()
    }

    /// The account of processes and threads that tests start, in the same way.
    pub fn started(&self) -> Option<&Result<Started, String>> {
        self.accounts.started.as_ref()
    }

    /// The account of the kernel's objects, in the same way.
    pub fn objects(&self) -> Option<&Result<Objects, String>> {
        self.accounts.objects.as_ref()
    }

    /// Who makes files in the directory of POSIX shared memory, in the same way.
    pub fn created(&self) -> Option<&Result<Created, String>> {
        self.accounts.created.as_ref()
    }

    /// Whether only that who makes files is written down tells of POSIX shared memory that is made otherwise than by the
    /// functions for it.
    pub fn needs_files(&self) -> bool {
        matches!(self.accounts.created, Some(Err(_)))
    }

    /// Why neither of the two tells who makes files in the directory of POSIX shared memory, where that is asked for.
    pub fn creations_unseen(&self) -> Option<&str> {
        match (&self.accounts.created, &self.accounts.files) {
            (Some(Err(_)), Some(Ok(_))) => None,
            (Some(Err(reason)), _) => Some(reason),
            _ => None,
        }
    }

    /// Has it written down from now on who makes files, where that can be.
    pub fn start_files(&mut self) {
        if let Some(Ok(files)) = &mut self.accounts.files {
            files.start();
        }
    }

    /// Ends the recording of objects, if it was started.
    pub fn stop_objects(&mut self) {
        if let Some(Ok(objects)) = &mut self.accounts.objects {
            objects.stop();
        }
    }

    /// Lets objects be recorded from now on, where they can be.
    pub fn start_objects(&mut self) {
        if let Some(Ok(objects)) = &mut self.accounts.objects
            && !objects.runs()
            && let Err(reason) = objects.start()
        {
            self.accounts.objects = Some(Err(reason));
        }
    }
}
