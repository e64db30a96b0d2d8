/**
 * A run as an event file of TensorBoard: records of TFRecord (tensorflow/core/lib/io/record_writer.h), each an `Event` of
 * tensorflow/core/util/event.proto. `wandb sync` and TensorBoard read it.
 */
import { type MediaMessage, type StoredRun, momentOf, wholeSeries } from '@tpulab/protocol';
import { crc32c } from '../journal/index.js';

/** Wire types of protocol buffers. */
const VARINT = 0;
const FIXED_64 = 1;
const BYTES = 2;
const FIXED_32 = 5;

/** @param media pictures, sound and text with their data, each `isReadable` */
export function eventsOf(run: StoredRun, media: readonly MediaMessage[] = []): Buffer {
  const begin = run.startedAt / 1_000;
  const points = Object.entries(run.series).flatMap(([name, series]) =>
    wholeSeries(series).map(([step, value]) => ({
      name,
      step,
      time: begin + (momentOf(run, step) ?? 0) / 1_000,
      content: [field(2, FIXED_32, float(value))]
    }))
  );
  for (const { name, step, time, mime, data = '' } of media)
    points.push({
      name,
      step,
      time: time / 1_000,
      content: CONTENTS[mime]?.(Buffer.from(data, 'base64'), data) ?? []
    });
  const version = field(3, BYTES, Buffer.from('brain.Event:2'));
  const events = points
    .sort((a, b) => a.step - b.step)
    .map(({ name, step, time, content }) => {
      const summary = message(1, [field(1, BYTES, Buffer.from(name)), ...content]);
      const at = step > 0 ? [field(2, VARINT, varint(step))] : [];
      return record([field(1, FIXED_64, double(time)), ...at, field(5, BYTES, summary)]);
    });
  return Buffer.concat([record([field(1, FIXED_64, double(begin)), version]), ...events]);
}

/** Whether a picture or sound has the file header of its type; its data comes from a program in the kernel. */
export function isReadable({ mime, data = '' }: MediaMessage): boolean {
  const head = Buffer.from(data.slice(0, 64), 'base64').toString('latin1');
  if (mime === 'image/png')
    return head.startsWith('\x89PNG\r\n\x1a\n') && head.slice(12, 16) === 'IHDR' && head.length >= 24;
  return (
    mime !== 'audio/wav' || (head.startsWith('RIFF') && head.slice(8, 16) === 'WAVEfmt ' && head.length >= 28)
  );
}

/** Fields of a `Summary.Value` by the kind of its content (tensorflow/core/framework/summary.proto). */
const CONTENTS: Readonly<Record<string, (bytes: Buffer, text: string) => Buffer[]>> = {
  'image/png': png => {
    const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
    const size = [
      field(1, VARINT, varint(height)),
      field(2, VARINT, varint(width)),
      field(3, VARINT, varint(3))
    ];
    return [message(4, [...size, field(4, BYTES, png)])];
  },
  'audio/wav': wav => {
    const sound = [field(1, FIXED_32, float(wav.readUInt32LE(24))), field(2, VARINT, varint(1))];
    return [message(6, [...sound, field(4, BYTES, wav), field(5, BYTES, Buffer.from('audio/wav'))])];
  },
  // A tensor of one string (DT_STRING, 7), for the text plugin.
  'text/plain': (_, text) => [
    message(8, [
      field(1, VARINT, varint(7)),
      field(2, BYTES, Buffer.alloc(0)),
      field(8, BYTES, Buffer.from(text))
    ]),
    message(9, [message(1, [field(1, BYTES, Buffer.from('text'))])])
  ]
};

function message(number: number, fields: readonly Buffer[]): Buffer {
  return field(number, BYTES, Buffer.concat(fields));
}

/** The u64 length, its checksum, the data, and the checksum of the data. */
function record(fields: readonly Buffer[]): Buffer {
  const data = Buffer.concat(fields);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(data.length));
  return Buffer.concat([length, masked(length), data, masked(data)]);
}

/** CRC-32C, rotated by 15 bits and shifted: a plain checksum of data that contains checksums would be weak. */
function masked(bytes: Buffer): Buffer {
  const crc = crc32c(bytes);
  const moved = Buffer.alloc(4);
  moved.writeUInt32LE((((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0);
  return moved;
}

function field(number: number, type: number, value: Buffer): Buffer {
  const head = varint((number << 3) | type);
  return Buffer.concat(type === BYTES ? [head, varint(value.length), value] : [head, value]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

function float(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function double(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return bytes;
}
