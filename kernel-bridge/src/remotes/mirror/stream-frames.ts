/** Takes the frames of a journal stream out of the bytes as they come, cut anywhere. */
import { STREAM_FRAME, STREAM_FRAME_HEADER_BYTES, StreamNote } from '@tpulab/protocol';
import { Value } from '@sinclair/typebox/value';

export type StreamFrame =
  { readonly kind: 'records'; readonly bytes: Buffer } | { readonly kind: 'note'; readonly note: StreamNote };

/** The largest record with what is read around it. */
const MAX_FRAME_BYTES = 513 * 1024 * 1024;

/** The other side does not speak the protocol, or a byte was changed on the way. */
export class StreamError extends Error {
  override readonly name = 'StreamError';
}

export async function* framesOf(source: AsyncIterable<Buffer>): AsyncGenerator<StreamFrame, void, void> {
  let chunks: Buffer[] = [];
  let held = 0;
  let needed = STREAM_FRAME_HEADER_BYTES;
  for await (const chunk of source) {
    chunks.push(chunk);
    held += chunk.length;
    if (held < needed) continue;
    let bytes = chunks.length === 1 ? chunk : Buffer.concat(chunks, held);
    for (;;) {
      needed = STREAM_FRAME_HEADER_BYTES;
      if (bytes.length < needed) break;
      const length = bytes.readUInt32LE(0);
      if (length > MAX_FRAME_BYTES) throw new StreamError(`a frame of ${length} bytes is impossible`);
      needed += length;
      if (bytes.length < needed) break;
      yield frameOf(bytes.readUInt8(4), bytes.subarray(STREAM_FRAME_HEADER_BYTES, needed));
      bytes = bytes.subarray(needed);
    }
    chunks = bytes.length === 0 ? [] : [bytes];
    held = bytes.length;
  }
}

function frameOf(type: number, body: Buffer): StreamFrame {
  if (type === STREAM_FRAME.records) return { kind: 'records', bytes: body };
  if (type !== STREAM_FRAME.note) throw new StreamError(`there is no frame of type ${type}`);
  let note: unknown;
  try {
    note = JSON.parse(body.toString('utf8'));
  } catch (cause) {
    throw new StreamError('a note is not JSON', { cause });
  }
  if (!Value.Check(StreamNote, note)) throw new StreamError('a note is not of a known kind');
  return { kind: 'note', note };
}
