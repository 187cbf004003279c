//! Tokens to a tree, by precedence.

use crate::error::Error;
use crate::syntax::{Calculation as C, Comparison as O, Node, NodeKind, Operator, Path};
use crate::token::{self, Token, TokenKind};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use winnow::combinator::{Infix, Prefix, expression, fail};
use winnow::error::{ErrMode, ParserError};
use winnow::prelude::*;
use winnow::stream::{Stream, TokenSlice};
use winnow::token::any;

/// How deep parentheses, and operators before a value, may be nested.
const DEEPEST: usize = 24;
/// Most tokens: the depth of a tree is at most this, so what walks it may recurse.
const MOST: usize = 600;

type Tokens<'t> = TokenSlice<'t, Token>;

/// Why a parser stopped. The first one is what is wrong: the grammar never needs to go back more than one token.
#[derive(Debug)]
struct Stop(Option<Error>);

impl<'t> ParserError<Tokens<'t>> for Stop {
    type Inner = Stop;

    fn from_input(_: &Tokens<'t>) -> Stop {
        Stop(None)
    }

    fn into_inner(self) -> Result<Stop, Stop> {
        Ok(self)
    }
}

type Parsed<T> = Result<T, ErrMode<Stop>>;

fn stop<T>(error: Error) -> Parsed<T> {
    Err(ErrMode::Cut(Stop(Some(error))))
}

pub(crate) fn parse(text: &str) -> Result<Node, Error> {
    let tokens = token::tokens(text)?;
    check_depth(&tokens)?;
    let mut rest = Tokens::new(&tokens);
    let end = text.len();
    whole(&mut rest, end).map_err(|stop| problem(stop, end))
}

pub(crate) fn parse_path(text: &str) -> Result<Path, Error> {
    let tokens = token::tokens(text)?;
    let end = text.len();
    let mut rest = Tokens::new(&tokens);
    let begins = matches!(rest.peek_token(), Some(Token { kind: TokenKind::Name(_) | TokenKind::Scope(_), .. }));
    if !begins {
        return Err(Error::new(&(0..end), "expected the name of a field", ""));
    }
    let (found, _) = path(&mut rest, end).map_err(|stop| problem(stop, end))?;
    match rest.peek_token() {
        None => Ok(found),
        Some(token) => Err(Error::new(&token.span, "expected the name of a field alone", "")),
    }
}

fn problem(stop: ErrMode<Stop>, end: usize) -> Error {
    match stop {
        ErrMode::Cut(Stop(Some(error))) | ErrMode::Backtrack(Stop(Some(error))) => error,
        _ => Error::new(&(end..end), "expected a value", ""),
    }
}

fn check_depth(tokens: &[Token]) -> Result<(), Error> {
    let (mut open, mut run) = (0usize, 0usize);
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Symbol("(") => open += 1,
            TokenKind::Symbol(")") => open = open.saturating_sub(1),
            _ => {}
        }
        run = if matches!(token.kind, TokenKind::Symbol("!" | "-")) { run + 1 } else { 0 };
        if open > DEEPEST || run > DEEPEST {
            return Err(Error::new(&token.span, format!("nested deeper than {DEEPEST} levels"), "simplify the filter"));
        }
        if i == MOST {
            let remedy = "give two rules, or let the probe decide";
            return Err(Error::new(&token.span, format!("a filter has at most {MOST} words and signs"), remedy));
        }
    }
    Ok(())
}

fn whole(tokens: &mut Tokens<'_>, end: usize) -> Parsed<Node> {
    let node = node(tokens, end)?;
    match tokens.peek_token() {
        None => Ok(node),
        Some(token) => stop(trailing(&node, token)),
    }
}

/// What to say of a token after a complete expression.
fn trailing(node: &Node, token: &Token) -> Error {
    match &token.kind {
        TokenKind::Symbol(")") => Error::new(&token.span, "no `(` belongs to this `)`", ""),
        TokenKind::Symbol(symbol) if operator(symbol).is_some() && matches!(node.kind, NodeKind::Binary(..)) => {
            Error::new(&token.span, "comparisons do not chain", "join two with `&&`, as in `1 < a && a < 5`")
        }
        TokenKind::Name(word) if matches!(word.as_str(), "and" | "or" | "not") => {
            Error::new(&token.span, format!("`{word}` is no operator"), "write `&&`, `||` or `!`")
        }
        _ if matches!(&node.kind, NodeKind::Path(path) if path.names.iter().all(|(name, _)| name == "not")) => {
            Error::new(&node.span, "`not` is no operator", "write `!(…)`")
        }
        _ => Error::new(&token.span, "expected an operator or the end", "conditions are joined with `&&` and `||`"),
    }
}

fn node(tokens: &mut Tokens<'_>, end: usize) -> Parsed<Node> {
    expression(move |tokens: &mut Tokens<'_>| operand(tokens, end)).prefix(prefix).infix(infix).parse_next(tokens)
}

fn prefix<'t>(tokens: &mut Tokens<'t>) -> Parsed<Prefix<Tokens<'t>, Node, ErrMode<Stop>>> {
    match any.parse_next(tokens)? {
        Token { kind: TokenKind::Symbol("-"), .. } => Ok(Prefix(100, |_, node| Ok(prefixed(node, NodeKind::Negate)))),
        Token { kind: TokenKind::Symbol("!"), .. } => Ok(Prefix(100, |_, node| Ok(prefixed(node, NodeKind::Not)))),
        _ => fail.parse_next(tokens),
    }
}

fn prefixed(node: Node, kind: fn(Box<Node>) -> NodeKind) -> Node {
    let span = node.span.clone();
    Node { kind: kind(Box::new(node)), span }
}

fn binary(operator: Operator, left: Node, right: Node) -> Node {
    let span = left.span.start..right.span.end;
    Node { kind: NodeKind::Binary(operator, Box::new(left), Box::new(right)), span }
}

/// The precedence of Rust.
fn operator(symbol: &str) -> Option<i64> {
    Some(match symbol {
        "||" => 10,
        "&&" => 20,
        "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" => 30,
        "|" => 40,
        "^" => 50,
        "&" => 60,
        "<<" | ">>" => 70,
        "+" | "-" => 80,
        "*" | "/" | "%" => 90,
        _ => return None,
    })
}

fn infix<'t>(tokens: &mut Tokens<'t>) -> Parsed<Infix<Tokens<'t>, Node, ErrMode<Stop>>> {
    macro_rules! operators {
        ($symbol:expr, $($text:literal => $side:ident $operator:expr,)*) => {
            match ($symbol, operator($symbol)) {
                $(($text, Some(power)) => Ok(Infix::$side(power, |_, a, b| Ok(binary($operator, a, b)))),)*
                _ => fail.parse_next(tokens),
            }
        };
    }
    let Token { kind: TokenKind::Symbol(symbol), .. } = any.parse_next(tokens)? else {
        return fail.parse_next(tokens);
    };
    operators! {
        *symbol,
        "||" => Left Operator::Or,
        "&&" => Left Operator::And,
        "==" => Neither Operator::Compare(O::Equal),
        "!=" => Neither Operator::Compare(O::NotEqual),
        "<" => Neither Operator::Compare(O::Less),
        "<=" => Neither Operator::Compare(O::LessOrEqual),
        ">" => Neither Operator::Compare(O::Greater),
        ">=" => Neither Operator::Compare(O::GreaterOrEqual),
        "~" => Neither Operator::Matches,
        "!~" => Neither Operator::MatchesNot,
        "|" => Left Operator::Calculate(C::BitOr),
        "^" => Left Operator::Calculate(C::BitXor),
        "&" => Left Operator::Calculate(C::BitAnd),
        "<<" => Left Operator::Calculate(C::ShiftLeft),
        ">>" => Left Operator::Calculate(C::ShiftRight),
        "+" => Left Operator::Calculate(C::Add),
        "-" => Left Operator::Calculate(C::Subtract),
        "*" => Left Operator::Calculate(C::Multiply),
        "/" => Left Operator::Calculate(C::Divide),
        "%" => Left Operator::Calculate(C::Remainder),
    }
}

/// A value, or what stands in parentheses. Stops for good where neither stands, except before a sign that may come first.
fn operand(tokens: &mut Tokens<'_>, end: usize) -> Parsed<Node> {
    let Some(token) = tokens.peek_token() else {
        return stop(Error::new(&(end..end), "expected a value, but the filter ends here", ""));
    };
    let span = token.span.clone();
    let kind = match &token.kind {
        TokenKind::Symbol("-" | "!") => return fail.parse_next(tokens),
        TokenKind::Symbol("(") => {
            tokens.next_token();
            let inner = node(tokens, end)?;
            let close = closing(tokens, &span, end)?;
            return Ok(Node { kind: inner.kind, span: span.start..close });
        }
        TokenKind::Symbol(symbol) => {
            return stop(Error::new(&span, format!("expected a value, found `{symbol}`"), ""));
        }
        TokenKind::Integer(value) => NodeKind::Integer(*value),
        TokenKind::Float(value) => NodeKind::Float(*value),
        TokenKind::Text(value) => NodeKind::Text(value.clone()),
        TokenKind::Name(name) if name == "true" || name == "false" => NodeKind::Bool(name == "true"),
        TokenKind::Name(_) | TokenKind::Scope(_) => return named(tokens, end),
    };
    tokens.next_token();
    Ok(Node { kind, span })
}

/// Takes a `)`. Returns where it ends.
fn closing(tokens: &mut Tokens<'_>, open: &Range<usize>, end: usize) -> Parsed<usize> {
    match tokens.next_token() {
        Some(Token { kind: TokenKind::Symbol(")"), span }) => Ok(span.end),
        Some(token) => stop(Error::new(&token.span, "expected an operator or `)`", "conditions are joined with `&&` and `||`")),
        None => stop(Error::new(&(open.start..open.end.min(end)), "no `)` belongs to this `(`", "")),
    }
}

/// A path, or `has(path)`.
fn named(tokens: &mut Tokens<'_>, end: usize) -> Parsed<Node> {
    let (first, span) = path(tokens, end)?;
    let is_call = matches!(tokens.peek_token(), Some(Token { kind: TokenKind::Symbol("("), .. }));
    if !is_call {
        return Ok(Node { kind: NodeKind::Path(first), span });
    }
    let [(function, _)] = first.names.as_slice() else {
        return stop(Error::new(&span, "only `has(FIELD)` is a function", ""));
    };
    if function != "has" || first.context {
        return stop(Error::new(&span, format!("`{function}` is no function"), "the only one is `has(FIELD)`"));
    }
    let open = tokens.next_token().map_or(span.clone(), |t| t.span.clone());
    let begins_path = matches!(tokens.peek_token(), Some(Token { kind: TokenKind::Name(_) | TokenKind::Scope(_), .. }));
    if !begins_path {
        let span = tokens.peek_token().map_or(end..end, |t| t.span.clone());
        return stop(Error::new(&span, "expected the name of a field", "`has(FIELD)` is true if an optional field has a value"));
    }
    let (inner, _) = path(tokens, end)?;
    let close = closing(tokens, &open, end)?;
    Ok(Node { kind: NodeKind::Has(inner), span: span.start..close })
}

fn path(tokens: &mut Tokens<'_>, end: usize) -> Parsed<(Path, Range<usize>)> {
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    let mut context = false;
    let mut span = end..end;
    match tokens.next_token() {
        Some(Token { kind: TokenKind::Scope(word), span: at }) if word == "ctx" => {
            (context, span) = (true, at.clone());
        }
        Some(Token { kind: TokenKind::Scope(word), span }) => {
            return stop(Error::new(span, format!("`${word}` is nothing"), "context fields are written `$ctx.NAME`"));
        }
        Some(Token { kind: TokenKind::Name(name), span: at }) => {
            span = at.clone();
            names.push((name.clone(), at.clone()));
        }
        _ => {}
    }
    loop {
        let dotted = matches!(tokens.peek_token(), Some(Token { kind: TokenKind::Symbol("."), .. }));
        if !dotted {
            break;
        }
        let dot = tokens.next_token().map_or(end..end, |t| t.span.clone());
        match tokens.next_token() {
            Some(Token { kind: TokenKind::Name(name), span: at }) => {
                span.end = at.end;
                names.push((name.clone(), at.clone()));
            }
            _ => return stop(Error::new(&dot, "a name is missing after `.`", "")),
        }
    }
    if names.is_empty() {
        return stop(Error::new(&span, "`$ctx` alone is no value", "context fields are written `$ctx.NAME`"));
    }
    Ok((Path { context, names }, span))
}
