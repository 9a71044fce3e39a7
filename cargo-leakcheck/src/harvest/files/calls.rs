//! Names of the system calls that make files.

/// The name of a system call by its number (x86_64).
pub fn name(number: u64) -> String {
    let known = CALLS.iter().find(|(known, _)| u64::try_from(*known) == Ok(number));
    known.map_or_else(|| format!("system call {}", number.cast_signed()), |(_, name)| (*name).to_owned())
}

const CALLS: [(i64, &str); 41] = [
    (libc::SYS_open, "open"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_creat, "creat"),
    (libc::SYS_open_by_handle_at, "open_by_handle_at"),
    (libc::SYS_pipe, "pipe"),
    (libc::SYS_pipe2, "pipe2"),
    (libc::SYS_socket, "socket"),
    (libc::SYS_socketpair, "socketpair"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_epoll_create, "epoll_create"),
    (libc::SYS_epoll_create1, "epoll_create1"),
    (libc::SYS_eventfd, "eventfd"),
    (libc::SYS_eventfd2, "eventfd2"),
    (libc::SYS_timerfd_create, "timerfd_create"),
    (libc::SYS_signalfd, "signalfd"),
    (libc::SYS_signalfd4, "signalfd4"),
    (libc::SYS_inotify_init, "inotify_init"),
    (libc::SYS_inotify_init1, "inotify_init1"),
    (libc::SYS_fanotify_init, "fanotify_init"),
    (libc::SYS_memfd_create, "memfd_create"),
    (libc::SYS_memfd_secret, "memfd_secret"),
    (libc::SYS_pidfd_open, "pidfd_open"),
    (libc::SYS_clone, "clone"),
    (libc::SYS_clone3, "clone3"),
    (libc::SYS_io_uring_setup, "io_uring_setup"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_bpf, "bpf"),
    (libc::SYS_perf_event_open, "perf_event_open"),
    (libc::SYS_userfaultfd, "userfaultfd"),
    (libc::SYS_mq_open, "mq_open"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_seccomp, "seccomp"),
    (libc::SYS_landlock_create_ruleset, "landlock_create_ruleset"),
    (libc::SYS_open_tree, "open_tree"),
    (libc::SYS_fsopen, "fsopen"),
    (libc::SYS_fspick, "fspick"),
    (libc::SYS_fsmount, "fsmount"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_shmat, "shmat"),
];

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn numbers_are_those_of_the_machine() {
        // arch/x86/entry/syscalls/syscall_64.tbl
        assert_eq!(
            [257, 41, 291, 293, 319].map(name),
            ["openat", "socket", "epoll_create1", "pipe2", "memfd_create"]
        );
        assert_eq!([9999, u64::MAX].map(name), ["system call 9999", "system call -1"]);
    }
}
