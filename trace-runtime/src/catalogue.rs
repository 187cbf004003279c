//! The catalogue: tracepoints and probes of the program and of the shared objects that it has loaded.
//!
//! What comes from a shared object is copied: names, descriptions and classes stay when the object goes, since sessions, traces
//! and people still refer to them. The same declaration, loaded again, gets the same copy, so that what is kept is bounded by what
//! was ever declared. Only functions and gates are the object's own.
//!
//! # Invariants
//!
//! - CA-1: Gates and functions of an image are used under the control lock only, and not after the image was taken out.
//! - CA-2: Images that declare a tracepoint of one name share its probes only where they agree on its arguments, and on whether it has
//!   a body ([`Types::difference`]).
//! - CA-3: A gate runs functions of its own image, of the program, of modules, which are unloaded when nobody is in them, and of shared
//!   objects that stay mapped ([`note_stay`]). So what dlclose(3) unmaps is in no list but those of its own gates, which only its own
//!   code reads: a program that unloads what it runs does wrong without us.

#![expect(
    unsafe_code,
    reason = "closes gates, promises what descriptions are good for, and reaches a parent's images by address"
)]

use crate::module::krate;
use crate::per_image::PerImage;
use crate::rcu::lock;
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use trace_registry::abi::Types;
use trace_registry::field::{FieldClass, FieldDescriptor, Label, VariantOption};
use trace_registry::image::{Contents, IMAGE, Image};
use trace_registry::probe::ErasedProbe;
use trace_registry::state_dump::{StateDump, StateDumpDescriptor};
use trace_registry::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use trace_registry::tracepoint::{Form, Location, Promise};
use trace_registry::{EventClass, Gate, Name, ProbeDescriptor, TracepointDescriptor};

/// A probe with its name, which is made only once. It stays when its image goes.
pub(crate) struct NamedProbe {
    pub(crate) probe: &'static ProbeDescriptor,
    pub(crate) name: String,
    /// The tracepoint that it is for, as the catalogue describes it.
    pub(crate) tracepoint: &'static TracepointDescriptor,
    /// The function in each image that has it.
    functions: Mutex<Vec<Function>>,
}

/// A probe's function in one image. As addresses.
struct Function {
    image: usize,
    function: usize,
    /// Whether gates of other images may run it (CA-3).
    is_lent: bool,
}

impl NamedProbe {
    /// Returns the function that a gate of `image` runs: its own, or the first that is lent. `None`: there is none.
    pub(crate) fn function(&self, image: &Image) -> Option<ErasedProbe> {
        let functions = lock(&self.functions);
        let own = functions.iter().find(|f| f.image == std::ptr::from_ref(image).addr());
        own.or_else(|| functions.iter().find(|f| f.is_lent)).map(|f| std::ptr::with_exposed_provenance(f.function))
    }
}

/// A tracepoint, its gates, and its probes.
pub(crate) struct Site {
    pub(crate) tracepoint: &'static TracepointDescriptor,
    /// One in each image that declares it (CA-1).
    gates: Vec<(&'static Image, &'static Gate)>,
    pub(crate) probes: Vec<&'static NamedProbe>,
}

impl Site {
    /// Its gates, each with its image, for who holds the control lock; the images use the read side of this one.
    pub(crate) fn gates(&self) -> impl Iterator<Item = (&'static Image, &'static Gate)> {
        self.gates.iter().map(|(image, gate)| {
            // SAFETY: it is loaded (CA-1), and has no other owner (IM-2).
            unsafe { image.adopt() };
            (*image, *gate)
        })
    }

    /// Whether `gate` is one of them.
    pub(crate) fn has(&self, gate: &Gate) -> bool {
        self.gates.iter().any(|(_, own)| std::ptr::eq(*own, gate))
    }

    /// Whether any is on; for who holds the control lock.
    pub(crate) fn is_on(&self) -> bool {
        self.gates.iter().any(|(_, gate)| !gate.list().is_null())
    }

    /// Whether its probes become known when it is hit first; for who holds the control lock.
    pub(crate) fn is_unhit(&self) -> bool {
        self.probes.is_empty() && self.gates.iter().any(|(_, gate)| gate.is_unhit())
    }
}

/// A state dump, of the program or of what it has loaded.
pub(crate) struct NamedDump {
    pub(crate) name: String,
    pub(crate) location: String,
    pub(crate) image: &'static Image,
    descriptor: &'static StateDumpDescriptor,
    run: fn(&StateDumpDescriptor, &StateDump<'_>) -> bool,
}

impl NamedDump {
    /// Whether the program has it, so that its event classes stay.
    pub(crate) fn is_own(&self) -> bool {
        std::ptr::eq(self.image, &raw const IMAGE)
    }

    /// Runs it, for who [keeps](while_loaded) its image from being unloaded. Returns false if it panicked.
    pub(crate) fn run(&self, into: &StateDump<'_>) -> bool {
        // SAFETY: the caller keeps it loaded; IM-2.
        unsafe { self.image.adopt() };
        (self.run)(self.descriptor, into)
    }
}

/// What was ever declared.
#[derive(Default)]
struct Catalogue {
    declared: Vec<Declared>,
    by_name: BTreeMap<String, Vec<usize>>,
    probes: HashMap<String, Vec<&'static NamedProbe>>,
    classes: Vec<&'static EventClass>,
    /// In the order in which they came; the program is the first.
    images: Vec<Loaded>,
}

struct Declared {
    tracepoint: &'static TracepointDescriptor,
    /// `None`: the program's, which can be asked.
    types: Option<Types>,
}

impl Declared {
    fn types(&self) -> Types {
        self.types.clone().unwrap_or_else(|| Types::of(self.tracepoint))
    }
}

struct Loaded {
    image: &'static Image,
    /// By index of `Catalogue::declared`.
    tracepoints: Vec<(usize, &'static Gate)>,
    probes: Vec<(usize, &'static NamedProbe)>,
    /// What [`Contents::hits`] was when they were taken in.
    hits: usize,
    dumps: &'static [StateDumpDescriptor],
    run_dump: fn(&StateDumpDescriptor, &StateDump<'_>) -> bool,
}

static CATALOGUE: PerImage<Mutex<Catalogue>> = PerImage::new(|| Mutex::new(Catalogue::of_process()));

/// What the catalogue says, for all to read.
static SITES: PerImage<ArcSwap<Vec<Site>>> = PerImage::new(|| ArcSwap::from_pointee(with(Catalogue::sites)));

/// A leaf among locks.
fn with<T>(act: impl FnOnce(&mut Catalogue) -> T) -> T {
    act(&mut lock(CATALOGUE.get()))
}

/// Begins anew with what is loaded; for a forked child.
pub(crate) fn renew() {
    CATALOGUE.renew();
    SITES.renew();
}

/// Closes the gates of tracepoints; for a forked child. Async-signal-safe.
pub(crate) fn close_gates(sites: &[Site]) {
    for site in sites {
        // SAFETY: null; lists that are read stay (FO-1).
        site.gates().for_each(|(_, gate)| _ = unsafe { gate.publish(std::ptr::null_mut()) });
    }
}

/// What a forked child begins with, in place of what the loader says, whose lock it may have inherited locked.
static INHERITED: AtomicPtr<Vec<&'static Image>> = AtomicPtr::new(std::ptr::null_mut());

/// Begins with these images the next time; for a forked child. Async-signal-safe.
pub(crate) fn inherit(images: &'static Vec<&'static Image>) {
    // Relaxed: there is no other thread.
    INHERITED.store(std::ptr::from_ref(images).cast_mut(), Ordering::Relaxed);
}

/// Returns what was taken in.
pub(crate) fn images() -> Vec<&'static Image> {
    with(|c| c.images.iter().map(|loaded| loaded.image).collect())
}

/// Returns the tracepoints, with or without probes.
pub(crate) fn sites() -> Arc<Vec<Site>> {
    SITES.get().load_full()
}

/// Returns the probes that can run.
pub(crate) fn probes() -> impl Iterator<Item = &'static NamedProbe> + Clone {
    sites().iter().flat_map(|s| s.probes.iter().copied()).collect::<Vec<_>>().into_iter()
}

/// Returns the state dumps of all that is loaded.
pub(crate) fn state_dumps() -> Vec<NamedDump> {
    let of = |loaded: &Loaded| {
        let (image, run) = (loaded.image, loaded.run_dump);
        let named = move |descriptor: &'static StateDumpDescriptor| NamedDump {
            name: descriptor.name.to_string(),
            location: descriptor.location.to_string(),
            image,
            descriptor,
            run,
        };
        loaded.dumps.iter().map(named)
    };
    with(|c| c.images.iter().flat_map(of).collect())
}

/// Runs `act`, unless the image was taken out. Returns whether it did.
pub(crate) fn while_loaded(image: &Image, act: impl FnOnce()) -> bool {
    with(|c| {
        let is_loaded = c.images.iter().any(|loaded| std::ptr::eq(loaded.image, image));
        if is_loaded {
            act();
        }
        is_loaded
    })
}

/// Returns what stays of an event class when its image goes.
pub(crate) fn kept_class(class: &EventClass) -> &'static EventClass {
    with(|c| c.class(class))
}

/// Takes an image in; the caller holds the control lock. Returns the tracepoints that have new gates or probes.
pub(crate) fn add(image: &'static Image, contents: &Contents) -> BTreeSet<usize> {
    let changed =
        with(|c| if c.images.iter().any(|i| std::ptr::eq(i.image, image)) { BTreeSet::new() } else { c.add(image, contents) });
    SITES.get().store(Arc::new(with(Catalogue::sites)));
    changed
}

/// Takes in the probes that became known since; the caller holds the control lock. Returns the tracepoints that have new ones.
pub(crate) fn look_again() -> BTreeSet<usize> {
    let changed = with(Catalogue::look_again);
    if !changed.is_empty() {
        SITES.get().store(Arc::new(with(Catalogue::sites)));
    }
    changed
}

/// Takes an image out; the caller holds the control lock. Returns its gates, and the tracepoints that have lost gates or probes.
pub(crate) fn remove(image: &'static Image) -> (Vec<&'static Gate>, BTreeSet<usize>) {
    let removed = with(|c| c.remove(image));
    SITES.get().store(Arc::new(with(Catalogue::sites)));
    removed
}

/// What stands for a tracepoint among those that changed.
pub(crate) fn key(tracepoint: &TracepointDescriptor) -> usize {
    std::ptr::from_ref(tracepoint).addr()
}

/// Shared objects of the program that stay mapped, by the address of their image. A forked child has them too.
static STAYING: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

fn stays(image: &Image) -> bool {
    // Relaxed: set under the control lock, or before the image is known.
    STAYING.iter().any(|place| place.load(Ordering::Relaxed) == std::ptr::from_ref(image).addr())
}

/// Notes that a shared object stays mapped for ever, so that its functions can be lent; where there are too many, they are not.
pub(crate) fn note_stay(image: &Image) {
    let address = std::ptr::from_ref(image).addr();
    let is_noted = |place: &AtomicUsize| place.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if stays(image) || !STAYING.iter().any(is_noted) {
        return;
    }
    with(|c| {
        for (_, named) in c.images.iter().filter(|i| std::ptr::eq(i.image, image)).flat_map(|i| &i.probes) {
            lock(&named.functions).iter_mut().filter(|f| f.image == address).for_each(|f| f.is_lent = true);
        }
    });
}

/// Shared objects of the program that have a probe for a tracepoint of another crate which another image declares too, and for which
/// that has none: they have to stay mapped for it to be run there.
pub(crate) fn wanted_elsewhere() -> Vec<&'static Image> {
    let is_elsewhere = |c: &Catalogue, image: &Image, index: &usize| {
        let other = |i: &&Loaded| !std::ptr::eq(i.image, image) && i.tracepoints.iter().any(|(own, _)| own == index);
        c.images.iter().filter(other).map(|i| std::ptr::from_ref(i.image).addr()).collect::<Vec<_>>()
    };
    let is_wanted = |c: &Catalogue, image: &Image, (index, named): &(usize, &NamedProbe)| {
        let functions = lock(&named.functions);
        let lacks = |other: &usize| !functions.iter().any(|f| f.image == *other);
        krate(named.probe.module_path) != krate(named.tracepoint.module_path)
            && !functions.iter().any(|f| f.is_lent)
            && is_elsewhere(c, image, index).iter().any(lacks)
    };
    with(|c| {
        let wanted = c.images.iter().filter(|i| !stays(i.image) && i.probes.iter().any(|probe| is_wanted(c, i.image, probe)));
        wanted.map(|i| i.image).collect()
    })
}

/// Returns how the build of a tracepoint in a module differs from what is loaded under its name: `None`: nothing is.
pub(crate) fn compare(tracepoint: &TracepointDescriptor) -> Option<Option<String>> {
    let types = Types::of(tracepoint);
    with(|c| {
        let loaded: Vec<usize> = c.images.iter().flat_map(|i| i.tracepoints.iter().map(|(index, _)| *index)).collect();
        let named = c.by_name.get(&tracepoint.name.to_string()).into_iter().flatten().filter(|i| loaded.contains(i));
        let mut differences = named.map(|i| c.declared[*i].types().difference(&types));
        let first = differences.next()?;
        // One that agrees is enough.
        Some(first.filter(|_| !differences.any(|d| d.is_none())))
    })
}

/// Pairs of probes of one name, which rules cannot tell apart. Events without a declaration are no matter: a macro makes many of one name.
pub(crate) fn twins() -> Vec<(&'static NamedProbe, &'static NamedProbe)> {
    let is_declared = |p: &&NamedProbe| matches!(p.tracepoint.form, Form::Declaration | Form::Function);
    let mut named: Vec<_> = probes().filter(is_declared).collect();
    let order = |p: &NamedProbe| (p.name.clone(), p.probe.location.file, p.probe.location.line);
    named.sort_by_key(|p| order(p));
    // A generic function that is traced has several at one place.
    let is_one =
        |a: &NamedProbe, b: &NamedProbe| std::ptr::eq(a.tracepoint, b.tracepoint) && a.probe.location == b.probe.location;
    named
        .windows(2)
        .filter(|pair| pair[0].name == pair[1].name && !is_one(pair[0], pair[1]))
        .map(|pair| (pair[0], pair[1]))
        .collect()
}

impl Catalogue {
    /// What the process has loaded: the program; in a forked child, also what its parent had taken in.
    fn of_process() -> Catalogue {
        let mut catalogue = Catalogue::default();
        // SAFETY: `inherit` was given it for ever.
        if let Some(inherited) = unsafe { INHERITED.load(Ordering::Relaxed).as_ref() } {
            for image in inherited {
                if let Some(contents) = image.contents() {
                    catalogue.add(image, &contents);
                }
            }
            return catalogue;
        }
        // Of a child that the handlers of fork(3) did not run in, nothing else is known: it may not ask the loader.
        if let Some(contents) = IMAGE.contents() {
            catalogue.add(&IMAGE, &contents);
        }
        catalogue
    }

    fn sites(&mut self) -> Vec<Site> {
        let mut sites: BTreeMap<usize, Site> = BTreeMap::new();
        for loaded in &self.images {
            for (index, gate) in &loaded.tracepoints {
                let new = || Site { tracepoint: self.declared[*index].tracepoint, gates: Vec::new(), probes: Vec::new() };
                sites.entry(*index).or_insert_with(new).gates.push((loaded.image, gate));
            }
            for (index, probe) in &loaded.probes {
                if let Some(site) = sites.get_mut(index) {
                    if !site.probes.iter().any(|p| std::ptr::eq(*p, *probe)) {
                        site.probes.push(probe);
                    }
                }
            }
        }
        sites.into_values().collect()
    }

    fn add(&mut self, image: &'static Image, contents: &Contents) -> BTreeSet<usize> {
        let is_program = self.images.is_empty();
        let (dumps, run_dump) = (contents.state_dumps, contents.run_state_dump);
        let mut loaded = Loaded { image, tracepoints: Vec::new(), probes: Vec::new(), hits: 0, dumps, run_dump };
        for tracepoint in contents.tracepoints {
            let index = self.declare(tracepoint, is_program, &loaded);
            loaded.tracepoints.push((index, tracepoint.gate));
        }
        let declared: BTreeSet<_> = loaded.tracepoints.iter().map(|(i, _)| key(self.declared[*i].tracepoint)).collect();
        self.images.push(loaded);
        &declared | &self.add_probes(self.images.len() - 1, contents)
    }

    /// Takes in the probes of an image, by index, that it has not taken in yet. Returns their tracepoints.
    fn add_probes(&mut self, of: usize, contents: &Contents) -> BTreeSet<usize> {
        // Before the probes: what is hit meanwhile is found the next time.
        self.images[of].hits = (contents.hits)();
        let at = |gate: &Gate| std::ptr::from_ref(gate).addr();
        let gates = self.images.iter().flat_map(|i| &i.tracepoints).map(|(index, gate)| (at(gate), *index));
        let by_gate: HashMap<usize, usize> = gates.collect();
        let image = std::ptr::from_ref(self.images[of].image).addr();
        let own = |(index, named): &(usize, &NamedProbe)| {
            let functions: Vec<_> = lock(&named.functions).iter().filter(|f| f.image == image).map(|f| f.function).collect();
            functions.into_iter().map(|function| (*index, function)).collect::<Vec<_>>()
        };
        let is_lent = of == 0 || contents.module.is_some() || stays(self.images[of].image);
        let known: HashSet<(usize, usize)> = self.images[of].probes.iter().flat_map(own).collect();
        let mut changed = BTreeSet::new();
        for probe in contents.probes() {
            let Some(index) = by_gate.get(&at((probe.tracepoint)().gate)) else { continue };
            let function = (probe.function)().expose_provenance();
            if !known.contains(&(*index, function)) {
                let named = self.intern(probe, *index, of == 0);
                lock(&named.functions).push(Function { image, function, is_lent });
                self.images[of].probes.push((*index, named));
                changed.insert(key(self.declared[*index].tracepoint));
            }
        }
        changed
    }

    fn look_again(&mut self) -> BTreeSet<usize> {
        let mut changed = BTreeSet::new();
        for of in 0..self.images.len() {
            if let Some(contents) = self.images[of].image.contents() {
                if (contents.hits)() != self.images[of].hits {
                    changed.extend(self.add_probes(of, &contents));
                }
            }
        }
        changed
    }

    fn remove(&mut self, image: &'static Image) -> (Vec<&'static Gate>, BTreeSet<usize>) {
        let Some(at) = self.images.iter().position(|i| std::ptr::eq(i.image, image)) else { return Default::default() };
        let loaded = self.images.remove(at);
        for (_, named) in &loaded.probes {
            lock(&named.functions).retain(|f| f.image != std::ptr::from_ref(image).addr());
        }
        let changed = loaded.tracepoints.iter().map(|(i, _)| *i).chain(loaded.probes.iter().map(|(i, _)| *i));
        let changed = changed.map(|i| key(self.declared[i].tracepoint)).collect();
        (loaded.tracepoints.into_iter().map(|(_, gate)| gate).collect(), changed)
    }

    /// Finds a tracepoint that is declared alike, or keeps a description of this one (CA-2).
    fn declare(&mut self, tracepoint: &'static TracepointDescriptor, is_program: bool, loaded: &Loaded) -> usize {
        let name = tracepoint.name.to_string();
        let index = self.declared.len();
        if is_program {
            self.declared.push(Declared { tracepoint, types: None });
        } else {
            let types = Types::of(tracepoint);
            let alike = |i: &&usize| {
                !loaded.tracepoints.iter().any(|(own, _)| own == *i) && self.declared[**i].types().difference(&types).is_none()
            };
            if let Some(alike) = self.by_name.get(&name).into_iter().flatten().find(alike) {
                return *alike;
            }
            let copy = TracepointDescriptor {
                name: Name::given(keep(&name)),
                form: tracepoint.form,
                signature: keep(tracepoint.signature),
                location: location(&tracepoint.location),
                gate: &NO_GATE,
                reentrant: tracepoint.reentrant,
                module_path: keep(tracepoint.module_path),
                arguments: || &[],
                identity: || std::any::TypeId::of::<()>(),
                stamp: 0,
                // SAFETY: nothing is attached by it: the gate is nobody's.
                promise: unsafe { Promise::given() },
            };
            self.declared.push(Declared { tracepoint: Box::leak(Box::new(copy)), types: Some(types) });
        }
        self.by_name.entry(name).or_default().push(index);
        index
    }

    /// Finds a probe that is declared alike, or keeps a description of this one.
    fn intern(&mut self, probe: &'static ProbeDescriptor, tracepoint: usize, is_program: bool) -> &'static NamedProbe {
        let tracepoint = self.declared[tracepoint].tracepoint;
        let name = probe.name().to_string();
        let alike = |p: &&&'static NamedProbe| {
            let known = p.probe;
            std::ptr::eq(p.tracepoint, tracepoint)
                && known.location == probe.location
                && (known.level, known.least, known.class, known.skipped)
                    == (probe.level, probe.least, probe.class, probe.skipped)
        };
        let known = self.probes.get(&name).into_iter().flatten().find(alike).copied();
        if let Some(known) = known.filter(|_| !is_program) {
            if lock(&known.functions).is_empty() {
                // Relaxed: nobody runs it. It is another build, which may not panic.
                known.probe.panics.store(0, Ordering::Relaxed);
            }
            return known;
        }
        let kept = if is_program {
            probe
        } else {
            Box::leak(Box::new(ProbeDescriptor {
                tracepoint: || &NOT_LOADED,
                name: Some(Name::given(keep(&name))),
                level: probe.level,
                class: probe.class.map(|class| self.class(class)),
                least: probe.least,
                location: location(&probe.location),
                module_path: keep(probe.module_path),
                function: || std::ptr::null(),
                panics: AtomicU64::new(0),
                skipped: fields(probe.skipped),
                // SAFETY: the function is null.
                promise: unsafe { Promise::given() },
            }))
        };
        let named = NamedProbe { probe: kept, name: name.clone(), tracepoint, functions: Mutex::default() };
        let named: &'static NamedProbe = Box::leak(Box::new(named));
        self.probes.entry(name).or_default().push(named);
        named
    }

    fn class(&mut self, class: &EventClass) -> &'static EventClass {
        if let Some(known) = self.classes.iter().find(|known| **known == class) {
            return known;
        }
        let copy = EventClass {
            name: keep(class.name),
            module_path: keep(class.module_path),
            location: location(&class.location),
            fields: fields(class.fields),
        };
        let copy: &'static EventClass = Box::leak(Box::new(copy));
        self.classes.push(copy);
        copy
    }
}

/// In descriptions that are kept.
static NO_GATE: Gate = Gate::new();

static NOT_LOADED: TracepointDescriptor = TracepointDescriptor {
    name: Name::given(""),
    form: Form::Declaration,
    signature: "",
    location: Location { file: "", line: 0 },
    gate: &NO_GATE,
    reentrant: false,
    module_path: "",
    arguments: || &[],
    identity: || std::any::TypeId::of::<()>(),
    stamp: 0,
    // SAFETY: as for copies: the gate is nobody's.
    promise: unsafe { Promise::given() },
};

fn keep(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn keep_all<T>(items: impl Iterator<Item = T>) -> &'static [T] {
    Box::leak(items.collect::<Box<[T]>>())
}

fn location(location: &Location) -> Location {
    Location { file: keep(location.file), line: location.line }
}

fn fields(fields: &[FieldDescriptor]) -> &'static [FieldDescriptor] {
    keep_all(fields.iter().map(|field| FieldDescriptor {
        name: keep(field.name),
        class: field_class(&field.class),
        unit: keep(field.unit),
        sensitive: field.sensitive,
        formatted: field.formatted,
    }))
}

fn field_class(class: &FieldClass) -> FieldClass {
    let one = |class: &FieldClass| -> &'static FieldClass { Box::leak(Box::new(field_class(class))) };
    match *class {
        FieldClass::Enumeration { bits, signed, labels } => FieldClass::Enumeration {
            bits,
            signed,
            labels: keep_all(labels.iter().map(|label| Label { name: keep(label.name), value: label.value })),
        },
        FieldClass::Structure { fields: all } => FieldClass::Structure { fields: fields(all) },
        FieldClass::Array { element, length } => FieldClass::Array { element: one(element), length },
        FieldClass::Sequence { element, length_bits } => FieldClass::Sequence { element: one(element), length_bits },
        FieldClass::Optional { value } => FieldClass::Optional { value: one(value) },
        FieldClass::Variant { options } => FieldClass::Variant {
            options: keep_all(options.iter().map(|o| VariantOption { name: keep(o.name), class: field_class(&o.class) })),
        },
        // The others hold no references.
        plain => plain,
    }
}
