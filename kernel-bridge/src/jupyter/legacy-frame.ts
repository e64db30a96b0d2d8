/**
 * The WebSocket framing before v1: one JSON text with `channel` beside the parts of the message, or, when there are
 * buffers, a binary frame of big-endian u32: the count of sections, their offsets, the JSON, the buffers.
 *
 * Towards the client the JSON parts are inserted unchanged. From the client the JSON has to be parsed, so its parts are
 * serialized again; the signature for the kernel is ours and covers the new bytes.
 */
import {
  isChannelName,
  JSON_PARTS,
  type KernelMessage,
  parseHeader,
  PART,
  WireError
} from './kernel-message.js';

const MAX_SECTIONS = 65_536;

/** A string is sent as a text frame, bytes as a binary frame. */
export function encodeLegacy(message: KernelMessage): string | Buffer {
  const json = legacyJson(message);
  const buffers = message.parts.slice(JSON_PARTS);
  if (buffers.length === 0) return json.toString('utf8');
  const sections = [json, ...buffers];
  const table = Buffer.allocUnsafe(4 * (1 + sections.length));
  let at = table.writeUInt32BE(sections.length, 0);
  let offset = table.length;
  for (const section of sections) {
    if (offset > 0xffff_ffff) {
      throw new WireError(
        'frame_too_large',
        'Legacy framing cannot address more than 4 GiB; connect with the v1 subprotocol.'
      );
    }
    at = table.writeUInt32BE(offset, at);
    offset += section.length;
  }
  return Buffer.concat([table, ...sections], offset);
}

export function decodeLegacy(frame: string | Buffer): KernelMessage {
  if (typeof frame === 'string') return messageOf(frame, []);
  const sectionCount = frame.length >= 4 ? frame.readUInt32BE(0) : 0;
  if (sectionCount < 1 || sectionCount > MAX_SECTIONS || 4 * (1 + sectionCount) > frame.length) {
    throw new WireError(
      'frame_malformed',
      `A legacy frame of ${frame.length} bytes cannot have ${sectionCount} sections.`
    );
  }
  const sections: Buffer[] = [];
  let end = frame.length;
  for (let index = sectionCount; index >= 1; index--) {
    const start = frame.readUInt32BE(4 * index);
    if (start > end) {
      throw new WireError(
        'frame_malformed',
        `Section ${index - 1} would start at ${start} and end at ${end}.`
      );
    }
    sections.unshift(frame.subarray(start, end));
    end = start;
  }
  if (end !== 4 * (1 + sectionCount)) {
    throw new WireError(
      'frame_malformed',
      `The JSON starts at ${end}, but the offset table ends at ${4 * (1 + sectionCount)}.`
    );
  }
  const [json = Buffer.alloc(0), ...buffers] = sections;
  return messageOf(json.toString('utf8'), buffers);
}

function legacyJson({ channel, parts }: KernelMessage): Buffer {
  const part = (index: number): Buffer => parts[index] ?? Buffer.from('{}');
  // nbclient, among others, reads msg_id and msg_type beside the header.
  const { msg_id, msg_type } = parseHeader(part(PART.header));
  return Buffer.concat([
    Buffer.from(
      `{"channel":"${channel}","msg_id":${JSON.stringify(msg_id)},"msg_type":${JSON.stringify(msg_type)},"header":`
    ),
    part(PART.header),
    Buffer.from(',"parent_header":'),
    part(PART.parentHeader),
    Buffer.from(',"metadata":'),
    part(PART.metadata),
    Buffer.from(',"content":'),
    part(PART.content),
    Buffer.from(',"buffers":[]}')
  ]);
}

function messageOf(json: string, buffers: readonly Buffer[]): KernelMessage {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new WireError('frame_malformed', 'A legacy frame must be a JSON object.', { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new WireError('frame_malformed', 'A legacy frame must be a JSON object.');
  }
  const fields = value as Record<string, unknown>;
  // jupyter_server sends a message without a channel to the shell; so do we.
  const channel = fields['channel'] ?? 'shell';
  if (!isChannelName(channel)) {
    throw new WireError('channel_unknown', 'The channel is none of shell, control, stdin and iopub.');
  }
  const part = (name: string, required: boolean): Buffer => {
    const given = fields[name] ?? (required ? undefined : {});
    if (typeof given !== 'object' || Array.isArray(given)) {
      throw new WireError('frame_malformed', `"${name}" of a legacy frame must be a JSON object.`);
    }
    return Buffer.from(JSON.stringify(given));
  };
  return {
    channel,
    parts: [
      part('header', true),
      part('parent_header', false),
      part('metadata', false),
      part('content', true),
      ...buffers
    ]
  };
}
