/** The scripts that change a host: the files of `host/`, each with what it needs in front. What all have in common is said in `preamble.sh`. */
import { script } from '../../platform/script.js';

/** How a script says why it ended, as `preamble.sh` has them; other codes are those of the program that it ran. */
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
  'unpack-wheel': ['sum.sh'],
  'unpack-archive': ['sum.sh'],
  python: ['uv.sh'],
  environment: ['uv.sh'],
  start: []
} as const;

export function hostScript(name: keyof typeof NEEDS): string {
  return script('preamble.sh', ...NEEDS[name], `${name}.sh`);
}

/** `$2` folder (relative). */
export const REMOVE_SCRIPT = `rm -rf "$1/$2"`;
