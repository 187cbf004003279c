//! A thousand tracepoints, each with a probe.

macro_rules! ten {
    ($inner:ident $(, $rest:ident)*) => {
        pub(crate) mod a { $inner!($($rest),*); }
        pub(crate) mod b { $inner!($($rest),*); }
        pub(crate) mod c { $inner!($($rest),*); }
        pub(crate) mod d { $inner!($($rest),*); }
        pub(crate) mod e { $inner!($($rest),*); }
        pub(crate) mod f { $inner!($($rest),*); }
        pub(crate) mod g { $inner!($($rest),*); }
        pub(crate) mod h { $inner!($($rest),*); }
        pub(crate) mod i { $inner!($($rest),*); }
        pub(crate) mod j { $inner!($($rest),*); }
        #[inline(always)]
        pub(crate) fn all(value: u64) {
            a::all(value);
            b::all(value);
            c::all(value);
            d::all(value);
            e::all(value);
            f::all(value);
            g::all(value);
            h::all(value);
            i::all(value);
            j::all(value);
        }
    };
}

macro_rules! one {
    () => {
        #[ringtrace::tracepoint(record)]
        pub(crate) fn site(value: u64);
        /// A function of its own around each: a leaf while its tracepoint is off.
        #[inline(never)]
        pub(crate) fn all(value: u64) {
            std::hint::black_box(value);
            site(value);
        }
    };
}

ten!(ten, ten, one);

/// The same functions without tracepoints.
pub(crate) mod bare {
    macro_rules! bare {
        () => {
            #[inline(never)]
            pub(crate) fn all(value: u64) {
                std::hint::black_box(value);
            }
        };
    }
    ten!(ten, ten, bare);
}

/// Fires all but the first.
#[inline(never)]
pub(crate) fn all_but_one(value: u64) {
    macro_rules! call {
        ($($module:ident)*) => {$( $module::all(value); )*};
    }
    call!(b c d e f g h i j);
    {
        use a::{b, c, d, e, f, g, h, i, j};
        call!(b c d e f g h i j);
    }
    use a::a::{b, c, d, e, f, g, h, i, j};
    call!(b c d e f g h i j);
}

pub(crate) const COUNT: u64 = 1000;
