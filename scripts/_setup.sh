# Functions that the other scripts share: they find Python, Java and a compiler, and create environments.
# Source this file, do not run it. It changes the working directory to the checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s\n' "-- $*"; }
fail() { printf '%s\n' "$@" >&2; exit 1; }
is_root() { [ "$(id -u)" = 0 ]; }
apt_install() {
    say "Installing $* with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null 2>&1
}

# All temporary files go to one folder, which is removed at the end.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kvformat.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch SPARK_LOCAL_DIRS=$scratch

# find_python: sets $python to a Python >= 3.11 that can create environments.
python_works() { "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
search_python() {
    for python in "${PYTHON:-python3}" python3.11 python3.12 python3.13 python3.14 /usr/bin/python3; do
        if python_works "$python"; then return 0; fi
    done
    return 1
}
find_python() {
    search_python && return
    if is_root && command -v apt-get >/dev/null; then
        apt_install python3 python3-venv && search_python && return
    fi
    fail "Python 3.11 or newer with its venv module is needed." \
        "On Debian 12 or Ubuntu 24.04: sudo apt-get install python3 python3-venv, then run this again." \
        "Or name one: PYTHON=/path/to/python3.11 $0"
}

# search_compiler: looks for a C compiler and the headers of $python, which the kernel needs.
# find_compiler: does that too, and fails if there is none.
compiler_works() { "$python" -P kernel_build.py check >/dev/null; }
search_compiler() {
    compiler_works && return
    is_root && command -v apt-get >/dev/null || return 1
    apt_install gcc libc6-dev || return 1
    compiler_works && return # a Python that was not installed with apt has its headers
    apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-dev" && compiler_works
}
find_compiler() {
    search_compiler && return
    fail "The kernel is compiled, but $("$python" -P kernel_build.py check)." \
        "On Debian or Ubuntu: sudo apt-get install gcc libc6-dev python3-dev, then run this again." \
        "Or name one: CC=/path/to/gcc $0"
}

# search_java: exports JAVA_HOME with the path of a Java 17 or 21. As root, it installs one if there is none.
# find_java: does that too, and fails if there is none.
java_works() { [ -n "$1" ] && [ -x "$1/bin/java" ] && "$1/bin/java" -version 2>&1 | grep -qE 'version "(17|21)[."]'; }
installed_java() {
    local home on_path
    on_path=$(command -v java || true)
    [ -z "$on_path" ] || on_path=$(dirname "$(dirname "$(readlink -f "$on_path")")")
    for home in "${JAVA_HOME:-}" "$on_path" /usr/lib/jvm/*; do
        if java_works "$home"; then export JAVA_HOME=$home; return 0; fi
    done
    return 1
}
search_java() {
    installed_java && return
    is_root && command -v apt-get >/dev/null || return 1
    # Debian 13 has no Java 17.
    { apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless; } && installed_java
}
find_java() {
    search_java && return
    fail "Spark needs Java 17 or 21. Neither was found in JAVA_HOME, PATH or /usr/lib/jvm." \
        "On Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless (Debian 13: openjdk-21-jre-headless), then run this again." \
        "Or name one: JAVA_HOME=/path/to/jdk $0"
}

# fill_env FOLDER CONSTRAINTS: creates an environment with the packages of the list. Calls for different folders may run
# at the same time.
fill_env() {
    local folder=$1 constraints=$2 stamp=$1/.packages-stamp wanted
    wanted="$(cat "$constraints" scripts/_setup.sh | cksum) in $PWD"
    if [ -x "$folder/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then return; fi
    find_python
    say "Creating $folder with PySpark $(sed -n 's/^pyspark==//p' "$constraints") (the first time this downloads 450 MB and takes some minutes)"
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-input -r "$constraints"
    # Spark's workers import PySpark from this file, which Python compiles again in each process (0.4 s of CPU time). A
    # folder of that name gives them the package that pip has compiled.
    local zip
    for zip in "$folder"/lib/python3*/site-packages/pyspark/python/lib/pyspark.zip; do
        [ -f "$zip" ] || continue # the documentation needs no PySpark
        rm "$zip"
        mkdir "$zip"
        ln -s ../../.. "$zip/pyspark"
    done
    printf '%s\n' "$wanted" >"$stamp"
}

# make_env FOLDER CONSTRAINTS: fills an environment and installs the checkout in it as editable. Returns quickly if
# nothing has changed.
make_env() {
    local folder=$1 constraints=$2 stamp=$1/.kvformat-stamp wanted
    fill_env "$folder" "$constraints"
    wanted=$(cat pyproject.toml setup.py _kvformat_alias.py | cksum)
    if [ -e build/editable/kvformat/__init__.py ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then return; fi
    "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-build-isolation \
        -c "$constraints" -e '.[spark,dev]'
    printf '%s\n' "$wanted" >"$stamp"
}

# use_env FOLDER: runs the commands that follow, and Spark's Python workers, in the environment.
use_env() {
    export PATH=$PWD/$1/bin:$PATH PYSPARK_PYTHON=$PWD/$1/bin/python PYSPARK_DRIVER_PYTHON=$PWD/$1/bin/python
    unset SPARK_HOME PYTHONPATH PYTHONHOME
}
