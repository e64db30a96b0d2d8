/**
 * The scripts that change a host: the files of `host/`, each with its required code in front. `preamble.sh` documents the common
 * rules.
 */
import { readFileSync } from 'node:fs';

/** Exit codes of the scripts, as in `preamble.sh`; other codes come from the program that the script ran. */
export const EXIT = {
  noDownloader: 64,
  download: 65,
  checksum: 66,
  unpack: 67,
  busy: 68,
  gatewayEnded: 69,
  gatewaySilent: 70,
  otherBuild: 71
} as const;

const NEEDS = {
  download: ['sum.sh'],
  unpack: ['sum.sh'],
  python: ['uv.sh'],
  environment: ['uv.sh'],
  start: []
} as const;

export function hostScript(name: keyof typeof NEEDS): string {
  return script('preamble.sh', ...NEEDS[name], `${name}.sh`);
}

/** `$2` folder (relative). */
export const REMOVE_SCRIPT = `rm -rf "$1/$2"`;

/** Scripts that run on hosts, in sh and Python: files of this package, in `host/`. */
const FOLDER = new URL('../../host/', import.meta.url);

/** Concatenates the scripts with these names. */
export function script(...names: readonly string[]): string {
  return names.map(name => readFileSync(new URL(name, FOLDER), 'utf8')).join('');
}
