/**
 * A WebSocket class for kernel connections that uses numbered channels with the gateway and Jupyter's v1 framing with the
 * page. Lab's own kernel connection stays unchanged; a server without numbered channels is used in v1.
 */
import {
  type AckNote,
  type GatewayNote,
  NUMBERED_HEADER_BYTES,
  NUMBERED_SUBPROTOCOL
} from '@tpulab/protocol';
import { ChannelLink, type Deliver } from './channel-link.js';
import { messageId } from './message-id.js';

const V1_SUBPROTOCOL = 'v1.kernel.websocket.jupyter.org';
/** Kernels times clients of a page; the client opened longest ago is forgotten first. */
const MAX_LINKS = 256;
/** The gateway stores a client's acknowledged position, for a page that returns without it. */
const ACK_INTERVAL_MS = 1_000;

/** Close codes of a page that closes a socket itself, or gives no code. */
const NORMAL_CLOSE_CODES: ReadonlySet<number> = new Set([1000, 1005]);
/** The form of message ids that the gateway accepts; it refuses a socket that names another. */
const LAST_ID = /^.{1,256}$/;

/** The links of one backend's kernels, and the class whose sockets feed them. */
export class KernelSockets {
  readonly WebSocket: typeof WebSocket;
  readonly #links = new Map<string, ChannelLink>();

  /** @param broken called when a socket was not closed by this page, before any other listener is notified */
  constructor(base: typeof WebSocket, broken: () => void = () => undefined) {
    const linkOf = (kernelId: string, sessionId: string): ChannelLink => this.link(kernelId, sessionId);
    this.WebSocket = numberedSocket(base, linkOf, broken);
  }

  /** The link between a client (`kernel.clientId`) and a kernel; one object for each pair. */
  link(kernelId: string, sessionId: string): ChannelLink {
    const key = `${kernelId} ${sessionId}`;
    const link = this.#links.get(key) ?? new ChannelLink();
    this.#links.delete(key);
    this.#links.set(key, link);
    for (const oldest of [...this.#links.keys()].slice(0, -MAX_LINKS)) this.#links.delete(oldest);
    return link;
  }
}

function numberedSocket(
  Base: typeof WebSocket,
  linkOf: (kernelId: string, sessionId: string) => ChannelLink,
  broken: () => void
): typeof WebSocket {
  return class extends Base {
    readonly #link: ChannelLink | null;

    constructor(url: string | URL, protocols?: string | string[]) {
      const offered = typeof protocols === 'string' ? [protocols] : (protocols ?? []);
      const { link, address } = linkAndAddress(url, linkOf);
      const isOurs = link !== null;
      // Lab offers none after a socket has ended before it was open, as happens when the connection is cut for a moment.
      const ours = new Set([NUMBERED_SUBPROTOCOL, V1_SUBPROTOCOL, ...offered]);
      super(isOurs ? address : url, isOurs ? [...ours] : offered);
      this.#link = isOurs ? link : null;
      this.addEventListener('close', ({ code }) => {
        if (!NORMAL_CLOSE_CODES.has(code)) broken();
      });
      if (isOurs) {
        link.opening();
        listen(
          this,
          link,
          () => super.protocol === NUMBERED_SUBPROTOCOL,
          text => super.send(text)
        );
      }
    }

    override get protocol(): string {
      const negotiated = super.protocol;
      return negotiated === NUMBERED_SUBPROTOCOL ? V1_SUBPROTOCOL : negotiated;
    }

    override send(data: Parameters<WebSocket['send']>[0]): void {
      const isAnswered = data instanceof ArrayBuffer && this.#link?.answers?.(data) === true;
      if (!isAnswered && (this.#link?.maySend(() => messageId(data)) ?? true)) super.send(data);
    }
  };
}

/** Converts incoming messages to the form that the kernel connection expects. Registered before any other listener. */
function listen(
  socket: WebSocket,
  link: ChannelLink,
  isNumbered: () => boolean,
  sendText: (text: string) => void
): void {
  const passed = new WeakSet<Event>();
  const deliver: Deliver = data => {
    const event = new MessageEvent('message', { data });
    passed.add(event);
    socket.dispatchEvent(event);
  };
  let acked = 0;
  const acks = setInterval(() => {
    const { position } = link;
    if (position !== null && position > acked && socket.readyState === socket.OPEN && isNumbered()) {
      acked = position;
      const note: AckNote = { op: 'ack', seq: position };
      sendText(JSON.stringify(note));
    }
  }, ACK_INTERVAL_MS);
  socket.addEventListener('close', () => {
    clearInterval(acks);
    link.detached(deliver);
  });
  socket.addEventListener('message', event => {
    if (passed.has(event) || !isNumbered()) return;
    event.stopImmediatePropagation();
    const data: unknown = event.data;
    if (typeof data === 'string') {
      const note = asNote(data);
      if (note?.op === 'attached') {
        acked = note.position;
        link.attached(note.position, deliver);
      }
      return;
    }
    const bytes = data as ArrayBuffer;
    if (bytes.byteLength > NUMBERED_HEADER_BYTES) {
      const seq = Number(new DataView(bytes).getBigUint64(0, true));
      link.received({ seq, data: bytes.slice(NUMBERED_HEADER_BYTES) }, deliver);
    }
  });
}

/** The link of a channels socket, and its address with the parameters for the gateway. */
function linkAndAddress(
  url: string | URL,
  linkOf: (kernelId: string, sessionId: string) => ChannelLink
): { link: ChannelLink | null; address: string } {
  const address = new URL(url);
  const kernelId = /\/api\/kernels\/([^/]+)\/channels$/.exec(address.pathname)?.[1];
  const sessionId = address.searchParams.get('session_id');
  if (kernelId === undefined || sessionId === null || sessionId === '') {
    return { link: null, address: address.href };
  }
  const link = linkOf(decodeURIComponent(kernelId), sessionId);
  address.searchParams.set('bounded', 'true');
  if (link.position !== null) {
    address.searchParams.set('resume', String(link.position));
    for (const [channel, id] of link.last) {
      if (LAST_ID.test(id)) {
        address.searchParams.append('last', `${channel}:${id}`);
      }
    }
  }
  for (const predecessor of link.predecessors) address.searchParams.append('predecessor', predecessor);
  return { link, address: address.href };
}

function asNote(text: string): GatewayNote | null {
  try {
    const note: unknown = JSON.parse(text);
    const isNote =
      typeof note === 'object' &&
      note !== null &&
      'op' in note &&
      'position' in note &&
      typeof note.position === 'number';
    return isNote ? (note as GatewayNote) : null;
  } catch {
    return null; // a newer gateway may send messages that this page does not understand
  }
}
