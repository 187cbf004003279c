//! CTF 1.8 metadata text to [`Declarations`].
//!
//! A lexer and a recursive-descent parser for the constructs that tracers write: type aliases, named and inline structures,
//! enumerations and variants, integers, floating point numbers, texts, arrays and sequences, and the `trace`, `env`, `clock`,
//! `stream` and `event` blocks, in any order. Lengths and tags may stand in earlier structures. `callsite` blocks and unknown
//! attributes are passed over. What is known but not understood here (several clocks in one stream class, odd float widths) is
//! refused by name, never misread.

mod lexer;
mod parser;
mod types;

pub use parser::Parser;

use crate::Result;
use crate::declared::Declarations;

/// Parses a whole metadata text.
///
/// # Errors
///
/// [`Error::is_metadata`](crate::Error::is_metadata) with the line of the mistake, or
/// [`Error::is_unsupported`](crate::Error::is_unsupported).
pub fn parse(text: &str) -> Result<Declarations> {
    let mut parser = Parser::new();
    parser.append(text)?;
    parser.into_declarations()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::{Base, Level, Source, Type};

    #[test]
    fn a_text_in_the_manner_of_lttng() {
        let text = r#"
            typealias integer { size = 8; align = 8; signed = 0; } := uint8_t;
            typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
            trace { major = 1; minor = 8; uuid = "0a0b0c0d-0000-0000-0000-0000000000ff"; byte_order = be;
                packet.header := struct { unsigned long magic; uint8_t uuid[16]; }; };
            env { hostname = "h"; vpid = -4; };
            clock { name = monotonic; freq = 1000000000; offset = 5; };
            typealias integer { size = 27; align = 1; map = clock.monotonic.value; } := stamp;
            enum state : uint8_t { idle, busy = 4 ... 6, gone, };
            stream { event.header := struct { uint8_t id; stamp timestamp; } align(64); };
            event { name = "a"; loglevel = 6; model.emf.uri = "src/a%20b.rs?function=m::f#L12"; x.y = "?";
                fields := struct { enum state _s; uint8_t _n; string _t; /* unit: "no" */
                    struct { uint8_t _in[ _n ]; } _q; /* unit: "B" */ floating_point { exp_dig = 8; mant_dig = 24; } _f; }; };
            callsite { name = "a"; line = 3; };
        "#;
        let all = parse(text).unwrap();
        assert!(all.big_endian);
        assert_eq!(all.uuid.unwrap()[15], 0xFF);
        let stream = all.stream(0).unwrap();
        assert_eq!(stream.clock().unwrap().offset_cycles, 5);
        assert_eq!(stream.event_header.as_ref().unwrap().structure.align, 64);
        let event = stream.event(0).unwrap();
        assert_eq!(event.level, Some(Level::Info));
        let source = Source { file: "src/a b.rs".into(), line: 12, function: "m::f".into() };
        assert_eq!(event.source, Some(source));
        let members = &event.fields.as_ref().unwrap().structure.members;
        let Type::Enumeration(state) = &members[0].class else { panic!() };
        assert_eq!(state.labels(7).collect::<Vec<_>>(), ["gone"]);
        assert!(state.integer.big_endian && state.integer.base == Base::Dec);
        assert_eq!(members[3].unit.as_deref(), Some("B"));
        assert_eq!((members[1].slot, members[0].slot, members[1].name()), (Some(0), None, "n"));
    }

    #[test]
    fn mistakes_name_their_line() {
        let head = "trace { byte_order = le; };\nstream { };\n";
        let event = |fields: &str| parse(&format!("{head}event {{ fields := struct {{ {fields} }}; }};"));
        for bad in ["nope _x;", "integer { size = 199; } _x;", "string _x", "string { } _x[ _y ];", "enum : string { } _x;"] {
            let error = event(bad).unwrap_err();
            let is_told = error.is_metadata() || error.is_unsupported() && bad.contains("199");
            assert!(is_told && error.to_string().contains("line 3"), "{bad}: {error}");
        }
        let error = event("integer { size = 8; } _n[ stream.event.context.x ];").unwrap_err();
        assert!(error.is_metadata() && error.to_string().contains("no integer stream.event.context.x"), "{error}");
        let deep = "struct { ".repeat(5000);
        assert!(parse(&deep).unwrap_err().is_metadata());
        assert!(parse(&"enum : ".repeat(50_000)).unwrap_err().is_metadata());
        let chain: String = (1..2000).map(|n| format!("typedef a{} a{n}[1][1][1][1][1][1][1][1];", n - 1)).collect();
        assert!(parse(&format!("typealias string := a0; {chain}")).unwrap_err().is_metadata());
        assert!(parse("event { };").unwrap_err().is_metadata());
    }

    #[test]
    fn repeated_types_do_not_multiply_without_bound() {
        let mut text = String::from("trace { byte_order = le; };\nstruct s0 { string a; };\n");
        for level in 1..60 {
            let below = level - 1;
            text += &format!("struct s{level} {{ struct s{below} a; struct s{below} b; }};\n");
        }
        assert!(parse(&text).unwrap_err().is_metadata());
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_or_fails(words in proptest::collection::vec(proptest::sample::select(vec![
            "struct", "{", "}", ";", ":=", "typealias", "integer", "size", "=", "8", "event", "stream", "trace", "enum", ":",
            "variant", "<", ">", "[", "]", "x", "fields", "align", "(", ")", "string", "\"t\"", ",", "...", "-", ".", "id",
        ]), 0..60)) {
            let _ = parse(&words.join(" "));
        }
    }
}
