// @ts-check
/** A page that steers a training: it sends on the channels socket of a kernel, and receives results on the events socket. */

export class Page {
  /** @type {import('../servers/server.mjs').Connection} */
  #connection;
  /** @type {import('ws').WebSocket} */
  #events;
  /** @type {Map<string, () => void>} by msg_id, for the reply */
  #replies = new Map();
  /** @type {(() => void) | null} */
  #onComm = null;
  /** @type {Map<string, (report: { at: number, message: any }) => void>} by id of the command */
  #commands = new Map();
  /** @type {Set<string>} */
  #runs = new Set();
  /** @type {(() => void) | null} */
  #onRun = null;

  /**
   * @param {import('../servers/server.mjs').Connection} connection
   * @param {import('ws').WebSocket} events
   */
  constructor(connection, events) {
    this.#connection = connection;
    this.#events = events;
    connection.listen((channel, parts) => this.#see(channel, parts));
    events.on('message', data => this.#receive(JSON.parse(String(data))));
    events.send(JSON.stringify({ op: 'subscribe', topics: ['runs'] }));
  }

  /** @param {string} channel @param {string} type @param {object} content */
  post(channel, type, content) {
    return this.#connection.send(channel, type, content);
  }

  /** Resolves with the reply. @param {string} channel @param {string} type @param {object} content @returns {Promise<void>} */
  async request(channel, type, content) {
    const id = await this.post(channel, type, content);
    await new Promise(resolve => this.#replies.set(id, () => resolve(undefined)));
  }

  /** Sends to a comm and resolves with the milliseconds until it has answered. @param {object} content @returns {Promise<number>} */
  async comm(content) {
    const answered = new Promise(resolve => (this.#onComm = () => resolve(undefined)));
    const sentAt = now();
    await this.post('shell', 'comm_msg', content);
    await answered;
    return now() - sentAt;
  }

  /** Resolves with the final report about a command. @param {string} id @returns {Promise<{ at: number, message: any }>} */
  receivedFor(id) {
    return new Promise(resolve => this.#commands.set(id, resolve));
  }

  /** Resolves when a new run has started. @returns {Promise<void>} */
  nextRun() {
    return new Promise(resolve => (this.#onRun = () => resolve(undefined)));
  }

  close() {
    this.#events.terminate();
    return this.#connection.close();
  }

  /** @param {string} channel @param {readonly Buffer[]} parts */
  #see(channel, parts) {
    const { msg_type: type } = JSON.parse(String(parts[0]));
    if (channel === 'iopub' && type === 'comm_msg') this.#onComm?.();
    if (channel === 'iopub') return;
    const parent = JSON.parse(String(parts[1])).msg_id;
    if (type === 'execute_reply' && JSON.parse(String(parts[3])).status !== 'ok') {
      throw new Error(`A cell failed: ${String(parts[3])}`);
    }
    this.#replies.get(parent)?.();
    this.#replies.delete(parent);
  }

  /** @param {{ op: string, events?: { data?: any }[] }} frame */
  #receive({ op, events }) {
    const at = now();
    if (op !== 'events') return;
    for (const { data } of events ?? []) {
      if (data?.type === 'run' && data.state === 'running' && !this.#runs.has(data.run)) {
        this.#runs.add(data.run);
        this.#onRun?.();
      }
      if (data?.type === 'control' && data.phase !== 'accepted') {
        this.#commands.get(data.id)?.({ at, message: data });
        this.#commands.delete(data.id);
      }
    }
  }
}

/** Unix milliseconds with fractions, as the kernel sends them. */
export function now() {
  return performance.timeOrigin + performance.now();
}
