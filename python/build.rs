//! Lets `cargo build --workspace` link the extension where there is no Python to link to.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
