# shellcheck shell=sh disable=SC2154
# `$2` uv (relative), `$3` the accepted range, `$4` the version to install if none fits; empty: none. Prints `python PATH`, or nothing
# if there is none.
uv=$base/$1
find() { found=$("$uv" python find --no-project --no-config --no-python-downloads "$1" 2>/dev/null) && say python "$found"; }
find "$2" && exit 0
[ -n "$3" ] || exit 0
"$uv" python install --no-bin "$3" 2>&1 9>&- || exit "$exit_download"
find "$2" || exit "$exit_unpack"
