use super::short::LENGTH;
use super::*;

/// The hint for frames, innermost first: a function, and what the debug information calls it.
fn told(frames: &[(&str, &str)]) -> Option<String> {
    let called = frames.iter().map(|(function, generic)| {
        let generic = has_parameters(function).then(|| (*generic).to_owned()).filter(|name| !name.is_empty());
        Called { function, generic }
    });
    hint(&called.collect::<Vec<_>>())
}

fn v0(frames: &[&str]) -> Option<String> {
    told(&frames.iter().map(|function| (*function, "")).collect::<Vec<_>>())
}

#[test]
fn both_manglings_name_the_same_type() {
    let alloc = "<alloc::alloc::Global as core::alloc::Allocator>::allocate";
    for (modern, legacy, expected) in [
        (
            &["alloc::boxed::box_new_uninit", "<alloc::boxed::Box<[u8; 4096]>>::new"][..],
            &[("alloc::boxed::box_new_uninit", ""), ("alloc::boxed::Box<T>::new", "new<[u8; 4096]>")][..],
            "Box<[u8; 4096]>",
        ),
        // The helper inside of a counted block is nobody's type.
        (
            &["<alloc::boxed::Box<alloc::rc::RcInner<a::Node>>>::new", "<alloc::rc::Rc<a::Node>>::new"],
            &[
                ("alloc::boxed::Box<T>::new", "new<alloc::rc::RcInner<a::Node>>"),
                ("alloc::rc::Rc<T>::new", "new<a::Node>"),
            ],
            "Rc<Node>",
        ),
        (
            &["<alloc::sync::Arc<std::sync::poison::mutex::Mutex<u64>>>::new"],
            &[("alloc::sync::Arc<T>::new", "new<std::sync::poison::mutex::Mutex<u64>>")],
            "Arc<Mutex<u64>>",
        ),
        // Allocators and hashers that are the default are not written.
        (
            &["<alloc::raw_vec::RawVec<u16>>::grow_one", "<alloc::vec::Vec<u16>>::push"],
            &[
                ("alloc::raw_vec::RawVec<T,A>::grow_one", ""),
                ("alloc::vec::Vec<T,A>::push", "push<u16, alloc::alloc::Global>"),
            ],
            "Vec<u16>",
        ),
        (
            &["hashbrown::raw::RawTableInner::x", "<std::collections::hash::map::HashMap<u32, u64>>::insert"],
            &[(
                "std::collections::hash::map::HashMap<K,V,S,A>::insert",
                "insert<u32, u64, std::hash::random::RandomState, alloc::alloc::Global>",
            )],
            "HashMap<u32, u64>",
        ),
        (
            &[
                "<alloc::boxed::Box<alloc::collections::btree::node::LeafNode<u32, u64>>>::new_uninit_in",
                "<alloc::collections::btree::map::entry::VacantEntry<u32, u64>>::insert",
            ],
            &[
                (
                    "alloc::boxed::Box<T,A>::new_uninit_in",
                    "new_uninit_in<alloc::collections::btree::node::LeafNode<u32, u64>, alloc::alloc::Global>",
                ),
                (
                    "alloc::collections::btree::map::entry::VacantEntry<K,V,A>::insert",
                    "insert<u32, u64, alloc::alloc::Global>",
                ),
            ],
            "BTreeMap<u32, u64>",
        ),
        (&["alloc::vec::from_elem::<u8>"], &[("alloc::vec::from_elem", "from_elem<u8>")], "Vec<u8>"),
        // Parameters of a function of its own come behind the type's.
        (
            &["<alloc::vec::Vec<u64>>::extend_desugared::<a::It>"],
            &[(
                "alloc::vec::Vec<T,A>::extend_desugared",
                "extend_desugared<u64, alloc::alloc::Global, a::It>",
            )],
            "Vec<u64>",
        ),
        (
            &[
                "<alloc::rc::Rc<[u8]>>::copy_from_slice",
                "<alloc::rc::Rc<[u8]> as core::convert::From<&[u8]>>::from",
            ],
            &[
                ("alloc::rc::Rc<[T]>::allocate_for_slice::{{closure}}", "{closure#0}<u8>"),
                ("alloc::rc::Rc<[T]>::copy_from_slice", "copy_from_slice<u8>"),
                ("<alloc::rc::Rc<[T]> as core::convert::From<&[T]>>::from", "from<u8>"),
            ],
            "Rc<[u8]>",
        ),
        (
            &["<alloc::boxed::Box<a::run::{closure#0}>>::new"],
            &[("alloc::boxed::Box<T>::new", "new<a::run::{closure_env#0}>")],
            "Box<run::{closure}>",
        ),
    ] {
        let with = |rest: &[&str]| v0(&[&[alloc], rest].concat());
        assert_eq!(with(modern).as_deref(), Some(expected), "{modern:?}");
        assert_eq!(told(legacy).as_deref(), Some(expected), "{legacy:?}");
    }
}

#[test]
fn what_holds_text_is_no_vector() {
    let bytes = "<alloc::vec::Vec<u8>>::with_capacity_in";
    for (around, expected) in [
        (&["<alloc::string::String as core::convert::From<&str>>::from"][..], "String"),
        (&["<[u8]>::to_vec", "<str as alloc::borrow::ToOwned>::to_owned"], "String"),
        (&["<T as alloc::string::ToString>::to_string"], "String"),
        (&["alloc::str::<impl alloc::borrow::ToOwned for str>::to_owned"], "String"),
        (&["<std::ffi::os_str::OsStr>::to_os_string", "<std::path::Path>::to_path_buf"], "PathBuf"),
        (&["<[u8]>::to_vec_in::<alloc::alloc::Global>"], "Vec<u8>"),
        // A vector of bytes in another one is one.
        (&["<alloc::vec::Vec<alloc::vec::Vec<u8>> as core::clone::Clone>::clone"], "Vec<u8>"),
    ] {
        assert_eq!(v0(&[&[bytes], around].concat()).as_deref(), Some(expected), "{around:?}");
    }
}

#[test]
fn elements_are_not_what_holds_them() {
    let element =
        ["<alloc::boxed::Box<u8>>::new_uninit_in", "<alloc::boxed::Box<u8> as core::clone::Clone>::clone"];
    let vector = "<alloc::vec::Vec<alloc::boxed::Box<u8>> as core::clone::Clone>::clone";
    assert_eq!(v0(&[element[0], element[1], vector]).as_deref(), Some("Box<u8>"));
    let set = [
        "<std::collections::hash::map::HashMap<u8, ()>>::insert",
        "<std::collections::hash::set::HashSet<u8>>::insert",
    ];
    assert_eq!(v0(&set).as_deref(), Some("HashSet<u8>"));
}

#[test]
fn no_hint_rather_than_a_wrong_one() {
    // What std keeps for a thread, or to read a file.
    assert_eq!(
        v0(&["<alloc::sync::Arc<std::thread::Packet<()>>>::new", "std::thread::spawn::<a::f, ()>"]),
        None
    );
    assert_eq!(v0(&["<alloc::vec::Vec<u8>>::reserve", "std::env::current_dir"]), None);
    // Nobody says what the parameter is, or something that does not go with it.
    assert_eq!(told(&[("alloc::boxed::Box<T>::new", "")]), None);
    assert_eq!(told(&[("alloc::boxed::Box<T>::new", "new")]), None);
    assert_eq!(v0(&["alloc::alloc::alloc"]), None);
    assert_eq!(v0(&[]), None);
    // Of the array that `vec![…]` begins with nobody knows that it becomes a vector.
    assert_eq!(v0(&["<alloc::boxed::Box<[u64; 2]>>::new_uninit"]).as_deref(), Some("[u64; 2]"));
}

#[test]
fn long_types_lose_what_is_deep_inside() {
    let inner = "a::It<b::It<c::It<d::It<eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee::Ffffffffffffffffffffffffffffffffffffffffffff>>>>";
    let long = format!("<alloc::boxed::Box<{inner}>>::new");
    assert_eq!(
        v0(&[&long]).as_deref(),
        Some("Box<It<It<It<It<Ffffffffffffffffffffffffffffffffffffffffffff>>>>>")
    );
    let inner = inner.replace("Fff", &"F".repeat(90));
    let long = format!("<alloc::boxed::Box<{inner}>>::new");
    assert_eq!(v0(&[&long]).as_deref(), Some("Box<It<It<It<…>>>>"));
    let name = format!("<alloc::boxed::Box<a::{}>>::new", "N".repeat(500));
    assert_eq!(v0(&[&name]).unwrap().chars().count(), LENGTH + 1);
}
