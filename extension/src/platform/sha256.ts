/** SHA-256 without the browser's own, which pages that are not served securely do not have. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/** Of a text as UTF-8, hexadecimal: what `codeHash` of an execution is. */
export function sha256Hex(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)));
}
