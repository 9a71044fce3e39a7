//! Records of objects that the kernel allocates for tests.

/// Words of the record of an object that the kernel has allocated in the window; its key is the object's address.
pub mod object {
    /// What it takes, in bytes.
    pub const BYTES: usize = 0;
    /// Process id; the number of the system call in flight is in the upper half.
    pub const OWNER: usize = 1;
    /// Where in the kernel it was allocated.
    pub const SITE: usize = 2;
    /// Number of words.
    pub const WORDS: usize = 3;

    /// In place of the number of a system call: a page fault, an interrupt.
    pub const NO_CALL: u32 = u32::MAX;
}

/// Words of the totals of what was allocated in one system call at one place in the kernel; the key is
/// [`OWNER`](object::OWNER) and [`SITE`](object::SITE).
pub mod total {
    /// Bytes allocated.
    pub const BYTES: usize = 0;
    /// Objects allocated.
    pub const OBJECTS: usize = 1;
    /// Bytes of those that were freed.
    pub const FREED_BYTES: usize = 2;
    /// Objects of those that were freed.
    pub const FREED_OBJECTS: usize = 3;
    /// Number of words.
    pub const WORDS: usize = 4;
}

/// Words of how objects are recorded.
pub mod objects {
    /// Where `struct kmem_cache` has the size of its objects, in bytes.
    pub const CACHE_SIZE: usize = 0;
    /// 1 where totals are counted.
    pub const TOTALS: usize = 1;
    /// Number of words.
    pub const WORDS: usize = 2;
}

/// Words of the kernel's memory that are looked at, at a time.
pub const LOOK_WORDS: usize = 1 << 10;
