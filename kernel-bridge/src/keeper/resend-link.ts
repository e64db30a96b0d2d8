/**
 * The connection to the ring in which a kernel of our launcher stores unconfirmed messages. Other kernels have
 * no such socket. The launcher serves it with a separate thread, so it answers while a cell runs
 * (`tpulab/launcher/resend_socket.py`). It answers in frames like those between keeper and gateway, with two additional types.
 */
import { connect, type Socket } from 'node:net';
import type { ChannelName } from '../jupyter/kernel-message.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import { FrameDecoder } from '../keeper-protocol/frames.js';

const AnswerFrame = { json: 1, message: 2 } as const;

/** In the order of the launcher. */
const CHANNELS: readonly ChannelName[] = ['shell', 'control', 'stdin', 'iopub'];

/** One message as the kernel has sent it, identity or topic first. */
interface SentMessage {
  readonly channel: ChannelName;
  readonly frames: Buffer[];
}

/** By channel, the last message in the journal. */
export type Positions = Readonly<Partial<Record<ChannelName, string>>>;

export interface Resent {
  /** By channel in the order of sending. */
  readonly messages: readonly SentMessage[];
  /** By channel, the number of messages that did not fit into the ring. */
  readonly lost: Readonly<Partial<Record<ChannelName, number>>>;
  /** False: no more than `lost` are missing. */
  readonly exact: boolean;
}

interface Pending {
  readonly resolve: (answer: Record<string, unknown>) => void;
  readonly reject: (error: Error) => void;
}

export class ResendLink {
  readonly #pending = new Map<number, Pending>();
  #messages: SentMessage[] = [];
  #nextId = 1;

  private constructor(private readonly socket: Socket) {
    const decoder = new FrameDecoder();
    socket.on('data', chunk => {
      try {
        decoder.push(chunk, (type, body) => this.#frame(type, body));
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    socket.on('error', () => undefined); // its `close` ends pending requests
    socket.on('close', () => this.#closed());
  }

  /** Null when the kernel has no such socket. A kernel with one may be too busy to answer, and is connected anyway. */
  static connect(path: string): Promise<ResendLink | null> {
    return new Promise(resolve => {
      const socket = connect({ path });
      socket.once('connect', () => {
        socket.removeAllListeners();
        resolve(new ResendLink(socket));
      });
      socket.once('error', () => resolve(null));
    });
  }

  get closed(): boolean {
    return this.socket.destroyed;
  }

  /** The kernel may drop everything up to these messages. Resolves when it has done so. */
  async confirm(last: Positions): Promise<void> {
    await this.#request({ op: 'confirm', last });
  }

  /** Requests the messages sent after `last` to `routingId`, on these channels. Resolves when all have been received. */
  async resend(last: Positions, routingId: string, channels?: readonly ChannelName[]): Promise<Resent> {
    const { lost, exact } = await this.#request({ op: 'resend', last, routingId, channels });
    const messages = this.#messages;
    this.#messages = [];
    return { messages, lost: lost as Resent['lost'], exact: exact === true };
  }

  close(): void {
    this.socket.destroy();
  }

  #request(request: object): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      if (this.closed) {
        reject(disconnected());
        return;
      }
      const id = this.#nextId++;
      this.#pending.set(id, { resolve, reject });
      this.socket.write(`${JSON.stringify({ id, ...request })}\n`);
    });
  }

  #frame(type: number, body: Buffer): void {
    if (type === AnswerFrame.message) this.#messages.push(decodeMessage(body));
    else if (type === AnswerFrame.json) {
      this.#answered(JSON.parse(body.toString('utf8')) as Record<string, unknown>);
    } else {
      throw new KeeperError(
        'keeper_protocol',
        `The kernel's launcher sent a frame of unknown kind ${type}; restart the kernel.`
      );
    }
  }

  #answered(content: Record<string, unknown>): void {
    const id = content['id'] as number; // the greeting has none
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.resolve(content);
  }

  #closed(): void {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    pending.forEach(({ reject }) => reject(disconnected()));
  }
}

function disconnected(): KeeperError {
  return new KeeperError('kernel_dead', 'The kernel has closed its resend socket.');
}

/** Returns copies of its frames, because they are stored. */
function decodeMessage(body: Buffer): SentMessage {
  const channel = CHANNELS[body.readUInt8(0)];
  const frames: Buffer[] = [];
  let at = 3;
  for (let left = body.readUInt16LE(1); left > 0; left--) {
    const end = at + 4 + body.readUInt32LE(at);
    frames.push(Buffer.from(body.subarray(at + 4, end)));
    at = end;
  }
  if (channel === undefined || at !== body.length) {
    throw new KeeperError(
      'keeper_protocol',
      'A message resent by the launcher is incomplete; restart the kernel.'
    );
  }
  return { channel, frames };
}
