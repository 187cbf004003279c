//! Filter expressions on decoded events.

use trace_ctf::declared::{Enumeration, EventClass, Member, StreamClass, Structure, Type};
use trace_ctf::reader::{Event, Field, Long, Scalar, Scope, Value};
use trace_filter::{Error, Expression, Input, Kind, Label, Program, Step, Survey};

/// A filter for the events of one class.
#[derive(Debug)]
pub(super) struct Filter {
    program: Program,
    inputs: Vec<Access>,
}

/// A field as the filter sees it, and the way to its value.
struct Node {
    name: String,
    shape: Shape,
    /// Names from the scope's structure down to it.
    path: Vec<String>,
}

enum Shape {
    Plain(Kind),
    Structure(Vec<Node>),
    Optional(Box<Node>),
    Variant(Vec<Node>),
    /// Perhaps there, under a key that is known only at run time, and taken for one of this kind.
    Extra(Kind),
}

/// How a value is read from an event.
#[derive(Debug)]
enum Access {
    Field(Field),
    /// By way of the tree of values, for what is no scalar or is hidden by another field of its name.
    Tree {
        scopes: Vec<Scope>,
        path: Vec<String>,
        asks: Asks,
    },
    /// A key that is known only at run time, or whether it is there.
    Extra {
        key: String,
        is_presence: bool,
    },
}

#[derive(Clone, Debug)]
enum Asks {
    Value,
    Presence,
    Option(Vec<String>),
}

impl Filter {
    /// Makes the filter unless no event of the class is meant, and takes note in the survey.
    pub(super) fn new(
        expression: &Expression,
        stream: &StreamClass,
        class: &EventClass,
        survey: &mut Survey<'_>,
    ) -> Option<Self> {
        let mut fields = nodes(class.fields.as_ref().map(|root| &root.structure), &[]);
        let context = context(stream, class);
        let program = compile(expression, &mut fields, &context, class);
        survey.add(&class.name, scope(&fields, &context), program.as_ref().err().cloned());
        let program = program.ok()?;
        let access = |input: &Input| {
            let (nodes, scopes) = if input.context {
                (&context, vec![Scope::EventContext, Scope::StreamContext, Scope::PacketContext])
            } else {
                (&fields, vec![Scope::Payload])
            };
            Access::new(nodes, scopes, input, stream, class)
        };
        let inputs = program.inputs().iter().map(access).collect();
        Some(Self { program, inputs })
    }

    pub(super) fn accepts(&self, event: &Event<'_>) -> bool {
        self.program.accepts(&Inputs { filter: self, event })
    }
}

fn scope(fields: &[Node], context: &[Node]) -> trace_filter::Scope {
    trace_filter::Scope::new(fields.iter().map(Node::describe), context.iter().map(Node::describe))
}

/// Compiles an expression. What no field is called may be a key of the event; of which kind, the expression decides.
fn compile(expression: &Expression, fields: &mut Vec<Node>, context: &[Node], class: &EventClass) -> Result<Program, Error> {
    if !class.has_extras() {
        return expression.compile_partial(&scope(fields, context));
    }
    let error = match expression.compile(&scope(fields, context)) {
        Err(error) if error.is_unknown() => error,
        compiled => return compiled,
    };
    let Some(name) = error.text().get(error.span()).map(|name| name.trim_matches('`').to_owned()) else { return Err(error) };
    let mut failed = None;
    for kind in [Kind::Text, Kind::Float, Kind::Integer, Kind::Bool] {
        fields.push(Node { name: name.clone(), shape: Shape::Extra(kind), path: Vec::new() });
        match compile(expression, fields, context, class) {
            Ok(program) => return Ok(program),
            Err(error) => drop(failed.get_or_insert(error)),
        }
        fields.pop();
    }
    Err(failed.unwrap_or(error))
}

struct Inputs<'e> {
    filter: &'e Filter,
    event: &'e Event<'e>,
}

impl trace_filter::Record for Inputs<'_> {
    fn value(&self, input: usize) -> trace_filter::Value<'_> {
        self.filter.inputs.get(input).map_or(trace_filter::Value::Missing, |access| access.read(self.event))
    }
}

impl Access {
    fn new(nodes: &[Node], scopes: Vec<Scope>, input: &Input, stream: &StreamClass, class: &EventClass) -> Self {
        let (mut node, mut asks) = (None, Asks::Value);
        for step in &input.path {
            let among = match node.map(|node: &Node| &node.bare().shape) {
                None => nodes,
                Some(Shape::Structure(nodes) | Shape::Variant(nodes)) => nodes,
                Some(_) => &[],
            };
            match step {
                Step::Presence => asks = Asks::Presence,
                Step::Field(place) | Step::Option(place) => node = among.get(usize::from(*place)),
            }
        }
        if let Some(Node { shape: Shape::Extra(_), name, .. }) = node {
            return Self::Extra { key: name.clone(), is_presence: matches!(asks, Asks::Presence) };
        }
        if let Asks::Value = asks {
            node = node.map(Node::bare);
        }
        if let (Asks::Value, Some(Node { shape: Shape::Variant(options), .. })) = (&asks, node) {
            asks = Asks::Option(options.iter().map(|option| option.name.clone()).collect());
        }
        let path = node.map(|node| node.path.clone()).unwrap_or_default();
        if let Asks::Value = asks {
            let field = Field::find(stream, class, &path.join("."));
            if let Some(field) = field.filter(|field| scopes.contains(&field.scope())) {
                return Self::Field(field);
            }
        }
        Self::Tree { scopes, path, asks }
    }

    fn read<'e>(&self, event: &Event<'e>) -> trace_filter::Value<'e> {
        use trace_filter::Value as Of;
        let (scopes, path, asks) = match self {
            Self::Field(field) => return event.get(field).map_or(Of::Missing, scalar),
            Self::Tree { scopes, path, asks } => (scopes, path, asks),
            Self::Extra { key, is_presence: true } => return Of::Integer(event.extra(key).is_some().into()),
            Self::Extra { key, is_presence: false } => return event.extra(key).map_or(Of::Missing, scalar),
        };
        let tree = scopes.iter().find_map(|scope| descend(event.value(*scope), path));
        match asks {
            Asks::Presence => Of::Integer(tree.is_some_and(|value| !is_absent(&value)).into()),
            Asks::Option(names) => match tree {
                Some(Value::Variant(name, _)) => {
                    names.iter().position(|option| *option == name).map_or(Of::Missing, |place| Of::Integer(place as i128))
                }
                _ => Of::Missing,
            },
            Asks::Value => match tree {
                Some(Value::Unsigned(number) | Value::Flags(number, _)) => Of::Integer(number.into()),
                Some(Value::Signed(number)) => Of::Integer(number.into()),
                Some(Value::Long(number)) => Of::Integer(saturated(number)),
                Some(Value::Float(number)) => Of::Float(number),
                Some(Value::Boolean(value)) => Of::Integer(value.into()),
                Some(Value::Enumeration(number, _)) => Of::Integer(number),
                Some(Value::Text(std::borrow::Cow::Borrowed(text))) => Of::Text(text.as_bytes()),
                _ => Of::Missing,
            },
        }
    }
}

fn scalar(value: Scalar<'_>) -> trace_filter::Value<'_> {
    use trace_filter::Value as Of;
    match value {
        Scalar::Unsigned(number) | Scalar::Flags(_, number) => Of::Integer(number.into()),
        Scalar::Signed(number) => Of::Integer(number.into()),
        Scalar::Long(number) => Of::Integer(saturated(number)),
        Scalar::Float(number) => Of::Float(number),
        Scalar::Boolean(value) => Of::Integer(value.into()),
        Scalar::Enumeration(_, number) => Of::Integer(number),
        Scalar::Text(bytes) => Of::Text(bytes),
        _ => Of::Missing,
    }
}

/// An integer of variable length. Nothing that filters compare it to reaches what this leaves out.
fn saturated(number: Long) -> i128 {
    number.as_i128().unwrap_or(i128::MAX)
}

fn is_absent(value: &Value<'_>) -> bool {
    matches!(value, Value::Absent) || matches!(value, Value::Variant(name, _) if name == "none")
}

/// Follows names into a value; an option that is not the current one leads nowhere.
fn descend<'v>(value: Value<'v>, path: &[String]) -> Option<Value<'v>> {
    let Some((first, rest)) = path.split_first() else { return Some(value) };
    match value {
        Value::Structure(members) => {
            let (_, inner) = members.into_iter().find(|(name, _)| name == first)?;
            descend(inner, rest)
        }
        Value::Variant(name, inner) if name == *first => descend(*inner, rest),
        _ => None,
    }
}

/// The fields of the contexts, from the inside to the outside, each name once.
fn context(stream: &StreamClass, class: &EventClass) -> Vec<Node> {
    let mut all: Vec<Node> = Vec::new();
    for root in [&class.context, &stream.event_context, &stream.packet_context].into_iter().flatten() {
        for node in nodes(Some(&root.structure), &[]) {
            if !all.iter().any(|known| known.name == node.name) {
                all.push(node);
            }
        }
    }
    all
}

fn nodes(structure: Option<&Structure>, path: &[String]) -> Vec<Node> {
    let members = structure.iter().flat_map(|structure| &structure.members);
    members.filter(|member| !member.is_companion()).map(|member| Node::new(member, path)).collect()
}

impl Node {
    fn new(member: &Member, outside: &[String]) -> Self {
        let path = [outside, &[member.name().to_owned()]].concat();
        Self::of(member.name().to_owned(), &member.class, path)
    }

    fn of(name: String, class: &Type, path: Vec<String>) -> Self {
        let shape = match class {
            Type::Long(class) if !class.variable => Shape::Plain(Kind::Unreadable("an integer of more than 64 bits")),
            Type::Integer(_) | Type::Long(_) | Type::Flags(_) => Shape::Plain(Kind::Integer),
            Type::Float(_) => Shape::Plain(Kind::Float),
            Type::Boolean(_) => Shape::Plain(Kind::Bool),
            Type::Enumeration(class) if is_bool(class) => Shape::Plain(Kind::Bool),
            Type::Enumeration(class) => {
                let label = |label: &trace_ctf::declared::Label| Label {
                    name: label.label.to_string(),
                    low: label.low,
                    high: label.high,
                };
                Shape::Plain(Kind::Enumeration(class.labels.iter().map(label).collect()))
            }
            Type::Text(_) => Shape::Plain(Kind::Text),
            Type::Array(array) if array.text().is_some() => Shape::Plain(Kind::Text),
            Type::Sequence(sequence) if sequence.text().is_some() => Shape::Plain(Kind::Text),
            Type::Array(_) => Shape::Plain(Kind::Unreadable("an array of values, and filters compare single ones")),
            Type::Sequence(_) => Shape::Plain(Kind::Unreadable("a sequence of values, and filters compare single ones")),
            Type::Blob(_) => Shape::Plain(Kind::Unreadable("bytes")),
            Type::Structure(structure) => {
                let mut members = nodes(Some(structure), &path);
                // Nested texts are recorded as structures of one member.
                match members.len() {
                    1 if members[0].name == "value" => return Self { name, ..members.remove(0) },
                    _ => Shape::Structure(members),
                }
            }
            Type::Optional(optional) => Shape::Optional(Box::new(Self::of(name.clone(), &optional.inner, path.clone()))),
            Type::Variant(variant) => match &variant.options[..] {
                [none, some] if none.name() == "none" && some.name() == "some" => {
                    Shape::Optional(Box::new(Self::new(some, &path)))
                }
                options => Shape::Variant(options.iter().map(|option| Self::new(option, &path)).collect()),
            },
        };
        Self { name, shape, path }
    }

    /// What is in it, where it is optional.
    fn bare(&self) -> &Self {
        match &self.shape {
            Shape::Optional(inner) => inner.bare(),
            _ => self,
        }
    }

    fn describe(&self) -> trace_filter::Field {
        trace_filter::Field::new(self.name.clone(), self.kind())
    }

    fn kind(&self) -> Kind {
        let describe = |nodes: &[Self]| nodes.iter().map(Self::describe).collect();
        match &self.shape {
            Shape::Plain(kind) => kind.clone(),
            Shape::Structure(members) => Kind::Structure(describe(members)),
            Shape::Optional(inner) => Kind::Optional(Box::new(inner.kind())),
            Shape::Extra(kind) => Kind::Optional(Box::new(kind.clone())),
            Shape::Variant(options) => Kind::Variant(describe(options)),
        }
    }
}

/// Whether an enumeration stands for a truth value, as CTF 1.8 has none.
fn is_bool(class: &Enumeration) -> bool {
    let is = |label: &str, value: i128| {
        class.labels.iter().any(|known| &*known.label == label && known.low == value && known.high == value)
    };
    class.labels.len() == 2 && is("false", 0) && is("true", 1)
}
