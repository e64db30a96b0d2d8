# shellcheck shell=sh disable=SC2154
# `$2` file (relative), `$3` sha256, `$4` URL. Resumes where an earlier attempt stopped.
file=$base/$1; sum=$2; url=$3; part=$file.part
mkdir -p "$(dirname "$file")"
has_sum "$file" "$sum" && exit 0
if ! has_sum "$part" "$sum"; then
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --connect-timeout 15 --speed-time 60 --speed-limit 1 -C - -o "$part" "$url" 9>&- &
  elif command -v wget >/dev/null 2>&1; then
    wget -q --connect-timeout=15 --read-timeout=60 --tries=1 -c -O "$part" "$url" 9>&- &
  elif command -v python3 >/dev/null 2>&1; then
    python3 -c 'import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[2], timeout=60) as source, open(sys.argv[1], "wb") as target:
    shutil.copyfileobj(source, target)' "$part" "$url" 9>&- &
  else
    exit "$exit_no_downloader"
  fi
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    sleep 0.5
    say bytes "$({ wc -c <"$part" || echo 0; } 2>/dev/null)"
  done
  wait "$child" || { [ -s "$part" ] || rm -f "$part"; exit "$exit_download"; }
  has_sum "$part" "$sum" || { rm -f "$part"; exit "$exit_checksum"; }
fi
mv "$part" "$file"
