//! A folder with `dp`, `dp-reproduce` and a stand-in for `cargo` on its path.

use std::path::{Path, PathBuf};

use crate::support::{Run, Sandbox};

/// `dp`, or nothing where it is not built: the tests of another package may be built alone.
const DP: &str = r#"#!/bin/sh
[ -x "$PROGRAMS/dp" ] || exit 0
exec "$PROGRAMS/dp" "$@"
"#;

/// `dp-reproduce`, likewise; papers are recomputed in small, from files made for the test.
const REPRODUCE: &str = r#"#!/bin/sh
[ -x "$PROGRAMS/dp-reproduce" ] || exit 0
if [ "$1" = --list ]; then exec "$PROGRAMS/dp-reproduce" "$@"; fi
all="$1 --quick --seeds 1"
[ "$1" = bietti2022-figure1a ] && all="$all --size rounds=20"
shift
while [ $# -gt 0 ]; do
  case "$1" in
    --seeds) shift ;;
    rounds=*) all="$all rounds=20" ;; # of `--size`
    --data) shift; all="$all --data $MADE_DATA" ;;
    --quick) ;;
    *) all="$all $1" ;;
  esac
  shift
done
exec "$PROGRAMS/dp-reproduce" $all
"#;

/// `cargo run -p dp-cli -- ...` is `dp ...`, likewise `dp-reproduce`; of other targets only the existence is checked.
const CARGO: &str = r#"#!/bin/sh
command="$1"; shift; package=; kind=; target=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case "$1" in
    -p) shift; package="$1" ;;
    --test|--bench|--bin|--example) kind="${1#--}"; shift; target="$1" ;;
  esac
  shift
done
[ "$1" = -- ] && shift
if [ "$command" = run ] && [ "$package" = dp-cli ]; then exec dp "$@"; fi
if [ "$command" = run ] && [ "$package" = dp-reproduce ] && [ $# -gt 0 ] && [ "$1" != NAME ]; then
  exec dp-reproduce "$@"
fi
case "$package" in
  "") exit 0 ;;
  dp-benches) folder="$ROOT/benches" ;;
  dp-examples) folder="$ROOT/examples" ;;
  *) folder="$ROOT/crates/$package" ;;
esac
[ -e "$folder/Cargo.toml" ] || { echo "no package $package" >&2; exit 101; }
[ -z "$target" ] && exit 0
for name in "$folder/${kind}s/$target" "$folder/${kind}es/$target" "$folder/src/$kind/$target" "$folder/$target"; do
  if [ -e "$name.rs" ] || [ -e "$name/main.rs" ]; then exit 0; fi
done
echo "no $kind $target of $package" >&2; exit 101
"#;

pub(crate) struct Shell {
    sandbox: Sandbox,
    root: PathBuf,
}

impl Shell {
    pub(crate) fn new(root: &Path) -> Self {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("bin")).unwrap();
        for (name, script) in [
            ("bin/dp", DP),
            ("bin/dp-reproduce", REPRODUCE),
            ("bin/cargo", CARGO),
        ] {
            sandbox.write(name, script);
            allow_running(&sandbox.path(name));
        }
        let shell = Self {
            sandbox,
            root: root.canonicalize().unwrap(),
        };
        shell.stand_in_for_scripts();
        std::fs::create_dir_all(shell.sandbox.path("docs/figures")).unwrap();
        shell
    }

    /// The repository's scripts run for long; a page may name those that exist.
    fn stand_in_for_scripts(&self) {
        for folder in ["scripts", "benches", "benches/peers"] {
            for entry in std::fs::read_dir(self.root.join(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".sh") {
                    let name = format!("{folder}/{name}");
                    self.write(&name, "#!/bin/sh\nexit 0\n");
                    allow_running(&self.sandbox.path(&name));
                }
            }
        }
    }

    pub(crate) fn write_gzip(&self, name: &str, content: &str) {
        self.sandbox.write(name, crate::input_files::gzip(content));
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        if let Some(folder) = Path::new(name).parent() {
            std::fs::create_dir_all(self.sandbox.path("").join(folder)).unwrap();
        }
        self.sandbox.write(name, content);
    }

    /// Runs a script that stops at the first failure.
    pub(crate) fn run(&self, script: &str) -> Run {
        let path = std::env::var("PATH").unwrap_or_default();
        let own = self.sandbox.path("bin").display().to_string();
        let mut command = self.sandbox.program("sh");
        command.args(["-e", "-c", script]);
        command.env("PATH", format!("{own}:{path}"));
        command.env("PROGRAMS", Path::new(crate::BINARY).parent().unwrap());
        command.env("MADE_DATA", self.sandbox.path("made-data"));
        command.env("ROOT", &self.root);
        command.output().unwrap().into()
    }
}

#[cfg(unix)]
fn allow_running(script: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
fn allow_running(_: &Path) {}
