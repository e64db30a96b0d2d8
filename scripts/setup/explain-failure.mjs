// @ts-check
/** Turns the output of a failed package manager or file system into one sentence with the remedy. */
import { statfs } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { checkout } from './checkout.mjs';
import { errnoOf, SetupProblem } from './setup-problem.mjs';

const DISK_FULL =
  /no space left on device|ENOSPC|os error 28\b|quota exceeded|EDQUOT|os error 122\b|database or disk is full/i;
const HASH =
  /hash mismatch|hashes? (?:do|does) not match|do not match the hashes|EINTEGRITY|sha\d+ integrity/i;
const PERMISSION =
  /permission denied|\bEACCES\b|\bEPERM\b|\bEROFS\b|os error 13\b|os error 30\b|read-only file system/i;
const NETWORK =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|network is unreachable|dns error|failed to lookup|name or service not known|temporary failure in name resolution|client error \(connect\)|error sending request|connection (?:refused|reset|error)|newconnectionerror|max retries exceeded|could not fetch url|request to \S+ failed|operation timed out|read timed out|failed to fetch|self.signed certificate|unable to get local issuer certificate|invalid peer certificate|CERTIFICATE_VERIFY_FAILED|no matching distribution found for uv/i;

/** Also used by the tests, so that each sentence is checked. */
export const SENTENCES = Object.freeze({
  'disk-full': 'The disk is full; free some space (the whole setup takes about 3 GB) and start again.',
  'package-refused':
    'A package that was downloaded is not the one in the lock file; check what serves your packages (a proxy or mirror?) and start again.',
  'no-permission': `A folder cannot be written; make ${checkout.root} and your cache folders writable for you and start again.`,
  'no-network':
    'Packages could not be downloaded; check the network (a proxy is named by HTTPS_PROXY) and start again; it continues from here.'
});

/**
 * @param {string} text the output
 * @returns {keyof typeof SENTENCES | null}
 */
export function reasonOf(text) {
  if (DISK_FULL.test(text)) return 'disk-full';
  if (HASH.test(text)) return 'package-refused';
  // A refused connection to a proxy also prints EPERM in some networks, so the network is checked first.
  if (NETWORK.test(text)) return 'no-network';
  if (PERMISSION.test(text)) return 'no-permission';
  return null;
}

/**
 * @param {string} doing for example `installing npm packages`
 * @param {import('./run-command.mjs').Ended} ended
 * @param {readonly string[]} [written] folders that the program writes to
 * @returns {Promise<SetupProblem>}
 */
export async function explainFailure(doing, ended, written = [checkout.root, homedir(), tmpdir()]) {
  const lines = [...ended.stdout, ...ended.stderr].filter(line => line.trim() !== '');
  // npm on a full disk cannot even write its log and ends without a message: so we check the disk.
  const reason = reasonOf(lines.join('\n')) ?? ((await someDiskIsFull(written)) ? 'disk-full' : null);
  if (reason) return new SetupProblem(reason, SENTENCES[reason], { details: lines.slice(-3) });
  const how = ended.exitCode === null ? `was ended by ${ended.signal}` : `ended with code ${ended.exitCode}`;
  return new SetupProblem('failed', `${doing} failed: the program ${how}; its last lines are below.`, {
    details: lines.slice(-15)
  });
}

/**
 * @param {unknown} error
 * @returns {unknown} a SetupProblem where the reason is known, else the error itself
 */
export function explainError(error) {
  if (error instanceof SetupProblem) return error;
  const errno = errnoOf(error);
  const reason = errno === undefined ? null : reasonOf(errno);
  return reason ? new SetupProblem(reason, SENTENCES[reason], { cause: error }) : error;
}

/** With less space than this, none of the packages fits. */
const FULL_BELOW_BYTES = 16 * 1024 * 1024;

/** @param {readonly string[]} folders */
async function someDiskIsFull(folders) {
  const free = await Promise.all(
    folders.map(async folder => {
      try {
        const { bavail, bsize } = await statfs(folder);
        return bavail * bsize;
      } catch {
        return Number.POSITIVE_INFINITY;
      }
    })
  );
  return free.some(bytes => bytes < FULL_BELOW_BYTES);
}
