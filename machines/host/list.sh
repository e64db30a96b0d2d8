# shellcheck shell=sh
# `$2` folder (relative). Prints `file SHA256 NAME` for each file in it.
LC_ALL=C; export LC_ALL
cd "$1/$2" 2>/dev/null || exit 0
sha256sum -- *.whl 2>/dev/null | while read -r sum name; do printf 'file\t%s %s\n' "$sum" "$name"; done
