// make_dispatches in Rust.
extern "C" {
    fn make_dispatches() -> i32;
}

fn main() {
    let status = std::thread::spawn(|| unsafe { make_dispatches() }).join();
    std::process::exit(status.unwrap_or(1));
}
