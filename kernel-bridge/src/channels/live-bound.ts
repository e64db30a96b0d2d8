/**
 * Bounds the live output that a page receives. A cell may print without end and update displays thousands of times per second; a
 * page that shows all of it freezes. Such a page requests bounded output (`?bounded=true`): it gets the same cell, at a rate that
 * it can show.
 *
 * - **Rate.** Messages beyond `perWindow` in a window, and all of the next window, wait until the window's end and are joined:
 *   texts of one stream become one message, the newest update of a display or widget replaces older ones, and `clear_output`
 *   drops what it clears.
 * - **Volume.** Once a cell shows `headChars` of text, further text goes into one display from the bridge: `FLOOD_MIME` counts
 *   the lines and bytes, and its text is the last lines. Displays beyond `displays` or `displayBytes` are counted in it too, and
 *   a single text or traceback that is too large is cut.
 *
 * Nothing is lost: the journal has every message, and clients that do not request bounded output get every message.
 */
import { FLOOD_MIME, type FloodNote, StreamText, wellFormed } from '@tpulab/protocol';
import { RecordChannel } from '../journal/record.js';
import { decodeV1, encodeV1, parseObject, PART, v1Part, WireError } from '../jupyter/index.js';
import { newHeader } from '../jupyter/kernel-message.js';
import type { OutgoingMessage } from './outgoing-message.js';
import { jsonIn } from '@tpulab/platform/json-text.js';
import { setNewest } from '@tpulab/platform/bounded.js';

interface BoundLimits {
  readonly windowMs: number;
  readonly perWindow: number;
  /** How much text a cell shows before the rest is counted. */
  readonly headChars: number;
  readonly tailLines: number;
  /**
   * How many of these lines show while the cell runs: nobody can read more at two updates per second, and each update
   * redraws them all.
   */
  readonly runningLines: number;
  readonly tailChars: number;
  readonly displays: number;
  readonly displayBytes: number;
  /** Limit of one text or traceback in a single message. */
  readonly oneText: number;
  /** Unsent bytes above which waiting messages stay queued. */
  readonly unsentBytes: number;
}

export const BOUND_LIMITS: BoundLimits = {
  windowMs: 100,
  perWindow: 25,
  headChars: 512 * 1024,
  tailLines: 1_000,
  runningLines: 100,
  tailChars: 128 * 1024,
  displays: 500,
  displayBytes: 64 * 1024 * 1024,
  oneText: 1024 * 1024,
  unsentBytes: 512 * 1024
};

/** Limit of executions whose outputs are tracked; the execution that has been silent longest is dropped first. */
const MAX_CELLS = 64;
/** Limits of the joined messages that wait: their number, and the characters of their text. */
const MAX_WAITING = 1_000;
/** How often the display with the counts is updated. */
const NOTE_MS = 500;

const DISPLAYS: ReadonlySet<string> = new Set(['display_data', 'execute_result']);
const BOUNDED: ReadonlySet<string> = new Set([
  ...DISPLAYS,
  'stream',
  'update_display_data',
  'clear_output',
  'comm_msg',
  'error'
]);

/** States after which the process sends nothing more. */
const ENDS: ReadonlySet<string> = new Set(['restarting', 'autorestarting', 'terminating', 'dead']);
const ALL_EXECUTIONS = Symbol('every execution');
const NO_HEADER = Buffer.from('{}');

type Json = Record<string, unknown>;

interface Item {
  seq: number;
  readonly type: string;
  readonly parent: string;
  parts: readonly Buffer[];
  content: Json;
  /** The frame, if it may be sent exactly as journaled. */
  v1: Buffer | null;
  /** A later item with the same key replaces it. */
  readonly key: string | null;
  /** For a stream: the joined texts. */
  texts: string[];
  chars: number;
}

/** The output of one execution since its last `clear_output`. */
class Cell {
  displays = 0;
  displayBytes = 0;
  lines = 0;
  bytes = 0;
  leftOut = 0;
  /** Text beyond the head; null while everything is shown. */
  tail: StreamText | null = null;
  noteId: string | null = null;
  isNoteNew = false;
  noteSeq = 0;
  sentAt = -Infinity;
  isRunning = true;
  #ended = 0;
  #line = 0;
  #column = 0;

  constructor(
    readonly msgId: string,
    readonly parent: Buffer,
    /** Record of its first output. */
    readonly from: number
  ) {}

  count(text: string): void {
    this.bytes += Buffer.byteLength(text);
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.lines += 1;
  }

  /** Counts shown text: overwritten text (carriage return) needs no space, so a progress bar may run for days. */
  grow(text: string): void {
    for (const [index, line] of text.split('\n').entries()) {
      if (index > 0) {
        this.#ended += this.#line + 1;
        this.#line = this.#column = 0;
      }
      for (const [turn, piece] of line.split('\r').entries()) {
        this.#column = (turn > 0 ? 0 : this.#column) + piece.length;
        this.#line = Math.max(this.#line, this.#column);
      }
    }
  }

  get shown(): number {
    return this.#ended + this.#line;
  }
}

/** The socket of a page. */
export interface BoundClient {
  send(seq: number, v1: Buffer): void;
  /** Bytes that the client has not received yet. */
  unsent(): number;
}

const NO_CLIENT: BoundClient = { send: () => undefined, unsent: () => 0 };

export class LiveBound {
  #client = NO_CLIENT;
  readonly #cells = new Map<string, Cell>();
  #waiting: Item[] = [];
  #waitingChars = 0;
  #inWindow = 0;
  /** The last window exceeded the limit: until a window stays below it, a page gets one batch per window. */
  #isFlood = false;
  #timer: NodeJS.Timeout | null = null;
  #noteCount = 0;
  #kernelSession = '';

  constructor(
    private readonly kernelId: string,
    private readonly limits: BoundLimits = BOUND_LIMITS
  ) {}

  /** The session has a socket again; that socket first receives what the session may have missed. */
  attach(client: BoundClient): void {
    this.detach(this.#client);
    this.#client = client;
    for (const cell of this.#cells.values()) if (cell.noteId !== null) this.#noteChanged(cell, cell.noteSeq);
  }

  detach(client: BoundClient): void {
    if (client !== this.#client) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#client = NO_CLIENT;
    this.#waiting = [];
    this.#waitingChars = 0;
  }

  /** Accepts a message for this client and sends it. */
  take(message: OutgoingMessage): void {
    const item = message.channel === RecordChannel.iopub ? this.#itemOf(message) : null;
    if (item === null) {
      this.#sendOther(message);
      return;
    }
    if (item.type === 'stream' && this.#waiting.length === 0 && this.#cells.get(item.parent)?.tail) {
      this.#emit(item);
      return;
    }
    this.#startWindow();
    this.#inWindow += 1;
    const isBelowRate = !this.#isFlood && this.#inWindow <= this.limits.perWindow;
    const maySend = isBelowRate && this.#client.unsent() <= this.limits.unsentBytes;
    if (this.#waiting.length === 0 && maySend) this.#emit(item);
    else this.#wait(item);
  }

  /** Sends the waiting messages, and the current counts. */
  flush(): void {
    const items = this.#waiting;
    this.#waiting = [];
    this.#waitingChars = 0;
    for (const item of items) this.#emit(item);
  }

  /** Other messages must not overtake earlier output. */
  #sendOther(message: OutgoingMessage): void {
    this.flush();
    if (this.#cells.size > 0) {
      const over = endOf(message);
      for (const cell of this.#cells.values()) {
        if (cell.isRunning && (over === ALL_EXECUTIONS || over === cell.msgId))
          this.#ended(cell, message.seq);
      }
    }
    this.#client.send(message.seq, message.v1);
  }

  #ended(cell: Cell, seq: number): void {
    cell.isRunning = false;
    if (cell.tail === null && cell.leftOut === 0) return;
    this.#noteChanged(cell, seq);
    this.#note(cell);
  }

  #itemOf(message: OutgoingMessage): Item | null {
    const { seq, v1 } = message;
    const header = v1Part(v1, PART.header);
    const type = field(header, 'msg_type');
    const parent = field(v1Part(v1, PART.parentHeader), 'msg_id');
    if (type === null || parent === null || !BOUNDED.has(type)) return null;
    this.#kernelSession = field(header, 'session') ?? this.#kernelSession;
    try {
      const { parts } = decodeV1(v1);
      // A widget's binary data cannot be joined; such updates are few.
      if (type === 'comm_msg' && parts.length > 4) return null;
      const content = parseObject(parts[PART.content] ?? NO_HEADER, 'content');
      const key = keyOf(type, parent, content);
      if (type === 'comm_msg' && key === null) return null;
      const text = type === 'stream' && typeof content['text'] === 'string' ? content['text'] : '';
      return { seq, type, parent, parts, content, v1, key, texts: [text], chars: text.length };
    } catch (error) {
      if (error instanceof WireError) return null;
      throw error;
    }
  }

  #cellOf({ parent: msgId, parts, seq }: Item): Cell {
    const cell =
      this.#cells.get(msgId) ?? new Cell(msgId, Buffer.from(parts[PART.parentHeader] ?? NO_HEADER), seq);
    setNewest(this.#cells, msgId, cell, MAX_CELLS);
    return cell;
  }

  #wait(item: Item): void {
    const last = this.#waiting.at(-1);
    if (item.type === 'clear_output') {
      // Cleared output need not be shown; updates may concern displays of other cells.
      this.#waiting = this.#waiting.filter(
        ({ parent, type }) => parent !== item.parent || type === 'update_display_data' || type === 'comm_msg'
      );
    } else if (item.type === 'stream' && last !== undefined && joins(last, item)) {
      last.texts.push(...item.texts);
      last.chars += item.chars;
      Object.assign(last, { seq: item.seq, parts: item.parts, v1: null });
      this.#waitingChars += item.chars;
      if (this.#waitingChars > this.limits.headChars) this.flush();
      return;
    } else if (item.key !== null) {
      const before = this.#waiting.findIndex(({ key }) => key === item.key);
      const [replaced] = before < 0 ? [] : this.#waiting.splice(before, 1);
      if (replaced?.type === 'comm_msg') mergeStates(replaced, item);
    }
    this.#waiting.push(item);
    this.#waitingChars += item.chars;
    if (this.#waiting.length > MAX_WAITING) this.flush();
  }

  #startWindow(): void {
    if (this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#isFlood = this.#inWindow > this.limits.perWindow;
      this.#inWindow = 0;
      const isFree = this.#client.unsent() <= this.limits.unsentBytes;
      if (isFree) {
        this.flush();
        const now = performance.now();
        for (const cell of this.#cells.values()) if (now - cell.sentAt >= NOTE_MS) this.#note(cell);
      }
      const isNoteDue = [...this.#cells.values()].some(({ isNoteNew }) => isNoteNew);
      if (this.#waiting.length > 0 || isNoteDue || this.#isFlood) this.#startWindow();
    }, this.limits.windowMs);
    this.#timer.unref();
  }

  #emit(item: Item): void {
    const { type } = item;
    const cell = this.#cellOf(item);
    if (type === 'stream') {
      this.#text(item, cell);
      return;
    }
    if (type === 'clear_output') {
      // A pending count belongs to the cleared output.
      this.#cells.set(cell.msgId, new Cell(cell.msgId, cell.parent, item.seq));
    } else if (DISPLAYS.has(type)) {
      const bytes = item.parts[PART.content]?.length ?? 0;
      cell.displays += 1;
      cell.displayBytes += bytes;
      if (cell.displays > this.limits.displays || cell.displayBytes > this.limits.displayBytes) {
        cell.leftOut += 1;
        cell.bytes += bytes;
        this.#noteChanged(cell, item.seq);
        return;
      }
    }
    if (cutContent(item.content, this.limits.oneText)) item.v1 = null;
    this.#send(item);
  }

  #text(item: Item, cell: Cell): void {
    const text = item.texts.length === 1 ? (item.texts[0] ?? '') : overwritten(item.texts.join(''));
    // A client that has reconnected is sent again what it may have missed; the counts already include it.
    if (cell.tail !== null && item.seq <= cell.noteSeq) return;
    cell.count(text);
    const room = this.limits.headChars - cell.shown;
    if (cell.tail === null && text.length <= room) {
      cell.grow(text);
      if (item.texts.length > 1) item.content = { ...item.content, text };
      this.#send(item);
      return;
    }
    let end = 0;
    if (cell.tail === null) {
      // Cuts at the end of a line if there is one.
      end = text.lastIndexOf('\n', Math.max(0, room)) + 1 || Math.max(0, room);
      const head = wellFormed(text.slice(0, end));
      cell.grow(head);
      if (head !== '') this.#send({ ...item, v1: null, content: { ...item.content, text: head } });
      cell.tail = new StreamText(2 * this.limits.tailChars);
    }
    // Only the end of a large piece is ever shown.
    cell.tail.write(text.slice(Math.max(end, text.length - 2 * this.limits.tailChars)));
    this.#noteChanged(cell, item.seq);
  }

  #noteChanged(cell: Cell, seq: number): void {
    cell.noteSeq = seq;
    cell.isNoteNew = true;
    this.#startWindow();
  }

  /** Shows or updates the display with the counts and the last lines. */
  #note(cell: Cell): void {
    if (!cell.isNoteNew) return;
    const isFirst = cell.noteId === null;
    cell.noteId ??= `tpulab-flood-${cell.msgId}-${++this.#noteCount}`;
    cell.isNoteNew = false;
    cell.sentAt = performance.now();
    const { lines, bytes, leftOut, isRunning, msgId, from } = cell;
    const { tailLines, runningLines, tailChars } = this.limits;
    const shown = lastLines(cell.tail, cell.isRunning ? runningLines : tailLines, tailChars);
    const note: FloodNote = { kernelId: this.kernelId, msgId, from, lines, bytes, leftOut, isRunning };
    const type = isFirst ? 'display_data' : 'update_display_data';
    const content = {
      data: { [FLOOD_MIME]: note, 'text/plain': shown },
      metadata: {},
      transient: { display_id: cell.noteId }
    };
    const parts = [
      Buffer.from(newHeader({ msgType: type, session: this.#kernelSession })),
      cell.parent,
      NO_HEADER,
      Buffer.from(JSON.stringify(content))
    ];
    this.#client.send(cell.noteSeq, encodeV1({ channel: 'iopub', parts }));
  }

  #send(item: Item): void {
    const { v1, parts, content } = item;
    const made = (): Buffer => {
      const around = [...parts];
      around[PART.content] = Buffer.from(JSON.stringify(content));
      return encodeV1({ channel: 'iopub', parts: around });
    };
    this.#client.send(item.seq, v1 ?? made());
  }
}

function joins(last: Item, { type, parent, content }: Item): boolean {
  return last.type === type && last.parent === parent && last.content['name'] === content['name'];
}

/** Returns the key of a display or widget of which only the newest state counts. */
function keyOf(type: string, parent: string, content: Json): string | null {
  if (type === 'update_display_data') {
    const id = (content['transient'] as Json | undefined)?.['display_id'];
    return typeof id === 'string' ? `display ${id}` : null;
  }
  if (type !== 'comm_msg') return null;
  const data = content['data'] as Json | undefined;
  const isUpdate = data?.['method'] === 'update' && typeof data['state'] === 'object';
  return isUpdate ? `comm ${parent} ${String(content['comm_id'])}` : null;
}

function mergeStates(before: Item, now: Item): void {
  const [old, data] = [before.content['data'] as Json, now.content['data'] as Json];
  const state = { ...(old['state'] as Json), ...(data['state'] as Json) };
  now.content = { ...now.content, data: { ...data, state } };
  now.v1 = null;
}

/**
 * Joined text without the parts that carriage returns overwrite. The first line may continue a line that a page already shows, so
 * the first return stays; a backspace in it could reach into that line, and such text stays unchanged, as does text that erases a
 * line or moves the cursor up.
 */
function overwritten(text: string): string {
  if (!/[\r\b]/.test(text) || /\x1b(?:\[\d*)?(?:[AK]|$)/.test(text)) return text;
  const end = text.indexOf('\n');
  const first = end < 0 ? text : text.slice(0, end);
  if (first.includes('\b')) return text;
  const at = first.indexOf('\r') + 1;
  const stream = new StreamText(Infinity);
  stream.write(text.slice(at));
  const rest = stream.toString(() => '');
  const cursor = stream.cursor(() => '');
  const again = cursor < rest.length ? `\r${rest.slice(rest.lastIndexOf('\n') + 1, cursor)}` : '';
  return text.slice(0, at) + rest + again;
}

function lastLines(tail: StreamText | null, count: number, chars: number): string {
  const text = (tail?.toString(() => '') ?? '').slice(-chars);
  let at = text.length;
  for (let lines = 0; lines <= count && at > 0; lines++) at = text.lastIndexOf('\n', at - 1);
  return wellFormed(text.slice(at + 1));
}

/** Cuts a text or traceback that is too large for any page. True if something was cut. */
function cutContent(content: Json, limit: number): boolean {
  const { data, traceback, evalue } = content;
  let isCut = false;
  const cut = (text: string): string => {
    if (text.length <= limit) return text;
    isCut = true;
    const half = limit / 8;
    const hidden = text.length - 2 * half;
    const note = `[tpulab: ${hidden} characters left out here; "tpulab outputs" prints all]`;
    return wellFormed(`${text.slice(0, half)}\n${note}\n${text.slice(-half)}`);
  };
  if (typeof evalue === 'string') content['evalue'] = cut(evalue);
  if (Array.isArray(traceback)) {
    const whole = traceback.join('\n');
    if (whole.length > limit) content['traceback'] = cut(whole).split('\n');
  }
  if (typeof data === 'object' && data !== null) {
    const plain = (data as Json)['text/plain'];
    if (typeof plain === 'string' && plain.length > limit)
      content['data'] = { ...data, 'text/plain': cut(plain) };
  }
  return isCut;
}

function field(part: Buffer | null, name: string): string | null {
  const value = (jsonIn(part) as Json | null | undefined)?.[name];
  return typeof value === 'string' ? value : null;
}

/** The execution that a status ends, or `ALL_EXECUTIONS` where the process ends. */
function endOf({ channel, v1 }: OutgoingMessage): string | typeof ALL_EXECUTIONS | null {
  if (channel !== RecordChannel.iopub || field(v1Part(v1, PART.header), 'msg_type') !== 'status') return null;
  const state = field(v1Part(v1, PART.content), 'execution_state');
  if (state === 'idle') return field(v1Part(v1, PART.parentHeader), 'msg_id');
  return state !== null && ENDS.has(state) ? ALL_EXECUTIONS : null;
}
