/**
 * The unix socket of the agent in the kernel: one JSON object per line. The agent writes telemetry, and gets no answers;
 * a connection that begins with `control-hello` accepts commands as well (control-line.ts).
 */
import { chmod, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import type { KeeperLog } from './keeper-log.js';
import { jsonIn } from '@tpulab/platform/json-text.js';

/** A batch at 10 Hz with thousands of steps is far smaller. A longer line is dropped, up to its end. */
const MAX_LINE_BYTES = 1024 * 1024;

/** The agent opens one connection; a kernel that starts other processes may have some more. */
const MAX_CONNECTIONS = 16;

const NEWLINE = 0x0a;

type OnTelemetry = (json: string, message: Readonly<Record<string, unknown>>) => void;
/** The agent accepts commands on this connection. */
type OnControl = (connection: Socket) => void;

export class TelemetrySocket implements AsyncDisposable {
  readonly #connections = new Set<Socket>();
  readonly #server: Server;
  #dropped = 0;

  private constructor(
    private readonly path: string,
    private readonly onMessage: OnTelemetry,
    private readonly log: KeeperLog,
    private readonly onControl: OnControl
  ) {
    this.#server = createServer(connection => this.#accept(connection));
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  static async listen(
    path: string,
    onMessage: OnTelemetry,
    log: KeeperLog,
    onControl: OnControl = () => undefined
  ): Promise<TelemetrySocket> {
    const socket = new TelemetrySocket(path, onMessage, log, onControl);
    await listenPrivately(socket.#server, path, log);
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()));
    for (const connection of this.#connections) connection.destroy();
    await closed;
    await rm(this.path, { force: true });
  }

  #accept(connection: Socket): void {
    this.#connections.add(connection);
    const lines = new LineSplitter(
      MAX_LINE_BYTES,
      line => this.#line(line, connection),
      () => this.#drop('a line is too long')
    );
    connection.on('data', chunk => lines.push(chunk));
    connection.on('error', error => this.log.debug({ err: error }, 'the agent broke off'));
    connection.on('close', () => this.#connections.delete(connection));
  }

  #line(line: Buffer, connection: Socket): void {
    const json = line.toString('utf8');
    const message = jsonIn(json);
    if (message === undefined) {
      this.#drop('a line is not JSON');
      return;
    }
    if (!isMessage(message)) {
      this.#drop('a line is not an object with a type');
      return;
    }
    if (message['type'] === 'control-hello') {
      this.onControl(connection);
      return;
    }
    this.onMessage(json, message);
  }

  #drop(why: string): void {
    this.#dropped++;
    if (Number.isInteger(Math.log10(this.#dropped))) {
      this.log.warn({ dropped: this.#dropped, why }, 'telemetry was dropped');
    }
  }
}

function isMessage(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** Splits a stream into lines, in memory bounded by one line. */
export class LineSplitter {
  #parts: Buffer[] = [];
  #bytes = 0;
  #skipping = false;

  constructor(
    private readonly maxBytes: number,
    private readonly onLine: (line: Buffer) => void,
    private readonly onTooLong: () => void
  ) {}

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#add(chunk.subarray(start, end));
      if (!this.#skipping && this.#bytes > 0) {
        this.onLine(
          this.#parts.length === 1 ? (this.#parts[0] ?? chunk) : Buffer.concat(this.#parts, this.#bytes)
        );
      }
      this.#skipping = false;
      this.#parts = [];
      this.#bytes = 0;
      start = end + 1;
    }
    this.#add(chunk.subarray(start));
  }

  #add(part: Buffer): void {
    if (this.#skipping || part.length === 0) return;
    if (this.#bytes + part.length > this.maxBytes) {
      this.#skipping = true;
      this.#parts = [];
      this.#bytes = 0;
      this.onTooLong();
      return;
    }
    this.#parts.push(part);
    this.#bytes += part.length;
  }
}

/** Listens on a unix socket that only its owner can access. A file that a dead process left at the path is replaced. */
export async function listenPrivately(server: Server, path: string, log: KeeperLog): Promise<void> {
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
  // For example, no descriptor is left for one more connection; existing connections continue.
  server.on('error', error => log.error({ err: error, path }, 'a connection cannot be accepted'));
  await chmod(path, 0o600);
}
