# shellcheck shell=sh disable=SC2154
# `$2` archive or wheel (relative), `$3` sha256, `$4` folder (relative), `$5` the program in it, which is tried (absent: none).
file=$base/$1; sum=$2; place=$base/$3; program=${4-}
if [ ! -e "$place" ]; then
  has_sum "$file" "$sum" || { rm -f "$file"; exit "$exit_checksum"; }
  building=$place.building; rm -rf "$building"; mkdir -p "$building"
  case $file in
    *.tar.gz) tar -xzf "$file" -C "$building" ;;
    *) if command -v python3 >/dev/null 2>&1; then
        python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' "$file" "$building"
      else
        unzip -q "$file" -d "$building"
      fi ;;
  esac || exit "$exit_unpack"
  [ -z "$program" ] || { chmod +x "$building/$program" && "$building/$program" --version; } || exit "$exit_unpack"
  mv "$building" "$place" || exit "$exit_unpack"
fi
rm -f "$file"
