/**
 * The cloud's notices for this machine: preemption (spot), or maintenance of its host. Compute Engine publishes them on its
 * metadata server, which answers a waiting request at the moment when a value changes. Outside the cloud nothing is
 * requested.
 *
 * https://cloud.google.com/compute/docs/metadata/getting-live-migration-notice, …/instances/spot ("detecting preemption").
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { RemoteNotice } from '@tpulab/protocol';
import type { Logger } from 'pino';
import { deadline } from '@tpulab/platform/waiting.js';
import { metadataUrl } from './accelerator-info.js';

export interface CloudNoticesOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Replaces `/` in specs. */
  readonly root?: string | undefined;
  readonly log: Logger;
  /** Base of the metadata server; by default from `env`, otherwise Google's. */
  readonly url?: string | undefined;
  readonly now?: () => number;
}

/** The server ends a waiting request after this time; the request is then repeated. */
const WAIT_S = 300;
const ANSWER_SLACK_MS = 30_000;
const RETRY_MS = { first: 1_000, longest: 60_000 };
/** The time that Compute Engine leaves between the notice and the end of a spot machine. */
export const PREEMPTION_MS = 30_000;
const MAX_BYTES = 64 * 1024;

interface Value {
  readonly text: string;
  readonly etag: string;
}

export class CloudNotices implements AsyncDisposable {
  readonly #now: () => number;
  readonly #stopping = new AbortController();
  readonly #listeners = new Set<(notice: RemoteNotice | null) => void>();
  readonly #watching: Promise<void>;
  #preemption: RemoteNotice | null = null;
  #maintenance: RemoteNotice | null = null;

  constructor(private readonly options: CloudNoticesOptions) {
    this.#now = options.now ?? Date.now;
    this.#watching = this.#start();
  }

  /** The most urgent current notice. */
  get notice(): RemoteNotice | null {
    return this.#preemption ?? this.#maintenance;
  }

  listen(listener: (notice: RemoteNotice | null) => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort(new Error('the server is stopping'));
    this.#listeners.clear();
    await this.#watching;
  }

  async #start(): Promise<void> {
    if (!(await this.#isInCloud())) return;
    await Promise.all([
      this.#watch('preempted', text => {
        this.#preemption = text === 'TRUE' ? (this.#preemption ?? this.#newPreemption()) : null;
      }),
      this.#watch('maintenance-event', async text => {
        this.#maintenance = text === 'NONE' || text === '' ? null : await this.#maintained(text);
      })
    ]);
  }

  /** Whether this is a cloud machine: elsewhere, the name of the metadata server must not be looked up. */
  async #isInCloud(): Promise<boolean> {
    const { env, root = '/', url } = this.options;
    if (url !== undefined || env['GCE_METADATA_HOST'] || env['GCE_METADATA_IP']) return true;
    const file = path.join(root, 'sys/class/dmi/id/product_name');
    return /google/i.test(await readFile(file, 'utf8').catch(() => ''));
  }

  async #watch(name: string, changed: (text: string) => void | Promise<void>): Promise<void> {
    const { signal } = this.#stopping;
    let last: Value | null = null;
    let retryMs = RETRY_MS.first;
    while (!this.#isStopping()) {
      try {
        const value: Value = await this.#fetchValue(name, last);
        retryMs = RETRY_MS.first;
        if (value.text === last?.text) {
          last = value;
          continue;
        }
        last = value;
        const before = JSON.stringify(this.notice);
        await changed(value.text);
        if (JSON.stringify(this.notice) !== before) this.#notify();
      } catch (error) {
        if (this.#isStopping()) return;
        this.options.log.debug({ err: error, name }, 'the metadata server does not answer');
        await pause(retryMs, undefined, { signal, ref: false }).catch(() => undefined);
        retryMs = Math.min(RETRY_MS.longest, retryMs * 2);
      }
    }
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** The first call returns the current value; later calls wait for another value. */
  async #fetchValue(name: string, last: Value | null): Promise<Value> {
    const query =
      last === null
        ? ''
        : `?wait_for_change=true&timeout_sec=${WAIT_S}&last_etag=${encodeURIComponent(last.etag)}`;
    const { status, text, etag } = await this.#get(`${name}${query}`);
    if (status !== 200) throw new Error(`${name}: ${status}`);
    // Without an etag the server would answer immediately every time.
    if (etag === null) throw new Error(`${name}: no etag`);
    return { text, etag };
  }

  async #get(target: string): Promise<{ status: number; text: string; etag: string | null }> {
    const { url = metadataUrl(this.options.env) } = this.options;
    using within = deadline(WAIT_S * 1000 + ANSWER_SLACK_MS, this.#stopping.signal);
    const response = await fetch(`${url}/computeMetadata/v1/instance/${target}`, {
      headers: { 'Metadata-Flavor': 'Google' },
      redirect: 'error',
      signal: within.signal
    });
    if (response.headers.get('metadata-flavor') === 'Google') {
      const text = (await response.text()).slice(0, MAX_BYTES).trim();
      return { status: response.status, text, etag: response.headers.get('etag') };
    }
    await response.body?.cancel();
    throw new Error('what answers is not the metadata server');
  }

  #newPreemption(): RemoteNotice {
    const since = this.#now();
    return {
      kind: 'preemption',
      since,
      deadline: since + PREEMPTION_MS,
      message:
        'The cloud is preempting this machine. Save what is only on its disk; kernel output is kept on your computer.'
    };
  }

  async #maintained(event: string): Promise<RemoteNotice> {
    const migrates = event.startsWith('MIGRATE');
    return {
      kind: 'maintenance',
      since: this.#now(),
      deadline: await this.#windowStart(),
      message: migrates
        ? 'The host of this machine is about to undergo maintenance. The machine moves to another host and keeps running.'
        : 'The host of this machine is about to undergo maintenance, and the machine will be stopped. Take a checkpoint.'
    };
  }

  /** Start of the announced window; null if none is announced. */
  async #windowStart(): Promise<number | null> {
    try {
      const { status, text } = await this.#get('upcoming-maintenance?alt=json');
      if (status !== 200) return null;
      const window = JSON.parse(text) as { window_start_time?: unknown; windowStartTime?: unknown };
      const time = Date.parse(String(window.window_start_time ?? window.windowStartTime));
      return Number.isNaN(time) ? null : time;
    } catch {
      return null;
    }
  }

  #notify(): void {
    const { notice } = this;
    this.options.log.warn(
      { notice },
      notice === null ? 'the cloud has taken its notice back' : 'the cloud has given notice'
    );
    for (const listener of this.#listeners) listener(notice);
  }
}
