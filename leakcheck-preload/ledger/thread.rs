//! What each thread knows of itself, in thread-local storage that exists from its start on, and the
//! walk over its frames.

use core::arch::{asm, global_asm};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicUsize, compiler_fence};

use crate::frames::{self, Way};
use crate::layout::MAX_FRAMES;
use crate::sys;
use crate::unwind::Frame;

const PAGE: usize = 4096;
/// Pages by which the stack that is known to be readable grows at a time at most. More lies between
/// two frames only where one of them is a stray number.
const STEP: usize = 64;

/// Room for the frames of a call stack.
pub type Room = MaybeUninit<[u64; MAX_FRAMES]>;

/// A call stack: return addresses, innermost first, and a hash of them.
pub struct CallStack<'a> {
    pub frames: &'a [u64],
    pub hash: u64,
}

/// Odd factors for the frames' places: products can be taken side by side, while the next frame is
/// still being read. (Multilinear hashing; Lemire and Kaser, "Strongly universal string hashing is
/// fast", 2014.)
static FACTORS: [u64; MAX_FRAMES] = factors();

const fn factors() -> [u64; MAX_FRAMES] {
    let mut factors = [0; MAX_FRAMES];
    let (mut place, mut state) = (0, 0_u64);
    while place < MAX_FRAMES {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        factors[place] = (mixed ^ mixed >> 31) | 1;
        place += 1;
    }
    factors
}

/// What a thread knows. All of it is 0 in a new one. A signal handler may come in between anywhere.
#[repr(C)]
pub struct Thread {
    /// Its id, 0 until it is asked for.
    id: AtomicU32,
    /// The part of its stack that is known to be readable: whole pages.
    low: AtomicUsize,
    high: AtomicUsize,
}

const _: () = assert!(size_of::<Thread>() <= 64);

// Rust has thread-local storage in its standard library only.
global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 8",
    ".globl leakcheck_thread",
    ".hidden leakcheck_thread",
    ".type leakcheck_thread, @object",
    ".size leakcheck_thread, 64",
    "leakcheck_thread: .zero 64",
    ".popsection",
);

/// The running thread's.
#[inline(always)]
pub fn current() -> &'static Thread {
    let words: *const Thread;
    // SAFETY: the initial-exec model of thread-local storage (ELF Handling For Thread-Local Storage,
    // 4.3.6): the library is loaded with the program, never later.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + leakcheck_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) words,
            options(pure, nomem, nostack),
        );
        // Nobody but the thread itself and its signal handlers has it.
        &*words
    }
}

impl Thread {
    #[inline(always)]
    pub fn id(&self) -> u32 {
        match self.id.load(Relaxed) {
            0 => {
                let id = sys::thread_id();
                self.id.store(id, Relaxed);
                id
            }
            id => id,
        }
    }

    /// Takes the return addresses from the frame at `frame` outwards: by the chain of frame pointers,
    /// and by the table of frames through code that keeps none.
    ///
    /// # Safety
    /// `frame` is that of a function that is running: its saved frame pointer, and behind it its return
    /// address.
    #[inline(always)]
    pub unsafe fn walk<'a>(&self, frame: usize, room: &'a mut Room) -> CallStack<'a> {
        self.enter(frame);
        let frames = room.as_mut_ptr().cast::<u64>();
        let (mut count, mut hash) = (0, 0_u64);
        // SAFETY: the caller's promise.
        let [fp, mut address] = unsafe { *(frame as *const [u64; 2]) };
        let mut at = Frame { sp: frame as u64 + 16, fp };
        for factor in &FACTORS {
            // SAFETY: there is room for `MAX_FRAMES`.
            unsafe { *frames.add(count) = address };
            hash = hash.wrapping_add(address.wrapping_mul(*factor));
            count += 1;
            let caller = if frames::keeps_pointer(address) && self.holds(at) {
                // SAFETY: the frame's two words are inside the stack.
                let [fp, address] = unsafe { *(at.fp as *const [u64; 2]) };
                Some((address, Frame { sp: at.fp + 16, fp }))
            } else {
                self.leave(address, at)
            };
            match caller {
                Some((next, frame)) if next != 0 => (address, at) = (next, frame),
                _ => break,
            }
        }
        // SAFETY: so many were written.
        CallStack { frames: unsafe { core::slice::from_raw_parts(frames, count) }, hash }
    }

    /// Whether a frame's two words are in the part of the stack that is known, and above what was read.
    #[inline(always)]
    fn holds(&self, at: Frame) -> bool {
        at.fp >= at.sp && at.fp.is_multiple_of(8) && at.fp.wrapping_add(16) <= self.high.load(Relaxed) as u64
    }

    /// The caller of any code: its return address and frame. Out of the way of the loop, whose
    /// registers it would take.
    #[inline(never)]
    fn leave(&self, address: u64, at: Frame) -> Option<(u64, Frame)> {
        match frames::way(address) {
            Way::Row(row) => row.caller(at, |place| self.word(place)),
            Way::Pointer => {
                let end = (at.fp as usize).checked_add(16)?;
                if at.fp < at.sp
                    || !at.fp.is_multiple_of(8)
                    || (end > self.high.load(Relaxed) && !self.grow(end))
                {
                    return None;
                }
                // SAFETY: as in `walk`.
                let [fp, address] = unsafe { *(at.fp as *const [u64; 2]) };
                Some((address, Frame { sp: at.fp + 16, fp }))
            }
        }
    }

    /// A word of the stack above the running frame.
    fn word(&self, place: u64) -> Option<u64> {
        let place = place as usize;
        let end = place.checked_add(8)?;
        if place < self.low.load(Relaxed)
            || !place.is_multiple_of(8)
            || (end > self.high.load(Relaxed) && !self.grow(end))
        {
            return None;
        }
        // SAFETY: it is inside the stack, as was just found out.
        Some(unsafe { *(place as *const u64) })
    }

    /// Makes the known part of the stack contain the frame of a running function.
    #[inline(always)]
    fn enter(&self, frame: usize) {
        if frame < self.low.load(Relaxed) || frame + 16 > self.high.load(Relaxed) {
            self.find(frame);
        }
    }

    #[cold]
    fn find(&self, frame: usize) {
        let page = frame & !(PAGE - 1);
        let mut low = self.low.load(Relaxed);
        if page < low && low - page <= STEP * PAGE {
            while low > page && sys::is_readable(low - PAGE) {
                low -= PAGE;
            }
            if low == page {
                self.low.store(low, Relaxed);
                return;
            }
        }
        // Another stack. In between the known part is empty.
        self.high.store(0, Relaxed);
        compiler_fence(SeqCst);
        self.low.store(page, Relaxed);
        compiler_fence(SeqCst);
        self.high.store(page + PAGE, Relaxed);
        if frame + 16 > page + PAGE {
            self.grow(frame + 16);
        }
    }

    /// Whether the known part of the stack can be made to reach up to `end`.
    #[cold]
    fn grow(&self, end: usize) -> bool {
        let mut high = self.high.load(Relaxed);
        if end - high > STEP * PAGE {
            return false;
        }
        while high < end {
            if !sys::is_readable(high) {
                return false;
            }
            high += PAGE;
            self.high.store(high, Relaxed);
        }
        true
    }
}
