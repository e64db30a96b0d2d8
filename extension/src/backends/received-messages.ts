/**
 * Which messages a client has received, so that none is shown twice.
 *
 * After a lost connection the bridge sends again what it does not know to have arrived: the last fraction of a second.
 * Lab would print that twice. Only what came over an *earlier* socket of the same client is a repetition; a kernel
 * that uses a `msg_id` twice within one connection is left alone.
 */

/** More than a client can receive in the time between two confirmations of the bridge. */
const REMEMBERED = 16_384;

export class ReceivedMessages {
  /** A new socket of this client is opened. */
  newSocket(): void {
    this._earlier = new Set([...this._earlier, ...this._current].slice(-REMEMBERED));
    this._current = new Set();
  }

  /** Notes a message; true when an earlier socket brought it already. */
  isRepeated(data: unknown): boolean {
    const id = messageId(data);
    if (id === null) {
      return false;
    }
    if (this._earlier.has(id)) {
      return true;
    }
    this._current.add(id);
    if (this._current.size > REMEMBERED) {
      const [oldest] = this._current;
      this._current.delete(oldest ?? id);
    }
    return false;
  }

  private _earlier: ReadonlySet<string> = new Set();
  private _current = new Set<string>();
}

const decoder = new TextDecoder();

/** `header.msg_id` of a frame of `v1.kernel.websocket.jupyter.org`; null for anything else. */
export function messageId(data: unknown): string | null {
  if (typeof data !== 'object' || data === null || !('byteLength' in data)) {
    return null;
  }
  try {
    const bytes = new DataView(data as ArrayBuffer);
    // Offsets: of the channel name, then of the header, then of the parent header.
    const start = Number(bytes.getBigUint64(16, true));
    const end = Number(bytes.getBigUint64(24, true));
    const header: unknown = JSON.parse(
      decoder.decode(new Uint8Array(data as ArrayBuffer, start, end - start))
    );
    const id = typeof header === 'object' && header !== null && 'msg_id' in header ? header.msg_id : null;
    return typeof id === 'string' && id !== '' ? id : null;
  } catch {
    return null; // not a frame that we know; the kernel connection says what is wrong with it
  }
}
