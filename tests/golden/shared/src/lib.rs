#[path = "../../site.rs"]
mod site;
