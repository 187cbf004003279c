//! Every error message, kept in `messages.txt`. `RINGTRACE_BLESS=1 cargo test -p trace-filter --test messages` writes it anew.

use trace_filter::{Expression, Field, Key, Kind, Label, Scope};

fn scope() -> Scope {
    let label = |name: &str, value| Label { name: name.into(), low: value, high: value };
    Scope::new(
        [
            Field::new("bytes", Kind::Integer),
            Field::new("ratio", Kind::Float),
            Field::new("dirty", Kind::Bool),
            Field::new("path", Kind::Text),
            Field::new("reason", Kind::Enumeration(vec![label("Lru", 0), label("Capacity", 1)])),
            Field::new("page", Kind::Structure(vec![Field::new("id", Kind::Integer), Field::new("file", Kind::Text)])),
            Field::new("owner", Kind::Optional(Box::new(Kind::Integer))),
            Field::new(
                "shape",
                Kind::Variant(vec![Field::new("Circle", Kind::Structure(vec![Field::new("radius", Kind::Float)]))]),
            ),
            Field::new("data", Kind::Unreadable("an array")),
        ],
        [Field::new("vtid", Kind::Integer)],
    )
}

/// Wrong filters, by what is wrong with them.
fn wrong() -> Vec<String> {
    let mut all: Vec<String> = [
        // Tokens.
        "bytes = 1", "path == 'a'", "path == \"a", "path == \"\\q\"", "`bytes > 1", "bytes > $ 1", "data[0] == 1", "bytes > 1 § 2",
        "bytes > 0xzz", "bytes > 0x", "bytes > 18446744073709551616", "bytes > 5kX", "ratio > 1e999",
        // Syntax.
        "", "bytes >", "bytes > && dirty", "(bytes > 1", "bytes > 1)", "(bytes > 1 dirty)", "1 < bytes < 5",
        "dirty and bytes > 1", "not dirty", "bytes 1", "$x.vtid == 1", "$ctx == 1", "page. == 1", "has(1)", "has(", "has(owner",
        "len(path) > 1", "page.len(path) > 1", "bytes > 1 ~ \"x\"",
        // Names.
        "byte > 1", "size > 1", "$ctx.tid == 1", "page.idd == 1", "bytes.low == 1", "shape.Square.side > 1", "data.x == 1",
        "reason == Lru", "reason == \"Lur\"", "reason ~ \"x*\"", "data == 1", "page == 1", "é > 1",
        // Types.
        "bytes", "path", "ratio", "reason", "bytes == \"x\"", "dirty == 1", "dirty < true", "path ~ bytes", "bytes ~ \"1*\"",
        "reason < \"Lru\"", "path + 1 > 2", "ratio & 1 == 1", "dirty | dirty", "dirty & dirty", "-path == 1", "!bytes", "(bytes > 1) == dirty",
        "(bytes > 1) + 1 > 2", "has(bytes)", "1 / 0 == 1", "bytes > 1 << 200", "shape.Circle == 1",
        "1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (bytes + 2)))))))) > 1 && bytes + (bytes + (bytes + (bytes + (bytes + (bytes + (bytes + (bytes + bytes))))))) > 1",
        // Places beyond the first line, and behind wide characters.
        "dirty &&\n  path == \"äöü\" && byte > 1",
    ]
    .map(str::to_owned)
    .to_vec();
    all.push(format!("{}dirty", "!".repeat(30)));
    all.push(format!("{}dirty{}", "(".repeat(30), ")".repeat(30)));
    all.push(vec!["dirty"; 400].join(" && "));
    all.push("x".repeat(5000));
    all
}

/// What is said of each: of filters, of one where an event has no fields, and of keys, as behind `by`.
fn errors() -> impl Iterator<Item = String> {
    let error = |filter: String| match Expression::parse(&filter).and_then(|e| e.compile(&scope())) {
        Ok(_) => panic!("this is no mistake: {filter}"),
        Err(error) => error.to_string(),
    };
    let nothing = Expression::parse("bytes > 1").and_then(|e| e.compile(&Scope::new([], []))).expect_err("no fields");
    let key = |key: &str| match Key::parse(key).and_then(|k| k.resolve(&scope())) {
        Ok(_) => panic!("this is no mistake: {key}"),
        Err(error) => error.to_string(),
    };
    let keys = ["", "(bytes)", "bytes+1", "page.", "byte", "$ctx.tid", "data", "page"];
    wrong().into_iter().map(error).chain([nothing.to_string()]).chain(keys.into_iter().map(key))
}

#[test]
fn messages() {
    let mut text = String::new();
    for error in errors() {
        for line in error.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/messages.txt");
    if std::env::var_os("RINGTRACE_BLESS").is_some() {
        std::fs::write(path, &text).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(path).expect("the file is there");
    for (new, old) in text.split("\n\n").zip(kept.split("\n\n")) {
        assert_eq!(new, old);
    }
    assert_eq!(text, kept);
}
