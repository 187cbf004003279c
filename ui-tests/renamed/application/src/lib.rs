//! An application of the framework, without ringtrace among its dependencies.
#![deny(warnings)]

/// The framework's macro says where ringtrace is, and answers for that.
mod declared {
    #![forbid(unsafe_code)]

    framework::declare!(started(id: u64, name: &str));

    pub(crate) fn run() {
        started(1, "a");
    }
}

/// The application says so itself, which the lint sees.
mod by_hand {
    #![expect(unsafe_code, reason = "`framework::tracer` is ringtrace")]

    use framework::tracer;

    #[tracer::tracepoint(unsafe(crate = framework::tracer))]
    fn stopped(id: u64);

    #[derive(tracer::Field)]
    #[field(unsafe(crate = framework::tracer))]
    enum Why {
        Done,
        Failed { code: i32 },
    }

    #[derive(tracer::Event)]
    #[field(unsafe(crate = framework::tracer))]
    struct Stopped {
        id: u64,
        why: Why,
    }

    #[tracer::probe(stopped, unsafe(crate = framework::tracer))]
    fn record_stopped(id: u64) -> Stopped {
        Stopped { id, why: if id == 0 { Why::Done } else { Why::Failed { code: 1 } } }
    }

    #[tracer::tracepoint(unsafe(crate = framework::tracer))]
    pub(crate) fn run() {
        tracer::fire!(stopped(1));
        tracer::event!("application:ran", of = 1; unsafe(crate = framework::tracer));
    }
}

/// Runs.
pub fn run() {
    declared::run();
    by_hand::run();
}
