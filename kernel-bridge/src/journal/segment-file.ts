/** Names, listing and header of segment files. A segment is named by the seq of its first record. */
import { readdir } from 'node:fs/promises';
import { crc32c } from './record-codec.js';
import { JournalError } from './journal-error.js';
import { ifMissing } from '@tpulab/platform/missing-files.js';

export const SEGMENT_HEADER_BYTES = 32;

/** Version of new segments. Version 1 is supported too; a segment of a newer version is refused. */
const SEGMENT_VERSION = 2;

/** 0x89 is not text in any encoding, and the line feed reveals a transfer that rewrote line ends. */
const MAGIC = Buffer.from([0x89, 0x54, 0x50, 0x55, 0x4a, 0x0d, 0x0a, 0x1a]);

const NAME = /^(\d{20})\.seg$/;

export interface SegmentName {
  readonly file: string;
  readonly firstSeq: number;
}

export function segmentFileName(firstSeq: number): string {
  return `${String(firstSeq).padStart(20, '0')}.seg`;
}

/** Segments of a journal, oldest first; empty where the folder does not exist. */
export async function listSegments(dir: string): Promise<SegmentName[]> {
  const files = await readdir(dir).catch(ifMissing<string[]>([]));
  return files
    .flatMap(file => {
      const digits = NAME.exec(file)?.[1];
      return digits === undefined ? [] : [{ file, firstSeq: Number(digits) }];
    })
    .sort((a, b) => a.firstSeq - b.firstSeq);
}

/** magic (8) | u32 version | u32 header bytes | u64 first seq | u32 zero | u32 crc32c of the 28 bytes before. */
export function encodeSegmentHeader(firstSeq: number): Buffer {
  const header = Buffer.alloc(SEGMENT_HEADER_BYTES);
  MAGIC.copy(header);
  header.writeUInt32LE(SEGMENT_VERSION, 8);
  header.writeUInt32LE(SEGMENT_HEADER_BYTES, 12);
  header.writeBigUInt64LE(BigInt(firstSeq), 16);
  header.writeUInt32LE(crc32c(header, 0, 28), 28);
  return header;
}

/**
 * Why `bytes` cannot be the header of the segment that begins at `firstSeq`; null when they are that header. Throws
 * `journal_version` for an intact header of another version, because such a file must not be "repaired".
 */
export function segmentHeaderFault(bytes: Buffer, firstSeq: number): string | null {
  if (bytes.length < SEGMENT_HEADER_BYTES) return 'the header is cut off';
  if (!bytes.subarray(0, 8).equals(MAGIC)) return 'the header does not begin as a segment does';
  if (crc32c(bytes, 0, 28) !== bytes.readUInt32LE(28)) return 'the checksum of the header is wrong';
  const version = bytes.readUInt32LE(8);
  if (version < 1 || version > SEGMENT_VERSION) {
    throw new JournalError(
      'journal_version',
      `The journal has version ${version}, but this program reads versions 1 to ${SEGMENT_VERSION}; use the program that wrote it.`
    );
  }
  if (bytes.readBigUInt64LE(16) !== BigInt(firstSeq)) {
    return 'the header names another first record than the file name';
  }
  return null;
}

/**
 * Whether records may be appended after this header: programs that support only the older version would treat newer records
 * as damage.
 */
export function isOfNewestVersion(header: Buffer): boolean {
  return header.readUInt32LE(8) === SEGMENT_VERSION;
}
