//! A framework that hands ringtrace on under a name of its own.
pub use rt as tracer;

/// Declares a tracepoint for those who depend on the framework only.
#[macro_export]
macro_rules! declare {
    ($name:ident ($($argument:ident: $type:ty),*)) => {
        #[$crate::tracer::tracepoint(record, unsafe(crate = $crate::tracer))]
        fn $name($($argument: $type),*);
    };
}
