//! Inputs to begin with.

/// The metadata that packets are read with.
pub const METADATA: [&str; 4] = [LTTNG, NATURAL, CTF2, PLAIN];

/// Headers and packets as LTTng and this tracer write them.
const LTTNG: &str = r#"/* CTF 1.8 */
typealias integer { size = 5; align = 1; } := u5;
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }; };
clock { name = c; freq = 1000000000; offset_s = 1700000000; };
typealias integer { size = 27; align = 1; map = clock.c.value; } := s27;
typealias integer { size = 64; align = 8; map = clock.c.value; } := s64;
stream { id = 0;
	packet.context := struct { s64 timestamp_begin; s64 timestamp_end; u64 content_size; u64 packet_size; u64 packet_seq_num; u64 events_discarded; u32 cpu_id; };
	event.header := struct { enum : u5 { compact = 0 ... 30, extended = 31 } id; variant <id> { struct { s27 timestamp; } compact; struct { u32 id; s64 timestamp; } extended; } v; } align(8);
	event.context := struct { integer { size = 32; align = 8; signed = true; } _vtid; }; };
event { name = "fixed"; id = 0; stream_id = 0; fields := struct { u64 _a; u32 _b; }; };
event { name = "texts"; id = 1; stream_id = 0; fields := struct { string _a; u8 __b_length; integer { size = 8; align = 8; encoding = UTF8; } _b[__b_length]; }; };
event { name = "nested"; id = 2; stream_id = 0; fields := struct { u8 __a_length; struct { enum : u8 { none = 0, some = 1 } __v_tag; variant <__v_tag> { struct { } none; u64 some; } _v; } _a[__a_length]; floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _f; }; };
"#;

/// Natural alignments, big-endian, bit fields.
const NATURAL: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = be; packet.header := struct { integer { size = 32; align = 32; } magic; }; };
clock { name = c; freq = 1000; };
stream { packet.context := struct { integer { size = 16; align = 16; } content_size; integer { size = 16; align = 16; } packet_size; integer { size = 32; align = 32; map = clock.c.value; } timestamp_begin; };
	event.header := struct { integer { size = 3; align = 1; } id; integer { size = 13; align = 1; map = clock.c.value; } timestamp; } align(32);
	event.context := struct { integer { size = 7; align = 1; } n; }; };
event { name = "bits"; id = 1; context := struct { integer { size = 3; align = 1; signed = true; } x; }; fields := struct { integer { size = 33; align = 1; } a; integer { size = 64; align = 64; } b; integer { size = 77; align = 1; signed = true; } long; struct { } empty[1000]; integer { size = 5; align = 1; } list[stream.event.context.n]; }; };
"#;

/// Every field class of CTF 2.
const CTF2: &str = concat!(
    "\u{1E}{\"type\":\"preamble\",\"version\":2}\n\u{1E}{\"type\":\"trace-class\"}\n",
    "\u{1E}{\"type\":\"field-class-alias\",\"name\":\"u8\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":8,\"alignment\":8,\"byte-order\":\"big-endian\"}}\n",
    "\u{1E}{\"type\":\"clock-class\",\"id\":\"c\",\"frequency\":1000000000,\"offset-from-origin\":{\"seconds\":5}}\n",
    "\u{1E}{\"type\":\"data-stream-class\",\"default-clock-class-id\":\"c\",\"packet-context-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"size\",\"field-class\":{\"type\":\"variable-length-unsigned-integer\",\"roles\":[\"packet-total-length\"]}}]},",
    "\"event-record-header-field-class\":{\"type\":\"structure\",\"member-classes\":[{\"name\":\"t\",\"field-class\":{\"type\":\"variable-length-unsigned-integer\",\"roles\":[\"default-clock-timestamp\"]}}]}}\n",
    "\u{1E}{\"type\":\"event-record-class\",\"name\":\"all\",\"payload-field-class\":{\"type\":\"structure\",\"member-classes\":[",
    "{\"name\":\"a\",\"field-class\":\"u8\"},",
    "{\"name\":\"bits\",\"field-class\":{\"type\":\"fixed-length-bit-array\",\"length\":12,\"byte-order\":\"big-endian\"}},",
    "{\"name\":\"back\",\"field-class\":{\"type\":\"fixed-length-unsigned-integer\",\"length\":4,\"byte-order\":\"big-endian\",\"bit-order\":\"first-to-last\"}},",
    "{\"name\":\"map\",\"field-class\":{\"type\":\"fixed-length-bit-map\",\"length\":8,\"byte-order\":\"little-endian\",\"flags\":{\"low\":[[0,1]]}}},",
    "{\"name\":\"yes\",\"field-class\":{\"type\":\"fixed-length-boolean\",\"length\":1,\"byte-order\":\"little-endian\"}},",
    "{\"name\":\"vs\",\"field-class\":{\"type\":\"variable-length-signed-integer\",\"mappings\":{\"minus\":[[-5,-1]]}}},",
    "{\"name\":\"vu\",\"field-class\":{\"type\":\"variable-length-unsigned-integer\"}},",
    "{\"name\":\"long\",\"field-class\":{\"type\":\"fixed-length-signed-integer\",\"length\":101,\"byte-order\":\"little-endian\",\"bit-order\":\"last-to-first\",\"preferred-display-base\":8}},",
    "{\"name\":\"wide\",\"field-class\":{\"type\":\"null-terminated-string\",\"encoding\":\"utf-32le\"}},",
    "{\"name\":\"text\",\"field-class\":{\"type\":\"dynamic-length-string\",\"length-field-location\":{\"path\":[\"a\"]}}},",
    "{\"name\":\"maybe\",\"field-class\":{\"type\":\"optional\",\"field-class\":{\"type\":\"dynamic-length-blob\",\"length-field-location\":{\"path\":[\"a\"]}},\"selector-field-location\":{\"path\":[\"yes\"]}}},",
    "{\"name\":\"list\",\"field-class\":{\"type\":\"dynamic-length-array\",\"minimum-alignment\":16,\"element-field-class\":{\"type\":\"fixed-length-floating-point-number\",\"length\":16,\"byte-order\":\"little-endian\"},\"length-field-location\":{\"path\":[\"back\"]}}}",
    "]}}\n",
);

/// No headers, no clock, no sizes.
const PLAIN: &str = "trace { byte_order = le; };\nstream { };\nevent { name = \"e\"; fields := struct { integer { size = 8; } _a; string _s; }; };\n";

/// Inputs of a target to begin with.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let texts = |is_json: bool| METADATA.iter().filter(move |text| text.starts_with('\u{1E}') == is_json);
    match target {
        "tsdl" => texts(false).map(|text| text.as_bytes().to_vec()).collect(),
        "json" => texts(true).map(|text| text.as_bytes().to_vec()).collect(),
        _ => vec![lttng(), natural(), ctf2(), vec![3, 255, 7, b'a', 0, 8, 0]],
    }
}

/// Two packets with an event of each class.
fn lttng() -> Vec<u8> {
    let mut out = vec![0, 255];
    for packet in 0..2u64 {
        let mut content = Vec::new();
        let mut header = |id: u32| {
            content.extend((id | 700 << 5).to_le_bytes());
            content.extend(42u32.to_le_bytes());
        };
        header(0);
        let mut events: Vec<Vec<u8>> = vec![[5u64.to_le_bytes().to_vec(), 6u32.to_le_bytes().to_vec()].concat()];
        events.push(b"text\0\x03abc".to_vec());
        events.push([vec![2, 0, 1], 9u64.to_le_bytes().to_vec(), 1.5f32.to_le_bytes().to_vec()].concat());
        content.extend(&events[0]);
        for (id, event) in events.iter().enumerate().skip(1) {
            content.extend((id as u32 | 800 << 5).to_le_bytes());
            content.extend(42u32.to_le_bytes());
            content.extend(event);
        }
        content.push(31);
        content.extend(0u32.to_le_bytes());
        content.extend(5000u64.to_le_bytes());
        content.extend(42u32.to_le_bytes());
        content.extend(&events[0]);
        let bits = (84 + content.len() as u64) * 8;
        out.extend(0xC1FC_1FC1u32.to_le_bytes());
        out.extend([0; 16]);
        out.extend(0u32.to_le_bytes());
        for word in [1, 500, 6000, bits, bits + 64, packet * 2, packet] {
            out.extend(word.to_le_bytes());
        }
        out.extend(3u32.to_le_bytes());
        out.extend(content);
        out.extend([0; 8]);
    }
    out
}

fn natural() -> Vec<u8> {
    let mut out = vec![1, 255];
    out.extend(0xC1FC_1FC1u32.to_be_bytes());
    out.extend([1, 0x50, 1, 0x50, 0, 0, 0, 7]);
    out.extend([0x20, 0x05, 0x06, 0x55, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x80, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x12, 0x34, 0x56, 0x78]);
    out
}

fn ctf2() -> Vec<u8> {
    let mut content = vec![5, 2, 0xAB, 0xC4, 0x81, 1, 0x7E];
    content.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7E]);
    content.extend([0x5A; 13]);
    content.extend([b'h', 0, 0, 0, 0, 0, 0, 0, b'x', b'y', 0xBE, 0xEF, 0, 0x3C, 0, 0xC0]);
    let bits = (content.len() + 2) * 8;
    [vec![2, 255, bits as u8 | 0x80, (bits >> 7) as u8], content].concat()
}
