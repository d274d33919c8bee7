use std::process::Command;

use super::*;

/// The text of a file with the mutants that are given by genre, the text that is changed, and what replaces it.
fn with(text: &str, mutants: &[(&str, &str, &str)]) -> (String, Written) {
    let listed = (1..)
        .zip(mutants)
        .map(|(number, (genre, changed, replacement))| {
            let at = text.find(changed).unwrap();
            let before = &text[..at];
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            let start = Position {
                line: before.matches('\n').count() + 1,
                column,
            };
            let (genre, replacement) = ((*genre).to_owned(), (*replacement).to_owned());
            (
                number,
                Listed {
                    file: String::new(),
                    genre,
                    replacement,
                    span: Span { start },
                },
            )
        });
    rewritten(text, listed.collect()).unwrap()
}

/// The same without `crate::mutant_switch::`, where all of them have a place.
fn plain(text: &str, mutants: &[(&str, &str, &str)]) -> String {
    let (new, written) = with(text, mutants);
    assert_eq!(written.not_placed, Vec::<u32>::new());
    new.replace("crate::mutant_switch::", "")
}

#[test]
fn an_operator_is_switched_with_all_of_the_expression_of_operators_around_it() {
    let new = plain(
        "fn f(a: u32) -> u32 { g(a + 1) * 2 - 3 }",
        &[("BinaryOperator", "*", "/"), ("BinaryOperator", "- 3", "+")],
    );
    let by_hand = "(if is(2) { g(a + 1) * 2 + 3 } else if is(1) { g(a + 1) / 2 - 3 } else { g(a + 1) * 2 - 3 })";
    assert_eq!(new, format!("fn f(a: u32) -> u32 {{ {by_hand} }}"));
}

#[test]
fn one_in_an_argument_has_a_switch_of_its_own() {
    let new = plain(
        "fn f() { h(a << b, !c) }",
        &[("BinaryOperator", "<<", ">>"), ("UnaryOperator", "!", "")],
    );
    assert_eq!(
        new,
        "fn f() { h((if is(1) { a >> b } else { a << b }), (if is(2) { c } else { !c })) }"
    );
}

#[test]
fn one_within_another_is_in_what_is_there_and_in_no_alternative() {
    let new = plain(
        "fn f() { a + g(b * c) }",
        &[("BinaryOperator", "+", "-"), ("BinaryOperator", "*", "/")],
    );
    assert_eq!(
        new,
        "fn f() { (if is(1) { a - g(b * c) } else { a + g((if is(2) { b / c } else { b * c })) }) }"
    );
}

#[test]
fn what_is_assigned_to_stays_a_place() {
    let new = plain("fn f() { *a += 1; }", &[("BinaryOperator", "+=", "-=")]);
    assert_eq!(new, "fn f() { (if is(1) { *a -= 1 } else { *a += 1 }); }");
}

#[test]
fn a_value_is_returned_before_the_body() {
    let new = plain(
        "fn f() -> u8 {\n    // Why.\n    3 + 4\n}",
        &[("FnValue", "3 + 4", "0"), ("FnValue", "3 + 4", "1")],
    );
    assert_eq!(
        new,
        "fn f() -> u8 {\n    // Why.\n    if is(1) { return 0; } if is(2) { return 1; } 3 + 4\n}"
    );
}

#[test]
fn an_arm_is_deleted_by_a_guard_and_a_guard_is_switched() {
    let text = "fn f() { match a { 1 | 2 => b, c if c > 4 => d, _ => e } }";
    let new = plain(
        text,
        &[
            ("MatchArm", "1 | 2", ""),
            ("MatchArm", "c if", ""),
            ("MatchArmGuard", "c > 4", "true"),
            ("BinaryOperator", "> 4", "<"),
        ],
    );
    let guard = "!is(2) && (if is(3) { true } else { (if is(4) { c < 4 } else { c > 4 }) })";
    assert_eq!(
        new,
        format!("fn f() {{ match a {{ 1 | 2 if !is(1) => b, c if {guard} => d, _ => e }} }}")
    );
}

#[test]
fn a_field_is_left_to_the_rest() {
    let new = plain(
        "fn f() -> S { S { a: b + c, ..d } }",
        &[("StructField", "a: b", ""), ("BinaryOperator", "+", "-")],
    );
    assert_eq!(
        new,
        "fn f() -> S { (if is(1) { S {  ..d } } else { S { a: (if is(2) { b - c } else { b + c }), ..d } }) }"
    );
}

#[test]
fn what_the_compiler_computes_or_what_binds_has_no_place() {
    for text in [
        "const A: u8 = 1 + 2;",
        "static A: u8 = 1 + 2;",
        "impl S { const A: u8 = 1 + 2; }",
        "fn f() -> [u8; 1 + 2] { [0; 1 + 2] }",
        "fn f() { const { 1 + 2 } }",
        "#[cfg(test)] mod tests { fn f() { 1 + 2 } }",
        "fn f() { if let Some(a) = b && a + 2 {} }",
        "fn f() { match a { b if let Some(c) = b && c + 2 => {} _ => {} } }",
    ] {
        // In the last two only the operator that joins what binds.
        let joined = text.contains("&&");
        let (new, written) = with(
            text,
            &[("BinaryOperator", if joined { "&&" } else { "+" }, "||")],
        );
        assert_eq!((&*new, written.not_placed), (text, vec![1]));
    }
    let new = plain(
        "fn f() { if let Some(a) = b && a + 2 == 3 {} }",
        &[("BinaryOperator", "+", "-")],
    );
    assert_eq!(
        new,
        "fn f() { if let Some(a) = b && (if is(1) { a - 2 == 3 } else { a + 2 == 3 }) {} }"
    );
}

#[test]
fn those_in_const_fn_are_named() {
    let text = "const fn f() { fn g() { 1 + 2 } 3 - 4 } fn h() { 5 * 6 }";
    let (_, written) = with(
        text,
        &[
            ("BinaryOperator", "+", "-"),
            ("BinaryOperator", "-", "+"),
            ("BinaryOperator", "*", "/"),
        ],
    );
    assert_eq!((written.not_placed, written.in_const_fn), (vec![], vec![2]));
}

#[test]
fn places_are_those_of_each_text() {
    let (new, written) = with(
        "fn é() -> u8 { a + b }",
        &[("BinaryOperator", "+", "-"), ("FnValue", "a +", "0")],
    );
    let of = |wanted: &[u32]| {
        let places = written
            .places
            .iter()
            .filter(|place| place.mutants == wanted);
        let mut found: Vec<_> = places
            .map(|place| (&new[place.start..place.end], place.own))
            .collect();
        found.sort_unstable_by_key(|(text, _)| text.len());
        found
    };
    let alternative = "if crate::mutant_switch::is(1) { a - b }";
    assert_eq!(
        of(&[1]),
        [
            (alternative, true),
            (&*format!("({alternative} else {{ a + b }})"), false)
        ]
    );
    let returned = "if crate::mutant_switch::is(2) { return 0; }";
    assert_eq!(
        of(&[2])[..2],
        [(returned, true), (&*format!("{returned} "), false)]
    );
    // A complaint that is nowhere else in the body is blamed on what is returned before it.
    assert!(of(&[2])[2].0.starts_with('{') && of(&[2])[2].0.ends_with('}'));
}

#[test]
fn values_have_paths_that_every_crate_knows() {
    assert_eq!(with_paths("vec![]"), "::std::vec![]");
    assert_eq!(
        with_paths("Ok(Vec::leak(vec![0, 1]))"),
        "Ok(::std::vec::Vec::leak(::std::vec![0, 1]))"
    );
    assert_eq!(
        with_paths("Box::leak(Box::new(String::new()))"),
        "::std::boxed::Box::leak(::std::boxed::Box::new(::std::string::String::new()))"
    );
    assert_eq!(
        with_paths("::std::iter::once(my::Vec::new().vec)"),
        "::std::iter::once(my::Vec::new().vec)"
    );
}

#[test]
#[ignore = "asks for an intrinsic, which another version of the compiler may have under another name"]
fn a_process_is_the_mutant_that_its_environment_names() {
    let library = "#![allow(dead_code)]\n//! Doc.\nmod code;\npub fn main() { println!(\"{}\", code::sum(9, 3)); }\n";
    let code =
        "pub const fn sum(a: u32, b: u32) -> u32 { a + b * 2 }\nconst SUM: u32 = sum(1, 1);\n";
    let (code, _) = with(
        code,
        &[
            ("BinaryOperator", "+", "-"),
            ("BinaryOperator", "*", "+"),
            ("FnValue", "a + b", "77"),
        ],
    );
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("main.rs"), switch::added_to(library).unwrap()).unwrap();
    fs::write(path("code.rs"), code).unwrap();
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let mut compile = Command::new(compiler);
    compile
        .args(["--edition", "2024", "--cap-lints", "allow", "-o"])
        .arg(path("program"))
        .arg(path("main.rs"));
    let done = compile.env("RUSTC_BOOTSTRAP", "1").output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    for (chosen, answer) in [
        ("0", "15"),
        ("1", "3"),
        ("2", "14"),
        ("3", "77"),
        ("4", "15"),
        ("?", "15"),
        ("", "15"),
    ] {
        let said = Command::new(path("program"))
            .env("MUTANT", chosen)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(said.stdout).unwrap(),
            format!("{answer}\n"),
            "MUTANT={chosen}"
        );
    }
}
