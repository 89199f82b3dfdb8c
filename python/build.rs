//! Lets `cargo build --workspace` link the extension when there is no Python to link against.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
