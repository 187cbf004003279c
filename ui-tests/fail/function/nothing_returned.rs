//~ KEY: it returns nothing: there is no result to record
struct Cart(Vec<u32>);

#[ringtrace::tracepoint(result)]
fn clear(cart: &mut Cart) {
    cart.0.clear();
}

#[ringtrace::tracepoint(result)] // of those that have one
impl Cart {
    fn add(&mut self, price: u32) {
        self.0.push(price);
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[ringtrace::tracepoint]
impl Cart {
    #[tracepoint(skipp(price))]
    fn remove(&mut self, price: u32) {
        self.0.retain(|p| *p != price);
    }

    #[tracepoint(record)]
    fn first(&self) -> Option<&u32> {
        self.0.first()
    }
}

fn main() {
    let mut cart = Cart(Vec::new());
    clear(&mut cart);
    cart.add(1);
    cart.remove(1);
    println!("{} {:?}", cart.len(), cart.first());
}
