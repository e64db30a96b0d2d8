/** SHA-256 without the browser's implementation, which pages without a secure connection lack. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/** Hash of a text as UTF-8, hexadecimal: the `codeHash` of an execution. */
export function sha256Hex(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)));
}
