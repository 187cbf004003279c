#[path = "../../site.rs"]
mod site;

fn main() {
    let id = std::env::args().count() as u64;
    println!("{}", site::golden_call(id) + site::golden_fire(id));
}
