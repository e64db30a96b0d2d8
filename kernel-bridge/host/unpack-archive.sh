# shellcheck shell=sh disable=SC2154
# `$2` archive (relative), `$3` sha256, `$4` folder (relative).
file=$base/$1; sum=$2; place=$base/$3
if [ ! -e "$place" ]; then
  has_sum "$file" "$sum" || { rm -f "$file"; exit "$exit_checksum"; }
  building=$place.building; rm -rf "$building"; mkdir -p "$building"
  tar -xzf "$file" -C "$building" || exit "$exit_unpack"
  mv "$building" "$place" || exit "$exit_unpack"
fi
rm -f "$file"
