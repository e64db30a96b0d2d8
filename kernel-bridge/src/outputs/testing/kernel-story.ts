/** For specs: messages between clients and a kernel, as a journal has them. */
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { JournalWriter, type JournalWriterOptions, RecordChannel } from '../../journal/index.js';
import { FROM_CLIENT } from '../../journal/index.js';
import { type ChannelName, encodeV1 } from '../../jupyter/index.js';

interface StoryMessage {
  readonly channel: ChannelName | 'bridge';
  readonly fromClient: boolean;
  readonly header: Readonly<Record<string, unknown>>;
  readonly parent: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly content: Readonly<Record<string, unknown>>;
  readonly buffers: readonly Buffer[];
}

type Content = Record<string, unknown>;

export class KernelStory {
  readonly messages: StoryMessage[] = [];
  readonly #requests = new Map<string, Readonly<Record<string, unknown>>>();
  session = 'kernel-1';

  request(
    code: string,
    { cellId = null, silent = false }: { cellId?: string | null; silent?: boolean } = {}
  ): string {
    const header = { msg_id: randomUUID(), msg_type: 'execute_request', session: 'client', username: 'me' };
    this.#requests.set(header.msg_id, header);
    const metadata = cellId === null ? {} : { cellId };
    this.#add('shell', header, {}, { code, silent }, { fromClient: true, metadata });
    return header.msg_id;
  }

  /** Adds a request with its beginning, its outputs, and its end. */
  cell(
    cellId: string | null,
    code: string,
    count: number,
    outputs: (id: string) => void = () => undefined
  ): string {
    const id = this.request(code, { cellId });
    this.begin(id, code, count);
    outputs(id);
    this.end(id, { execution_count: count });
    return id;
  }

  begin(id: string, code: string, count: number): void {
    this.status(id, 'busy');
    this.iopub(id, 'execute_input', { code, execution_count: count });
  }

  end(id: string, reply: Content = {}): void {
    this.reply(id, reply);
    this.status(id, 'idle');
  }

  reply(id: string, content: Content = {}, metadata: Content = {}): void {
    const whole = { status: 'ok', payload: [], ...content };
    this.#add('shell', this.#header('execute_reply'), this.#parent(id), whole, { metadata });
  }

  /** A restart is requested. */
  restart(): void {
    this.#note({ type: 'restart', reason: 'restart requested' });
  }

  status(id: string | null, state: string): void {
    this.iopub(id, 'status', { execution_state: state });
  }

  stream(id: string, text: string, name = 'stdout'): void {
    this.iopub(id, 'stream', { name, text });
  }

  display(id: string, data: Content, displayId: string | null = null, type = 'display_data'): void {
    const transient = displayId === null ? {} : { display_id: displayId };
    this.iopub(id, type, { data, metadata: {}, transient });
  }

  iopub(id: string | null, msgType: string, content: Content, buffers: readonly Buffer[] = []): void {
    this.#add('iopub', this.#header(msgType), id === null ? {} : this.#parent(id), content, { buffers });
  }

  gap(count: number, reason: string): void {
    this.#note({ type: 'gap', count, code: 'journal_disk_full', reason, from: 1, to: 2 });
  }

  #note(content: Content): void {
    this.messages.push({
      channel: 'bridge',
      fromClient: false,
      header: {},
      parent: {},
      metadata: {},
      content,
      buffers: []
    });
  }

  /** Appends the messages so far to a journal. */
  async writeTo(
    dir: string,
    more: Partial<JournalWriterOptions> = {},
    messages = this.messages
  ): Promise<void> {
    const writer = await JournalWriter.open(dir, {
      onWritten: () => undefined,
      onFault: () => undefined,
      ...more
    });
    for (const message of messages) {
      writer.append(channelOf(message), [payloadOf(message)]);
      if (more.segmentBytes !== undefined) await turn();
    }
    await writer.close();
  }

  #header(msgType: string): Content {
    return { msg_id: randomUUID(), msg_type: msgType, session: this.session, username: 'kernel' };
  }

  #parent(id: string): Readonly<Content> {
    return this.#requests.get(id) ?? { msg_id: id, msg_type: 'comm_msg', session: 'client' };
  }

  #add(
    channel: ChannelName,
    header: Content,
    parent: Readonly<Content>,
    content: Content,
    more: Partial<StoryMessage> = {}
  ): void {
    this.messages.push({
      channel,
      fromClient: false,
      header,
      parent,
      metadata: {},
      content,
      buffers: [],
      ...more
    });
  }
}

function channelOf({ channel, fromClient }: StoryMessage): number {
  return RecordChannel[channel] | (fromClient ? FROM_CLIENT : 0);
}

function payloadOf({ channel, header, parent, metadata, content, buffers }: StoryMessage): Buffer {
  const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
  if (channel === 'bridge') return json(content);
  return encodeV1({ channel, parts: [header, parent, metadata, content].map(json).concat(buffers) });
}

/** Paths of the segments of a journal, oldest first. */
export async function segmentsOf(dir: string): Promise<string[]> {
  const files = (await readdir(dir)).filter(file => file.endsWith('.seg'));
  return files.sort().map(file => path.join(dir, file));
}
