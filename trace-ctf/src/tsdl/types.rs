//! Type expressions.

use std::collections::BTreeSet;

use super::lexer::Kind;
use super::parser::{Input, Value, big_endian, too_deep};
use crate::declared::{
    Array, Base, Encoding, Enumeration, Float, Integer, LONG_BITS, Label, Member, Reference, Sequence, Structure, Text, Type,
    Variant,
};
use crate::metadata::is_keyword;
use crate::{Error, Result};

/// Words of the C types that an alias may consist of.
pub(super) const C_WORDS: [&str; 10] = ["unsigned", "signed", "int", "long", "short", "char", "float", "double", "_Bool", "void"];

impl Input<'_, '_> {
    /// A type as it stands after `:=` and `typealias`: arrays have no name there.
    pub(super) fn type_and_suffix(&mut self) -> Result<Type> {
        let class = self.type_specifier()?;
        self.dimensions(class)
    }

    pub(super) fn type_specifier(&mut self) -> Result<Type> {
        self.depth += 1;
        too_deep(self.depth, self.line())?;
        let class = self.bare_type();
        self.depth -= 1;
        class
    }

    fn bare_type(&mut self) -> Result<Type> {
        self.accept("const");
        match self.peek_word() {
            Some("struct") => self.structure(),
            Some("variant") => self.variant(),
            Some("enum") => self.enumeration(),
            Some("integer") => self.integer(),
            Some("floating_point") => self.float(),
            Some("string") => {
                self.word()?;
                if matches!(self.peek(), Some(Kind::Sign("{"))) {
                    self.attributes(|this, name, value| match name {
                        "encoding" => this.encoding(&value).map(drop),
                        _ => Ok(()),
                    })?;
                }
                Ok(Type::Text(Text { encoding: Encoding::Utf8 }))
            }
            Some(_) => {
                let line = self.line();
                let mut name = self.word()?;
                while C_WORDS.contains(&name.rsplit(' ').next().unwrap_or_default())
                    && self.peek_word().is_some_and(|word| C_WORDS.contains(&word))
                {
                    name = name + " " + &self.word()?;
                }
                self.parser.named(&name, line)
            }
            None => Err(self.unexpected("a type")),
        }
    }

    /// A name and the dimensions behind it; the number is the line of the name.
    pub(super) fn declarator(&mut self, class: Type) -> Result<(String, Type, u32)> {
        let line = self.line();
        let name = self.name()?;
        Ok((name, self.dimensions(class)?, line))
    }

    fn dimensions(&mut self, class: Type) -> Result<Type> {
        enum Length {
            Fixed(u64),
            Named(String),
        }
        let mut lengths = Vec::new();
        while self.accept("[") {
            if lengths.len() == 16 {
                return Err(Error::metadata(self.line(), "too many dimensions"));
            }
            lengths.push(match self.peek() {
                Some(&Kind::Number(number)) => {
                    self.skip();
                    Length::Fixed(number)
                }
                _ => Length::Named(self.field_path()?),
            });
            self.expect("]")?;
        }
        // As in C, the last dimension is the innermost.
        Ok(lengths.into_iter().rev().fold(class, |element, length| match length {
            Length::Fixed(length) => Type::Array(Array::new(element, length, 1)),
            Length::Named(name) => Type::Sequence(Sequence::new(element, reference(name), 1)),
        }))
    }

    fn structure(&mut self) -> Result<Type> {
        self.word()?;
        let line = self.line();
        let name = self.tag_name("struct")?;
        if !matches!(self.peek(), Some(Kind::Sign("{"))) {
            let name = name.ok_or_else(|| self.unexpected("a structure"))?;
            return self.parser.named(&name, line);
        }
        let members = self.members()?;
        let mut align = members.iter().map(|member| member.class.align()).max().unwrap_or(1);
        if self.accept("align") {
            self.expect("(")?;
            let declared = match self.peek() {
                Some(&Kind::Number(number)) => number,
                _ => return Err(self.unexpected("an alignment")),
            };
            self.skip();
            self.expect(")")?;
            align = align.max(self.alignment(declared)?);
        }
        self.keep(name, Type::Structure(Structure { members, align }), line)
    }

    fn members(&mut self) -> Result<Vec<Member>> {
        self.expect("{")?;
        self.enter();
        let mut members = Vec::new();
        let mut names = BTreeSet::new();
        while !self.accept("}") {
            if matches!(self.peek_word(), Some("typealias" | "typedef")) {
                self.declaration()?;
                continue;
            }
            let base = self.type_specifier().map_err(|error| match self.peek_word() {
                // Its name stands behind the type.
                Some(name) if error.is_unsupported() => error.within(format_args!("field {name}")),
                _ => error,
            })?;
            if self.accept(";") {
                continue;
            }
            let (name, class, line) = self.declarator(base)?;
            self.expect(";")?;
            if !names.insert(name.clone()) {
                return Err(Error::metadata(line, format!("two members {name}")));
            }
            if let Type::Variant(variant) = &class {
                chosen_by(variant, &members).map_err(|what| Error::metadata(line, what))?;
            }
            members.push(Member { unit: self.unit(), ..Member::new(name, class, true) });
        }
        self.leave();
        Ok(members)
    }

    fn variant(&mut self) -> Result<Type> {
        self.word()?;
        let line = self.line();
        let name = self.tag_name("variant")?;
        let mut tag = None;
        if self.accept("<") {
            tag = Some(self.field_path()?);
            self.expect(">")?;
        }
        let mut variant = if matches!(self.peek(), Some(Kind::Sign("{"))) {
            Variant { tag: reference(String::new()), options: self.members()?, choices: Vec::new() }
        } else {
            let name = name.clone().ok_or_else(|| self.unexpected("a variant"))?;
            match self.parser.named(&name, line)? {
                Type::Variant(variant) => variant,
                _ => return Err(Error::metadata(line, format!("{name} is no variant"))),
            }
        };
        if let Some(tag) = tag {
            variant.tag = reference(tag);
        }
        self.keep(name, Type::Variant(variant), line)
    }

    fn enumeration(&mut self) -> Result<Type> {
        self.word()?;
        let line = self.line();
        let name = self.tag_name("enum")?;
        let integer = if self.accept(":") {
            match self.type_specifier()? {
                Type::Integer(integer) => integer,
                Type::Long(integer) => return Err(Error::unsupported(line, format!("an enumeration of {} bits", integer.bits))),
                _ => return Err(Error::metadata(line, "an enumeration needs an integer")),
            }
        } else if matches!(self.peek(), Some(Kind::Sign("{"))) {
            match self.parser.named("int", line)? {
                Type::Integer(integer) => integer,
                _ => return Err(Error::metadata(line, "int is no integer")),
            }
        } else {
            let name = name.ok_or_else(|| self.unexpected("an enumeration"))?;
            return self.parser.named(&name, line);
        };
        self.expect("{")?;
        let (min, max) = integer.limits();
        let mut labels = Vec::new();
        let mut next: i128 = 0;
        while !self.accept("}") {
            let line = self.line();
            let label = match self.text() {
                Some(text) => text,
                None => self.word()?,
            };
            let (mut low, mut high) = (next, next);
            if self.accept("=") {
                low = self.number()?;
                high = if self.accept("...") { self.number()? } else { low };
            }
            next = high + 1;
            if low > high || low < min || high > max {
                let range = if low == high { low.to_string() } else { format!("{low} ... {high}") };
                return Err(Error::metadata(line, format!("label {label:?}: {range} does not lie in {min} ... {max}")));
            }
            labels.push(Label { label, low, high });
            if !self.accept(",") && !matches!(self.peek(), Some(Kind::Sign("}"))) {
                return Err(self.unexpected(","));
            }
        }
        if labels.is_empty() {
            return Err(Error::metadata(line, "an enumeration without labels"));
        }
        self.keep(name, Type::Enumeration(Enumeration { integer, labels: Enumeration::grouped(labels) }), line)
    }

    fn integer(&mut self) -> Result<Type> {
        self.word()?;
        let line = self.line();
        let (mut bits, mut align, mut signed, mut base, mut text, mut clock) = (0, None, false, Base::Dec, None, None);
        let mut big_endian = self.parser.big_endian();
        self.attributes(|this, name, value| {
            match (name, &value) {
                ("size", Value::Number(number)) => bits = this.unsigned(*number)?,
                ("align", Value::Number(number)) => align = Some(this.alignment(this.unsigned(*number)?)?),
                ("signed", value) => signed = this.boolean(value)?,
                ("byte_order", Value::Path(word)) => big_endian = this.byte_order(word)?,
                ("base", value) => base = this.base(value)?,
                ("encoding", value) => text = this.encoding(value)?,
                ("map", Value::Path(path)) => {
                    clock = path.strip_prefix("clock.").and_then(|path| path.strip_suffix(".value")).map(Box::from);
                }
                ("size" | "align" | "byte_order" | "map", _) => return Err(this.wrong(name)),
                _ => {}
            }
            Ok(())
        })?;
        let bits = match u8::try_from(bits) {
            Ok(bits @ 1..=LONG_BITS) => bits,
            Ok(0) => return Err(Error::metadata(line, "integer of 0 bits")),
            _ => return Err(Error::unsupported(line, format!("an integer of {bits} bits"))),
        };
        if bits > 64 && clock.is_some() {
            return Err(Error::unsupported(line, format!("a time stamp of {bits} bits")));
        }
        let align = align.unwrap_or(if bits % 8 == 0 { 8 } else { 1 });
        Ok(Integer { align, signed, base, text, clock, ..Integer::unsigned(bits, big_endian) }.into())
    }

    fn float(&mut self) -> Result<Type> {
        self.word()?;
        let line = self.line();
        let (mut exponent, mut mantissa, mut align) = (0, 0, None);
        let mut big_endian = self.parser.big_endian();
        self.attributes(|this, name, value| {
            match (name, &value) {
                ("exp_dig", Value::Number(number)) => exponent = *number,
                ("mant_dig", Value::Number(number)) => mantissa = *number,
                ("align", Value::Number(number)) => align = Some(this.alignment(this.unsigned(*number)?)?),
                ("byte_order", Value::Path(word)) => big_endian = this.byte_order(word)?,
                ("exp_dig" | "mant_dig" | "align" | "byte_order", _) => return Err(this.wrong(name)),
                _ => {}
            }
            Ok(())
        })?;
        let bits = match (exponent, mantissa) {
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                let what = format!("a float of {exponent} digits of exponent and {mantissa} of mantissa");
                return Err(Error::unsupported(line, what));
            }
        };
        Ok(Type::Float(Float { bits, align: align.unwrap_or(8), big_endian, reversed: false }))
    }

    fn base(&self, value: &Value) -> Result<Base> {
        match value {
            Value::Number(2) => Ok(Base::Bin),
            Value::Number(8) => Ok(Base::Oct),
            Value::Number(10) => Ok(Base::Dec),
            Value::Number(16) => Ok(Base::Hex),
            Value::Path(word) => match word.as_str() {
                "binary" | "b" => Ok(Base::Bin),
                "octal" | "oct" | "o" => Ok(Base::Oct),
                "decimal" | "dec" | "d" | "i" | "u" => Ok(Base::Dec),
                "hexadecimal" | "hex" | "x" | "X" | "p" => Ok(Base::Hex),
                _ => Err(Error::metadata(self.line(), format!("{word} is no base"))),
            },
            _ => Err(Error::metadata(self.line(), "no such base")),
        }
    }

    fn byte_order(&self, word: &str) -> Result<bool> {
        match big_endian(word) {
            Some(big_endian) => Ok(big_endian),
            None if word == "native" => Ok(self.parser.big_endian()),
            None => Err(Error::metadata(self.line(), format!("{word} is no byte order"))),
        }
    }

    fn boolean(&self, value: &Value) -> Result<bool> {
        match value {
            Value::Number(0) => Ok(false),
            Value::Number(1) => Ok(true),
            Value::Path(word) if word.eq_ignore_ascii_case("false") => Ok(false),
            Value::Path(word) if word.eq_ignore_ascii_case("true") => Ok(true),
            _ => Err(self.wrong("signed")),
        }
    }

    /// The encoding of texts; none where it is an integer after all.
    fn encoding(&self, value: &Value) -> Result<Option<Encoding>> {
        match value {
            Value::Path(word) if word.eq_ignore_ascii_case("none") => Ok(None),
            Value::Path(word) if word.eq_ignore_ascii_case("utf8") || word.eq_ignore_ascii_case("ascii") => {
                Ok(Some(Encoding::Utf8))
            }
            _ => Err(self.wrong("encoding")),
        }
    }

    fn wrong(&self, attribute: &str) -> Error {
        Error::metadata(self.line(), format!("{attribute} cannot have this value"))
    }

    /// A field that an earlier one is, or is in.
    fn field_path(&mut self) -> Result<String> {
        let line = self.line();
        let path = self.path()?;
        if is_keyword(&path) { Err(Error::metadata(line, format!("{path} is a keyword, and no field"))) } else { Ok(path) }
    }

    fn alignment(&self, bits: u64) -> Result<u32> {
        let valid = u32::try_from(bits).ok().filter(|bits| bits.is_power_of_two() && *bits <= 1 << 16);
        valid.ok_or_else(|| Error::metadata(self.line(), format!("alignment of {bits} bits")))
    }

    /// The optional name behind `struct`, `enum` or `variant`: types of each have names of their own.
    fn tag_name(&mut self, kind: &str) -> Result<Option<String>> {
        match self.peek_word() {
            Some(_) => Ok(Some(format!("{kind} {}", self.name()?))),
            None => Ok(None),
        }
    }

    fn keep(&mut self, name: Option<String>, class: Type, line: u32) -> Result<Type> {
        if let Some(name) = name {
            self.parser.declare(name, class.clone(), line)?;
        }
        Ok(class)
    }
}

/// Makes sure that the tag of a variant can choose something, where it is one of the members in front of it.
fn chosen_by(variant: &Variant, members: &[Member]) -> Result<(), String> {
    let name = &variant.tag.name;
    let Some(tag) = members.iter().rev().find(|member| member.declared_name == *name) else { return Ok(()) };
    match &tag.class {
        Type::Enumeration(tag) if crate::resolve::choices(variant, &tag.labels).is_empty() => {
            Err(format!("no label of {name} is an option of the variant"))
        }
        Type::Enumeration(_) => Ok(()),
        _ => Err(format!("tag {name} is no enumeration")),
    }
}

fn reference(name: String) -> Reference {
    Reference::new(name, None)
}
