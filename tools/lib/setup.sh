# Sourced by tools/quickstart and tools/test: installs missing packages, configures and builds.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top"
jobs=${TROUPE_JOBS:-$(nproc)}

say() { printf '%s\n' "== $*"; }
fail() { printf '%s\n' "$(basename "$0"): $*" >&2; exit 1; }

is_installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "packages are missing and there is no sudo: as root run: $*"
  fi
}

install_packages() {
  local missing=() line name found names
  while read -r line; do
    case $line in ''|'#'*) continue ;; esac
    IFS='|' read -ra names <<<"$line"
    found=""
    for name in "${names[@]}"; do if is_installed "$name"; then found=$name; break; fi; done
    [ -n "$found" ] || missing+=("$line")
  done <tools/lib/packages
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "these are missing, and this is not Debian: ${missing[*]}"
  say "installing ${#missing[@]} packages"
  as_root apt-get update -qq
  local chosen=() pick
  for line in "${missing[@]}"; do
    IFS='|' read -ra names <<<"$line"
    pick=""
    for name in "${names[@]}"; do
      # A release may know a name that it cannot install.
      if [[ $(apt-cache policy "$name" 2>/dev/null) =~ Candidate:\ [^\(] ]]; then pick=$name; break; fi
    done
    [ -n "$pick" ] || fail "this release has no package $line"
    chosen+=("$pick")
  done
  # A running service is not wanted: each head starts a Redis of its own.
  as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${chosen[@]}" >/dev/null
}

# build PRESET TARGET…
build() {
  local preset=$1; shift
  export CCACHE_DIR=${CCACHE_DIR:-$top/.cache/ccache}
  if [ ! -f "build/$preset/build.ninja" ]; then
    say "configuring $preset"
    cmake --preset "$preset" >"/tmp/troupe-configure.$$" 2>&1 || { cat "/tmp/troupe-configure.$$" >&2; fail "configuring failed"; }
    rm -f "/tmp/troupe-configure.$$"
  fi
  say "building $preset ($*)"
  cmake --build "build/$preset" -j "$jobs" --target "$@"
}
