//! What an open descriptor is: by what `/proc` says of it, and sockets by what they say themselves.

use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;

use nix::unistd::Pid;

use crate::sys::{self, Owner};

/// Describes the descriptors of one process.
pub struct Describer {
    process: Pid,
    /// None where its descriptors cannot be borrowed.
    owner: Option<Owner>,
}

impl Describer {
    pub fn new(process: Pid) -> Self {
        Self { process, owner: Owner::of(process).ok() }
    }

    /// Kind and description, as in [`Descriptor`](crate::model::Descriptor).
    pub fn describe(&self, number: u32) -> (&'static str, String) {
        let path = self.path(number);
        let (kind, description) = by_link(&self.link(number));
        let described = match kind {
            "socket" => {
                let socket = self.owner.as_ref().and_then(|owner| owner.borrow(number).ok());
                socket.and_then(socket_words)
            }
            "pipe" => {
                self.information(number, "flags:").and_then(|flags| pipe_end(&flags)).map(str::to_owned)
            }
            "pidfd" => self.information(number, "Pid:").map(|pid| format!("process {pid}")),
            "file" => return (file_kind(&path), description),
            _ => None,
        };
        (kind, described.unwrap_or(description))
    }

    /// Whether it is a socket.
    pub fn is_socket(&self, number: u32) -> bool {
        by_link(&self.link(number)).0 == "socket"
    }

    fn path(&self, number: u32) -> String {
        format!("/proc/{}/fd/{number}", self.process)
    }

    fn link(&self, number: u32) -> String {
        std::fs::read_link(self.path(number)).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// A line of what the kernel tells of a descriptor.
    fn information(&self, number: u32, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.process)).ok()?;
        Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
    }
}

/// What the link in `/proc/PID/fd` tells.
fn by_link(link: &str) -> (&'static str, String) {
    /// Kinds by the kernel's names for files without a path.
    const ANONYMOUS: [(&str, &str); 15] = [
        ("[eventpoll]", "epoll"),
        ("[eventfd]", "eventfd"),
        ("[timerfd]", "timerfd"),
        ("[signalfd]", "signalfd"),
        ("inotify", "inotify"),
        ("[fanotify]", "fanotify"),
        ("[pidfd]", "pidfd"),
        ("[io_uring]", "io_uring"),
        ("[perf_event]", "perf event"),
        ("[userfaultfd]", "userfaultfd"),
        ("bpf-map", "BPF map"),
        ("bpf-prog", "BPF program"),
        ("bpf_link", "BPF link"),
        ("seccomp notify", "seccomp listener"),
        ("[landlock-ruleset]", "landlock ruleset"),
    ];
    if let Some(name) = link.strip_prefix("anon_inode:") {
        let kind = ANONYMOUS.iter().find(|(known, _)| *known == name);
        return kind.map_or_else(|| ("other", name.to_owned()), |(_, kind)| (kind, String::new()));
    }
    if let Some(name) = link.strip_prefix("/memfd:") {
        return ("memfd", quoted(name.strip_suffix(" (deleted)").unwrap_or(name)));
    }
    for kind in ["socket", "pipe", "pidfd"] {
        if link.strip_prefix(kind).is_some_and(|rest| rest.starts_with(":[")) {
            return (kind, String::new());
        }
    }
    let kind = if link == "/dev/ptmx" || link.ends_with("/ptmx") || link.starts_with("/dev/pts/") {
        "terminal"
    } else if link.starts_with('/') {
        "file"
    } else {
        "other"
    };
    (kind, quoted(link))
}

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// What is behind a path.
fn file_kind(path: &str) -> &'static str {
    let Ok(kind) = std::fs::metadata(path).map(|metadata| metadata.file_type()) else { return "file" };
    if kind.is_dir() {
        "directory"
    } else if kind.is_fifo() {
        "named pipe"
    } else if kind.is_char_device() || kind.is_block_device() {
        "device"
    } else {
        "file"
    }
}

/// Which end of a pipe it is, by its flags (octal).
fn pipe_end(flags: &str) -> Option<&'static str> {
    match i32::from_str_radix(flags, 8).ok()? & libc::O_ACCMODE {
        libc::O_RDONLY => Some("read end"),
        libc::O_WRONLY => Some("write end"),
        _ => None,
    }
}

/// Protocol and addresses of a socket. A socket is taken for one of std's types to ask for its addresses:
/// that is the same call for all.
fn socket_words(socket: OwnedFd) -> Option<String> {
    let [domain, kind, protocol] = sys::socket_kind(&socket).ok()?;
    Some(match (domain, kind) {
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_STREAM) if protocol == libc::IPPROTO_TCP => {
            let socket = TcpStream::from(socket);
            addresses("tcp", socket.local_addr().ok(), socket.peer_addr().ok())
        }
        (libc::AF_INET | libc::AF_INET6, libc::SOCK_DGRAM) => {
            let socket = UdpSocket::from(socket);
            addresses("udp", socket.local_addr().ok(), socket.peer_addr().ok())
        }
        (libc::AF_INET | libc::AF_INET6, _) => format!("ip protocol {protocol}"),
        (libc::AF_UNIX, kind) => {
            let socket = UnixStream::from(socket);
            let kind = match kind {
                libc::SOCK_STREAM => "unix stream",
                libc::SOCK_DGRAM => "unix datagram",
                _ => "unix seqpacket",
            };
            unix(kind, socket.local_addr().ok(), socket.peer_addr().ok())
        }
        (libc::AF_NETLINK, _) => "netlink".to_owned(),
        (libc::AF_PACKET, _) => "packet".to_owned(),
        (libc::AF_VSOCK, _) => "vsock".to_owned(),
        (libc::AF_ALG, _) => "crypto".to_owned(),
        (domain, _) => format!("address family {domain}"),
    })
}

fn addresses(
    protocol: &str,
    local: Option<std::net::SocketAddr>,
    peer: Option<std::net::SocketAddr>,
) -> String {
    match (local.filter(|address| address.port() != 0), peer) {
        (Some(local), Some(peer)) => format!("{protocol} {local} \u{2192} {peer}"),
        (Some(local), None) => format!("{protocol} {local}"),
        (None, Some(peer)) => format!("{protocol} \u{2192} {peer}"),
        (None, None) => format!("{protocol}, not bound"),
    }
}

fn unix(
    kind: &str,
    local: Option<std::os::unix::net::SocketAddr>,
    peer: Option<std::os::unix::net::SocketAddr>,
) -> String {
    use std::os::linux::net::SocketAddrExt as _;
    let name = |address: Option<std::os::unix::net::SocketAddr>| {
        let address = address?;
        let path = address.as_pathname().map(|path| path.to_string_lossy().into_owned());
        let name =
            path.or_else(|| Some(format!("@{}", String::from_utf8_lossy(address.as_abstract_name()?))));
        name.map(|name| quoted(&name))
    };
    match (name(local), name(peer)) {
        (Some(local), Some(peer)) => format!("{kind} {local} \u{2192} {peer}"),
        (Some(local), None) => format!("{kind} {local}"),
        (None, Some(peer)) => format!("{kind} \u{2192} {peer}"),
        (None, None) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};

    use super::*;

    #[test]
    fn links_are_told_apart() {
        for (link, kind, description) in [
            ("/tmp/a b", "file", "\"/tmp/a b\""),
            ("/tmp/x (deleted)", "file", "\"/tmp/x (deleted)\""),
            ("/memfd:cache (deleted)", "memfd", "\"cache\""),
            ("socket:[12]", "socket", ""),
            ("pipe:[12]", "pipe", ""),
            ("pidfd:[12]", "pidfd", ""),
            ("anon_inode:[eventpoll]", "epoll", ""),
            ("anon_inode:inotify", "inotify", ""),
            ("anon_inode:[new]", "other", "[new]"),
            ("/dev/pts/3", "terminal", "\"/dev/pts/3\""),
            ("", "other", "\"\""),
        ] {
            assert_eq!(by_link(link), (kind, description.to_owned()), "{link}");
        }
    }

    #[test]
    fn sockets_tell_their_addresses() {
        let describer = Describer::new(Pid::this());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let own = client.local_addr().unwrap();
        let described = |fd: i32| describer.describe(fd as u32);
        assert_eq!(described(listener.as_raw_fd()), ("socket", format!("tcp {address}")));
        assert_eq!(described(client.as_raw_fd()), ("socket", format!("tcp {own} \u{2192} {address}")));
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(described(one.as_raw_fd()), ("socket", "unix stream".to_owned()));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let named = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert_eq!(described(named.as_raw_fd()), ("socket", format!("unix datagram {path:?}")));
        // Describing has closed nothing.
        assert_eq!(listener.local_addr().unwrap(), address);
    }

    #[test]
    fn files_directories_and_pipes() {
        let describer = Describer::new(Pid::this());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let opened = std::fs::File::open(&path).unwrap();
        assert_eq!(describer.describe(opened.as_raw_fd() as u32), ("directory", format!("{path:?}")));
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(describer.describe(null.as_raw_fd() as u32).0, "device");
        let (reader, writer) = std::io::pipe().unwrap();
        let reader_number = reader.into_raw_fd() as u32;
        assert_eq!(describer.describe(reader_number), ("pipe", "read end".to_owned()));
        assert_eq!(describer.describe(writer.as_raw_fd() as u32), ("pipe", "write end".to_owned()));
    }
}
