/** Records as the bytes that they are in a segment, for whoever passes them on unread. */
import { crc32c } from './crc32c.js';
import { probeRecord, RECORD_OVERHEAD, seqAt } from './record-codec.js';
import type { JournalRecord } from './record.js';

/** The bytes of a batch of `JournalReader.readBatches`, whose payloads are views into one chunk of the file. */
export function bytesOfBatch(batch: readonly JournalRecord[]): Buffer {
  const [first, last] = [batch[0], batch.at(-1)];
  if (first === undefined || last === undefined) {
    return Buffer.alloc(0);
  }
  const start = first.payload.byteOffset - RECORD_OVERHEAD;
  const end = last.payload.byteOffset + last.payload.length;
  return Buffer.from(first.payload.buffer, start, end - start);
}

/** The checksum that stands before a record's bytes. */
export function checksumOfRecord(record: JournalRecord): number {
  return bytesOfBatch([record]).readUInt32LE(4);
}

export interface RecordStretch {
  readonly firstSeq: number;
  readonly lastSeq: number;
  /** Checksum of the last record. */
  readonly checksum: number;
}

/** What `bytes` hold, when they are whole records with successive numbers and right checksums; else what is wrong. */
export function checkRange(bytes: Buffer): RecordStretch | string {
  let at = 0;
  let firstSeq = 0;
  let seq = 0;
  let checksum = 0;
  while (at < bytes.length) {
    const probe = probeRecord(bytes, at);
    if (probe.kind !== 'whole') {
      return probe.kind === 'damaged' ? probe.why : 'it ends inside a record';
    }
    const found = seqAt(bytes, at);
    if (seq !== 0 && found !== seq + 1) {
      return `record ${found} follows record ${seq}`;
    }
    seq = found;
    firstSeq ||= found;
    checksum = bytes.readUInt32LE(at + 4);
    if (crc32c(bytes, at + 8, probe.end) !== checksum) {
      return `the checksum of record ${seq} is wrong`;
    }
    at = probe.end;
  }
  return seq === 0 ? 'there is no record in it' : { firstSeq, lastSeq: seq, checksum };
}
