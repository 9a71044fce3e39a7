//! Library functions that allocate for their callers. One that is missing here costs the user's line
//! in its findings, not the findings.

const LIBC: [&str; 40] = [
    "__asprintf_chk",
    "__getdelim",
    "__strdup",
    "__strndup",
    "__vasprintf_chk",
    "asprintf",
    "backtrace_symbols",
    "canonicalize_file_name",
    "dlopen",
    "fdopen",
    "fdopendir",
    "fopen",
    "fopen64",
    "get_current_dir_name",
    "getaddrinfo",
    "getcwd",
    "getdelim",
    "getifaddrs",
    "getline",
    "glob",
    "iconv_open",
    "if_nameindex",
    "newlocale",
    "open_memstream",
    "opendir",
    "popen",
    "posix_spawn",
    "putenv",
    "realpath",
    "regcomp",
    "scandir",
    "sem_open",
    "setenv",
    "setlocale",
    "strdup",
    "strndup",
    "tmpfile",
    "tsearch",
    "vasprintf",
    "wcsdup",
];

/// Whether a function of the C library is one.
pub fn is_libc(name: &str) -> bool {
    LIBC.contains(&name)
}

/// Whether a function of the GNU C++ library is one: all forms of `operator new`, and what `std::string` does
/// out of line.
pub fn is_cxx(name: &str) -> bool {
    const STRING: &str = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE";
    const MEMBERS: [&str; 10] = [
        "C1",
        "C2",
        "_M_construct",
        "_M_create",
        "_M_assign",
        "_M_append",
        "_M_mutate",
        "_M_replace",
        "7reserve",
        "6resize",
    ];
    let is_member = |member: &str| MEMBERS.iter().any(|known| member.contains(known));
    name.starts_with("_Znwm") || name.starts_with("_Znam") || name.strip_prefix(STRING).is_some_and(is_member)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_new_and_of_strings() {
        // As `c++filt` has them: new, new[] with alignment, string::_M_create; string::find, delete.
        assert!(is_cxx("_Znwm") && is_cxx("_ZnamSt11align_val_t"));
        assert!(is_cxx("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm"));
        assert!(!is_cxx("_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4findEcm"));
        assert!(!is_cxx("_ZdlPv"));
        assert!(is_libc("strdup") && !is_libc("malloc"));
    }
}
