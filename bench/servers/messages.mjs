// @ts-check
/** Jupyter messages as the benchmarks write and read them. */
import { randomUUID } from 'node:crypto';

/** @typedef {{ msg_id: string, msg_type: string, session: string, username: string, date: string, version: string }} Header */

/**
 * @param {string} session
 * @param {string} msgType
 * @returns {Header}
 */
export function header(session, msgType) {
  return {
    msg_id: randomUUID(),
    msg_type: msgType,
    session,
    username: 'bench',
    date: new Date().toISOString(),
    version: '5.4'
  };
}

/** @param {string} code */
export function executeContent(code) {
  return {
    code,
    silent: false,
    store_history: true,
    user_expressions: {},
    allow_stdin: false,
    stop_on_error: true
  };
}

/**
 * The four JSON parts of a request.
 * @param {Header} requested
 * @param {object} content
 */
export function jsonParts(requested, content) {
  return [requested, {}, {}, content].map(part => Buffer.from(JSON.stringify(part)));
}

/**
 * A v1 WebSocket frame.
 * @param {string} channel
 * @param {readonly Buffer[]} parts
 */
export function encodeFrame(channel, parts) {
  const pieces = [Buffer.from(channel), ...parts];
  const count = pieces.length + 1;
  const head = Buffer.alloc(8 * (count + 1));
  head.writeBigUInt64LE(BigInt(count));
  let offset = head.length;
  for (let i = 0; i < count; i++) {
    head.writeBigUInt64LE(BigInt(offset), 8 * (i + 1));
    offset += pieces[i]?.length ?? 0;
  }
  return Buffer.concat([head, ...pieces]);
}

/**
 * Channel and parts of a v1 WebSocket frame; the parts are views.
 * @param {Buffer} frame
 * @returns {{ channel: string, parts: Buffer[] }}
 */
export function decodeFrame(frame) {
  // 32 bits of each offset are enough for these messages, and quick to read.
  const count = frame.readUInt32LE(0);
  if (count < 6) throw new Error(`A frame of ${count} offsets cannot hold a message.`);
  let start = frame.readUInt32LE(8);
  let end = frame.readUInt32LE(16);
  const channel = frame.toString('latin1', start, end);
  const parts = [];
  for (let i = 3; i <= count; i++) {
    start = end;
    end = frame.readUInt32LE(8 * i);
    parts.push(frame.subarray(start, end));
  }
  return { channel, parts };
}
