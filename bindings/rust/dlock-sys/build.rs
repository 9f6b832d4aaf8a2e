//! Where the library is: pkg-config says it.
fn main() {
    if let Err(error) = pkg_config::Config::new().atleast_version("0.1").probe("dlock") {
        eprintln!("libdlock and its pkg-config file are needed: {error}");
        std::process::exit(1);
    }
}
