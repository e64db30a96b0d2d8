// @ts-check
/** One client of one kernel: sends requests and records when each is answered. Costs little for each message. */
import { executeContent } from './messages.mjs';

/**
 * Every output of the benchmarks carries this and eight digits: found without parsing, so that reading costs the same for every
 * server.
 */
export const MARK = '#';
const MARK_BYTE = 0x23;
const DIGITS = 8;

/**
 * @typedef {object} Answer
 * @property {number} at `performance.now()` when reply and idle had both arrived, or when waiting ended
 * @property {boolean} reply
 * @property {boolean} idle
 */

/**
 * @typedef {object} Tally
 * @property {number} delivered
 * @property {number} disordered numbers that came after a higher one, or twice
 * @property {number} missing between the first and the last received one
 * @property {number} lastAt
 * @property {number} bytes of buffers
 */

export class Client {
  /** @type {import('./server.mjs').Connection} */
  #connection;
  /** @type {Map<string, { reply: boolean, idle: boolean, resolve: (answer: Answer) => void }>} */
  #pending = new Map();
  #last = -1;
  /** @type {Tally} */
  tally = emptyTally();
  /** Time of the last received message. */
  receivedAt = performance.now();

  /** @param {import('./server.mjs').Connection} connection */
  constructor(connection) {
    this.#connection = connection;
    connection.listen((channel, parts) => this.#see(channel, parts));
  }

  startTally() {
    this.tally = emptyTally();
    this.#last = -1;
  }

  /**
   * @param {string} msgType
   * @param {object} content
   * @param {number} [silenceMs] stop when no message at all has come for so long
   * @returns {Promise<Answer & { sentAt: number }>}
   */
  async request(msgType, content, silenceMs = 60_000) {
    const sentAt = performance.now();
    this.receivedAt = sentAt;
    const msgId = await this.#connection.send('shell', msgType, content);
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const answer = await new Promise(resolve => {
      const pending = { reply: false, idle: false, resolve };
      this.#pending.set(msgId, pending);
      const check = () => {
        const left = this.receivedAt + silenceMs - performance.now();
        if (left > 0) timer = setTimeout(check, left);
        else resolve({ at: performance.now(), reply: pending.reply, idle: pending.idle });
      };
      check();
    });
    clearTimeout(timer);
    this.#pending.delete(msgId);
    return { ...answer, sentAt };
  }

  /**
   * @param {string} code
   * @param {number} [silenceMs]
   */
  execute(code, silenceMs) {
    return this.request('execute_request', executeContent(code), silenceMs);
  }

  /** Repeats requests until a response is complete: a subscription may reach a kernel after its first responses. */
  async ready() {
    const deadline = performance.now() + 60_000;
    while (performance.now() < deadline) {
      const { reply, idle } = await this.request('kernel_info_request', {}, 1000);
      if (reply && idle) return;
    }
    throw new Error('The kernel did not answer within 60 s.');
  }

  /**
   * @param {string} msgType
   * @param {object} content
   * @param {readonly Buffer[]} buffers
   */
  post(msgType, content, buffers) {
    return this.#connection.send('shell', msgType, content, buffers);
  }

  close() {
    return this.#connection.close();
  }

  /**
   * @param {string} channel
   * @param {readonly Buffer[]} parts
   */
  #see(channel, parts) {
    const now = performance.now();
    this.receivedAt = now;
    const content = /** @type {Buffer} */ (parts[3]);
    // An answer to a request never carries the mark; its code does, in execute_input.
    let at = channel === 'iopub' ? content.indexOf(MARK_BYTE) : -1;
    if (at >= 0) {
      if (isExecuteInput(/** @type {Buffer} */ (parts[0]))) return;
      this.tally.lastAt = now;
      for (let i = 4; i < parts.length; i++) this.tally.bytes += parts[i]?.length ?? 0;
      for (; at >= 0; at = content.indexOf(MARK_BYTE, at + DIGITS)) this.#count(numberAt(content, at + 1));
      return;
    }
    this.#answer(channel, parts);
  }

  /** @param {number} number */
  #count(number) {
    this.tally.delivered++;
    if (number <= this.#last) {
      this.tally.disordered++;
      return;
    }
    this.tally.missing += number - this.#last - 1;
    this.#last = number;
  }

  /**
   * @param {string} channel
   * @param {readonly Buffer[]} parts
   */
  #answer(channel, parts) {
    const parent = JSON.parse(String(parts[1]));
    const pending = this.#pending.get(parent.msg_id);
    if (!pending) return;
    if (channel === 'shell') pending.reply = true;
    else {
      const { msg_type: type } = JSON.parse(String(parts[0]));
      const content = JSON.parse(String(parts[3]));
      if (type === 'status' && content.execution_state === 'idle') pending.idle = true;
      if (type === 'error') console.error(`The kernel says: ${content.ename}: ${content.evalue}`);
    }
    if (pending.reply && pending.idle) pending.resolve({ at: performance.now(), reply: true, idle: true });
  }
}

/** @returns {Tally} */
function emptyTally() {
  return { delivered: 0, disordered: 0, missing: 0, lastAt: 0, bytes: 0 };
}

/** @param {Buffer} header */
function isExecuteInput(header) {
  return header.includes('execute_input');
}

/**
 * @param {Buffer} bytes
 * @param {number} at
 */
function numberAt(bytes, at) {
  let number = 0;
  for (let i = at; i < at + DIGITS; i++) number = number * 10 + ((bytes[i] ?? 48) - 48);
  return number;
}
