//! Hash maps of the kernel side.

use std::collections::{BTreeSet, HashMap as StdHashMap};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use aya::maps::{HashMap, Map, MapData, MapError};
use nix::errno::Errno;

use super::object::refused;
use crate::error::{Error, Result};
use crate::sys;

/// The table of a name, which is there once.
pub(super) fn take(tables: &mut StdHashMap<String, MapData>, name: &str) -> MapData {
    tables.remove(name).expect("the committed object has every table")
}

/// A hash map of the kernel side.
pub(super) struct Table<K, V> {
    map: HashMap<MapData, K, V>,
    /// The same map once more, because aya does not lend out the first.
    fd: OwnedFd,
    /// Where records are that the kernel had no memory for; what is in `map` counts, if a key is in both.
    spare: Option<Box<Self>>,
}

impl<K: aya::Pod + Ord, V: aya::Pod> Table<K, V> {
    /// Takes a table of large records, with its spare one.
    pub(super) fn take_with_spare(tables: &mut StdHashMap<String, MapData>, name: &str) -> Result<Self> {
        let spare = Self::take(tables, &format!("SPARE_{name}"))?;
        Ok(Self { spare: Some(Box::new(spare)), ..Self::take(tables, name)? })
    }

    pub(super) fn take(tables: &mut StdHashMap<String, MapData>, name: &str) -> Result<Self> {
        let data = take(tables, name);
        let fd = data
            .fd()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| Error::System { call: format!("duplicating table {name}"), source })?;
        let map = HashMap::try_from(Map::HashMap(data)).map_err(|error| refused(name, &error))?;
        Ok(Self { map, fd, spare: None })
    }

    pub(super) fn get(&self, key: &K) -> Result<V, MapError> {
        match (self.map.get(key, 0), &self.spare) {
            (Err(error), Some(spare)) => spare.get(key).or(Err(error)),
            (found, _) => found,
        }
    }

    /// The values of a key: where two threads have added it at a time, each table may have one.
    pub(super) fn get_each(&self, key: &K) -> impl Iterator<Item = V> {
        let spare = self.spare.as_ref().and_then(|spare| spare.get(key).ok());
        self.map.get(key, 0).ok().into_iter().chain(spare)
    }

    pub(super) fn insert(&mut self, key: K, value: &V) -> Result<(), MapError> {
        self.set(key, value, 0)
    }

    pub(super) fn remove(&mut self, key: &K) -> Result<(), MapError> {
        self.map.remove(key)
    }

    /// Puts a value that was taken out back, unless there is a newer one.
    pub(super) fn put_back(&mut self, key: K, value: &V) -> Result<(), MapError> {
        const NOEXIST: u64 = 1;
        self.set(key, value, NOEXIST)?;
        // The kernel side adds to the spare table before it removes the key here.
        match self.spare.as_ref().is_some_and(|spare| spare.get(&key).is_ok()) {
            true => self.map.remove(&key),
            false => Ok(()),
        }
    }

    /// The kernel may have no memory at hand for a moment; then it is waited for.
    fn set(&mut self, key: K, value: &V, flags: u64) -> Result<(), MapError> {
        const TRIES: usize = 100;
        let no_memory = |error: &MapError| match error {
            MapError::SyscallError(error) => error.io_error.raw_os_error() == Some(libc::ENOMEM),
            _ => false,
        };
        for _ in 1..TRIES {
            match self.map.insert(key, value, flags) {
                Err(error) if no_memory(&error) => std::thread::sleep(Duration::from_millis(1)),
                done => return done,
            }
        }
        self.map.insert(key, value, flags)
    }

    /// Removes a value and returns it, in one step.
    pub(super) fn take_out(&self, key: &K) -> Option<V> {
        let taken = sys::take_element(self.fd.as_fd(), key);
        let spare = || self.spare.as_ref().and_then(|spare| spare.take_out(key));
        taken.or_else(spare)
    }

    /// The keys that there are, each once; others may come and go meanwhile.
    pub(super) fn keys(&self) -> Vec<K> {
        // The kernel begins anew where the key that it is asked to go on from is gone: some come twice.
        let keys: BTreeSet<K> =
            self.maps().flat_map(|table| table.map.keys()).filter_map(Result::ok).collect();
        keys.into_iter().collect()
    }

    pub(super) fn remove_all(&self, keys: &[K]) -> Result<(), Errno> {
        sys::delete_batch(self.fd.as_fd(), keys)?;
        let Some(spare) = &self.spare else { return Ok(()) };
        // There are few, and to ask for one that is not there is a system call.
        let mut there = if keys.is_empty() { Vec::new() } else { spare.keys() };
        if !there.is_empty() {
            let keys: BTreeSet<&K> = keys.iter().collect();
            there.retain(|key| keys.contains(key));
        }
        spare.remove_all(&there)
    }

    fn maps(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.spare.as_deref())
    }
}
