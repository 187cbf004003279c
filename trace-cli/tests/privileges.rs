//! Whom a process answers: nobody to whom the kernel would refuse to look into it. And who may load modules into it.
#![cfg(target_os = "linux")]

mod common;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use common::{Place, Program, an_agent_answers, is_program, is_root, orders, text, this};
use ringtrace::tracepoint;
use trace_control::Client;
use trace_control::place::images;
use trace_control::protocol::{Process, Request};

#[tracepoint(record)]
fn counted(number: u64);

const PROGRAM: &str = "program";
const CLIENT: &str = "client";

/// CAP_NET_RAW of capabilities(7).
const NET_RAW: u32 = 13;
const NONE: Option<u32> = None;

fn prctl(option: i32, argument: u64) {
    // SAFETY: these options take one number.
    #[expect(unsafe_code, reason = "prctl(2)")]
    let result = unsafe { libc::prctl(option, argument, 0, 0, 0) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

#[test]
fn program() {
    if !is_program(PROGRAM) {
        return;
    }
    ringtrace::init();
    for order in orders() {
        match order.as_str() {
            "fire" => counted(1),
            "guard" => prctl(libc::PR_SET_DUMPABLE, 0),
            "open" => prctl(libc::PR_SET_DUMPABLE, 1),
            "allow" => ringtrace::Module::allow_from_outside(),
            _ => panic!("{order}?"),
        }
        println!("done");
    }
}

/// Asks again and again over one connection.
#[test]
fn client() {
    if !is_program(CLIENT) {
        return;
    }
    let base = std::env::var_os("RINGTRACE_DIR").expect("a base");
    let mut client = images(base.as_ref()).expect("images").first().map(|image| Client::connect(image).expect("it listens"));
    for _ in orders() {
        let answer = client.as_mut().expect("an image").ask::<Process>(&Request::Hello);
        println!("{} done", answer.map_or_else(|e| e.to_string().replace('\n', " "), |p| format!("answered by {}", p.pid)));
    }
}

/// What these tests need root for.
const PRIVILEGES: &str = "capabilities to drop";

/// Lets a command of root have no capability but this one.
#[expect(unsafe_code, reason = "the bounding set is dropped between fork and exec")]
fn only(kept: Option<u32>, mut command: Command) -> Command {
    let drop_others = move || {
        for capability in (0..64).filter(|c| Some(*c) != kept) {
            // SAFETY: it takes a number; those that the kernel does not know fail.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, u64::from(capability), 0, 0, 0) };
        }
        Ok(())
    };
    // SAFETY: it makes system calls only.
    unsafe { command.pre_exec(drop_others) };
    command
}

fn start(place: &Place, wrap: impl FnOnce(Command) -> Command, name: &str) -> Program {
    let program = Program::spawn(wrap(place.command(this())), name);
    if name == PROGRAM {
        an_agent_answers(place);
    }
    program
}

fn said(mut command: Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    (status.success(), text(&stdout) + &text(&stderr))
}

/// Asks as somebody, by the command: whether it is answered, and what is said. `ps` says why not.
fn is_answered(place: &Place, wrap: impl Fn(Command) -> Command, why: &str) {
    let (done, list) = said(wrap(place.ringtrace(&["list"])));
    let (_, ps) = said(wrap(place.ringtrace(&["ps"])));
    if why.is_empty() {
        assert!(done && list.contains("privileges:counted") && ps.contains("COMMAND"), "{list}\n{ps}");
        return;
    }
    for said in [&list, &ps] {
        assert!(said.contains("the kernel keeps this process from yours, because") && said.contains(why), "{said}");
    }
    assert!(!done && !list.contains("privileges:counted") && !ps.contains("COMMAND"), "{list}\n{ps}");
    for verb in [&["record", "*", "--for", "10ms"][..], &["session", "create", "x"], &["module", "load", "/nowhere.so"]] {
        let (done, said) = said(wrap(place.ringtrace(verb)));
        assert!(!done && said.contains(why), "{verb:?}: {said}");
    }
}

#[test]
fn a_process_answers_nobody_who_lacks_its_capabilities() {
    if !is_root(PRIVILEGES) {
        return;
    }
    const WHY: &str = "it holds capabilities";
    for (has, may) in [
        (NONE, [(Some(NONE), ""), (Some(Some(NET_RAW)), ""), (None, "")]),
        (Some(NET_RAW), [(Some(NONE), WHY), (Some(Some(NET_RAW)), ""), (None, "")]),
    ] {
        let place = Place::new();
        let program = start(&place, |c| only(has, c), PROGRAM);
        for (peer, why) in may {
            let wrap = |command| if let Some(kept) = peer { only(kept, command) } else { command };
            is_answered(&place, wrap, why);
        }
        program.end();
    }
    let place = Place::new();
    let program = start(&place, |c| c, PROGRAM);
    is_answered(&place, |c| only(NONE, c), WHY);
    is_answered(&place, |c| only(Some(NET_RAW), c), WHY);
    is_answered(&place, |c| c, "");
    program.end();
}

#[test]
fn capabilities_of_a_user_namespace_are_none() {
    if !is_root(PRIVILEGES) {
        return;
    }
    let in_namespace = |command: Command| {
        let mut inside = Command::new("unshare");
        inside.args(["--user", "--map-root-user"]).arg(command.get_program()).args(command.get_args());
        command.get_envs().for_each(|(name, value)| _ = value.map(|value| inside.env(name, value)));
        inside.current_dir(command.get_current_dir().expect("one"));
        inside
    };
    if !said(in_namespace(Place::new().command("true"))).0 {
        eprintln!("skipped: unshare(1) is not allowed to make namespaces");
        return;
    }
    // A sandbox is one also where the program has nothing that others of its user lack.
    for (has, why) in [(true, "it holds capabilities"), (false, "yours is in a sandbox")] {
        let place = Place::new();
        let program = start(&place, |c| if has { c } else { only(NONE, c) }, PROGRAM);
        is_answered(&place, in_namespace, why);
        program.end();
    }
}

#[test]
fn a_process_that_is_not_dumpable_answers_who_may_look_into_it_all_the_same() {
    if !is_root(PRIVILEGES) {
        return;
    }
    let place = Place::new();
    let mut program = start(&place, |c| only(NONE, c), PROGRAM);
    let mut client = start(&place, |c| only(NONE, c), CLIENT);
    let answered = format!("answered by {}", program.pid());
    assert!(client.tell("ask").contains(&answered));
    // It changes: what was answered before is not, nor over the same connection.
    program.tell("guard");
    is_answered(&place, |c| only(NONE, c), "it is not dumpable");
    let said = client.tell("ask");
    assert!(said.contains("it is not dumpable"), "{said}");
    is_answered(&place, |c| c, "");
    program.tell("open");
    is_answered(&place, |c| only(NONE, c), "");
    assert!(client.tell("ask").contains(&answered));
    client.end();
    program.end();
}

#[test]
fn modules_are_loaded_from_outside_only_where_somebody_allows_it() {
    const REFUSED: &str = "nobody has allowed that modules are loaded into this process from outside";
    let place = Place::new();
    for environment in [&[][..], &[("RINGTRACE", "modules")], &[("RINGTRACE", "print; privileges:nothing*; modules")]] {
        let mut program = Program::start_with(&place, PROGRAM, environment);
        let load = || place.fail(&["module", "load", "/nowhere.so"]);
        if environment.is_empty() {
            let (code, said) = load();
            assert!(code == 1 && said.contains(REFUSED), "{said}");
            assert!(said.contains("RINGTRACE=modules") && said.contains("Module::allow_from_outside()"), "{said}");
            program.tell("allow");
        }
        let (code, said) = load();
        assert!(code == 1 && said.contains("cannot load /nowhere.so") && !said.contains(REFUSED), "{said}");
        // `modules` alone records nothing.
        let sessions = place.json(&["ps"])[0]["process"]["sessions"].as_array().expect("a list").len();
        assert_eq!(sessions, usize::from(environment.iter().any(|(_, value)| value.contains("print"))));
        program.end();
    }
}

/// For people, as docs/control-protocol.md has it: a peer of the same user that writes its lines itself.
#[test]
fn a_plain_process_asks_its_user_for_what_its_user_can_read() {
    if !is_root(PRIVILEGES) {
        return;
    }
    let place = Place::new();
    let program = start(&place, |c| only(NONE, c), PROGRAM);
    let mut peer = place.command("perl");
    let script = r#"
        use IO::Socket::UNIX;
        my ($path) = glob("$ENV{RINGTRACE_DIR}/*/control");
        my ($pid) = $path =~ m{/(\d+)-[^/]*/control$};
        my $agent = IO::Socket::UNIX->new($path);
        sub ask { print $agent "{\"v\":1,\"do\":$_[0]}\n"; scalar <$agent> }
        print ask('"status"');
        open(my $maps, "<", "/proc/$pid/maps");
        my ($secret) = map { /ringtrace-proof-(\w+)/ } <$maps>;
        print ask("\"prove\",\"with\":{\"secret\":\"$secret\"}"), ask('"status"');"#;
    peer.args(["-e", script]).stdin(Stdio::null());
    let (_, said) = said(only(NONE, peer));
    let [refused, proven, status] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(refused.contains("unproven") && proven.contains("\"ok\":{}") && status.contains("\"sessions\":"), "{said}");
    program.end();
}
