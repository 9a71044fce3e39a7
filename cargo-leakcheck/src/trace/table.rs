//! Hash maps of the kernel side.

use std::collections::HashMap as StdHashMap;
use std::os::fd::{AsFd as _, OwnedFd};

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
}

impl<K: aya::Pod, V: aya::Pod> Table<K, V> {
    pub(super) fn take(tables: &mut StdHashMap<String, MapData>, name: &str) -> Result<Self> {
        let data = take(tables, name);
        let fd = data
            .fd()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| Error::System { call: format!("duplicating table {name}"), source })?;
        let map = HashMap::try_from(Map::HashMap(data)).map_err(|error| refused(name, &error))?;
        Ok(Self { map, fd })
    }

    pub(super) fn get(&self, key: &K) -> Result<V, MapError> {
        self.map.get(key, 0)
    }

    pub(super) fn insert(&mut self, key: K, value: &V) -> Result<(), MapError> {
        self.map.insert(key, value, 0)
    }

    pub(super) fn remove(&mut self, key: &K) -> Result<(), MapError> {
        self.map.remove(key)
    }

    /// Adds a value, if there is none.
    pub(super) fn insert_new(&mut self, key: K, value: &V) -> Result<(), MapError> {
        const NOEXIST: u64 = 1;
        self.map.insert(key, value, NOEXIST)
    }

    /// Removes a value and returns it, in one step.
    pub(super) fn take_out(&self, key: &K) -> Option<V> {
        sys::take_element(self.fd.as_fd(), key)
    }

    /// The keys that there are; others may come and go meanwhile.
    pub(super) fn keys(&self) -> Vec<K> {
        self.map.keys().filter_map(Result::ok).collect()
    }

    pub(super) fn remove_all(&self, keys: &[K]) -> Result<(), Errno> {
        sys::delete_batch(self.fd.as_fd(), keys)
    }
}
