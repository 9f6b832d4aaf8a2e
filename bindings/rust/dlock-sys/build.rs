//! Where the library is: pkg-config says it. With the feature `bundled` it is compiled from the folder `bundle` and linked in.
fn main() {
    #[cfg(feature = "bundled")]
    bundled::build();
    #[cfg(not(feature = "bundled"))]
    if let Err(error) = pkg_config::Config::new().atleast_version("0.1").probe("dlock") {
        fail(&format!("libdlock and its pkg-config file are needed, or the feature \"bundled\": {error}"));
    }
}

fn fail(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(1)
}

#[cfg(feature = "bundled")]
mod bundled {
    use crate::fail;
    use std::env;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Compiles the C files that `sources.txt` names with the flags of `flags.txt`, as many at a time as cargo says.
    pub fn build() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundle");
        let (sources, flags) = (words(&folder, "sources.txt"), words(&folder, "flags.txt"));
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("OUT_DIR"));
        let objects: Vec<_> = (0..sources.len()).map(|number| out.join(format!("{number}.o"))).collect();
        let compiler = cc::Build::new().opt_level(2).debug(false).warnings(false)
            .flag_if_supported("-fcf-protection=full") // targets of indirect calls are marked, for processors that check them
            .flag_if_supported("-mbranch-protection=standard")
            .get_compiler();
        let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let source = match sources.get(number) {
                        Some(source) => source,
                        None => return,
                    };
                    let mut command = compiler.to_command();
                    command.current_dir(&folder).args(&flags).args(["-c", source, "-o"]).arg(&objects[number]);
                    match command.status() {
                        Ok(status) if status.success() => {}
                        result => fail(&format!("{source} was not compiled: {command:?}: {result:?}")),
                    }
                });
            }
        });
        let mut library = cc::Build::new();
        for object in &objects {
            library.object(object);
        }
        library.compile("dlock");
        if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
            println!("cargo:rustc-link-lib=dl"); // OpenSSL is loaded by it
        }
        println!("cargo:include={}", folder.display());
        println!("cargo:rerun-if-changed=bundle");
        println!("cargo:rerun-if-changed=build.rs");
    }

    fn words(folder: &Path, name: &str) -> Vec<String> {
        match std::fs::read_to_string(folder.join(name)) {
            Ok(text) => text.split_whitespace().map(String::from).collect(),
            Err(_) => fail("the feature \"bundled\" needs the folder \"bundle\": a released crate has it, and ./dev package rust makes one"),
        }
    }
}
