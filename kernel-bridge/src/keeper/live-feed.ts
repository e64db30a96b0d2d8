/**
 * Turns what a keeper pushes into records without holes. While the gateway keeps up, that is decoding. When it has been
 * too slow, the keeper stops pushing and says so; the feed then reads the segment files until it has caught up, and
 * subscribes again. Between the answer to that and the last record from the files, the socket is paused, so that no more
 * than one chunk of pushed records waits in memory.
 */
import type { JournalReader } from '../journal/journal-reader.js';
import { decodeRecord, probeRecord } from '../journal/record-codec.js';
import { gapOf, type JournalRecord } from '../journal/record.js';
import { KeeperError } from './keeper-error.js';

export interface FeedSource {
  readonly journal: JournalReader;
  subscribe(): Promise<{ liveFrom: number }>;
  /** Stops and starts reading the socket. */
  pause(): void;
  resume(): void;
}

export class LiveFeed {
  /** The next record to be handed out; 0 before the first subscription. */
  #next = 0;
  #catchingUp: Promise<void> | null = null;
  /** Pushed records that must wait for older ones from the files; null while nothing has to wait. */
  #waiting: Buffer[] | null = null;
  #laggedAgain = false;

  constructor(
    private readonly source: FeedSource,
    private readonly onRecord: (record: JournalRecord) => void,
    private readonly onFailure: (error: Error) => void,
    private readonly signal: AbortSignal
  ) {}

  async subscribe(): Promise<{ liveFrom: number }> {
    const { liveFrom } = await this.source.subscribe();
    this.#next = Math.max(this.#next, liveFrom);
    return { liveFrom };
  }

  /** A `records` frame has arrived. */
  pushed(body: Buffer): void {
    if (this.#waiting === null) {
      this.#handOut(body);
    } else {
      this.#waiting.push(body);
      this.source.pause();
    }
  }

  /** The keeper no longer pushes, from this record on. */
  lagging(fromSeq: number): void {
    if (this.#catchingUp !== null) {
      this.#laggedAgain = true;
      return;
    }
    this.#next = Math.max(this.#next, fromSeq);
    this.#catchingUp = this.#catchUp()
      .catch((error: unknown) => {
        if (!this.signal.aborted) {
          this.onFailure(error instanceof Error ? error : new Error(String(error)));
        }
      })
      .finally(() => {
        this.#catchingUp = null;
      });
  }

  async #catchUp(): Promise<void> {
    for (let more = true; more; more = this.#takeLaggedAgain()) {
      await this.#readFiles(Infinity);
      this.#waiting = [];
      try {
        const { liveFrom } = await this.source.subscribe();
        await this.#readFiles(liveFrom - 1);
        if (this.#next < liveFrom) {
          throw new KeeperError(
            'keeper_protocol',
            `The journal's files end before record ${this.#next}, although the keeper has written ${liveFrom - 1}.`
          );
        }
      } finally {
        const waiting = this.#waiting;
        this.#waiting = null;
        if (!this.signal.aborted) {
          waiting.forEach(body => this.#handOut(body));
          this.source.resume();
        }
      }
    }
  }

  #takeLaggedAgain(): boolean {
    const again = this.#laggedAgain;
    this.#laggedAgain = false;
    return again;
  }

  async #readFiles(to: number): Promise<void> {
    // Without an end, nothing is known to be missing after damage: that is said once the keeper has told its number.
    const newest = (): number => (Number.isFinite(to) ? to : 0);
    const options = { to, newest, signal: this.signal };
    for await (const batch of this.source.journal.readAcross(this.#next, options)) {
      for (const record of batch) {
        this.#next = (gapOf(record)?.toSeq ?? record.seq) + 1;
        this.onRecord(record);
      }
    }
  }

  #handOut(body: Buffer): void {
    for (let at = 0; at < body.length;) {
      const probe = probeRecord(body, at);
      if (probe.kind !== 'whole') {
        throw new KeeperError('keeper_protocol', 'A frame of journal records ends inside a record.');
      }
      const record = decodeRecord(body, at, probe.end);
      at = probe.end;
      // Already read from the files, when it was pushed while the feed was catching up.
      if (record.seq >= this.#next) {
        this.#next = record.seq + 1;
        this.onRecord(record);
      }
    }
  }
}
