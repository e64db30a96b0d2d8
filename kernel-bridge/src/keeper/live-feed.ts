/**
 * Turns what a keeper pushes into records without holes. While the gateway keeps up, that is decoding. When it has been
 * too slow, the keeper stops pushing and says so; the feed then reads the segment files until it has caught up, and
 * subscribes again. Between the answer to that and the last record from the files, the socket is paused, so that no more
 * than one chunk of pushed records waits in memory.
 */
import { JournalDamagedError } from '../journal/journal-error.js';
import type { JournalReader } from '../journal/journal-reader.js';
import { decodeRecord, probeRecord } from '../journal/record-codec.js';
import { type GapRecord, type JournalRecord, RecordChannel } from '../journal/record.js';
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
    while (this.#next <= to) {
      try {
        for await (const batch of this.source.journal.readBatches(this.#next, { to, signal: this.signal })) {
          for (const record of batch) {
            this.#next = record.seq + 1;
            this.onRecord(record);
          }
        }
        return;
      } catch (error) {
        if (!(error instanceof JournalDamagedError)) {
          throw error;
        }
        const resume = error.resumeSeq ?? (Number.isFinite(to) ? to + 1 : null);
        if (resume === null) {
          return; // where it goes on is known once the keeper has told where it pushes from
        }
        this.onRecord(gapBefore(this.#next, resume, error));
        this.#next = resume;
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

/** Stands, under the number of the first unreadable record, for all of them. */
function gapBefore(seq: number, resumeSeq: number, error: JournalDamagedError): JournalRecord {
  const now = Date.now();
  const gap: GapRecord = {
    type: 'gap',
    count: resumeSeq - seq,
    code: error.code,
    reason: error.message,
    from: now,
    to: now
  };
  return {
    seq,
    timeNs: BigInt(now) * 1_000_000n,
    channel: RecordChannel.bridge,
    payload: Buffer.from(JSON.stringify(gap))
  };
}
