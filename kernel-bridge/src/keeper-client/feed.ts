/**
 * Turns a keeper's pushes into records without holes. While the gateway keeps up, that only means decoding. When it is too
 * slow, the keeper stops pushing and reports that; the feed then reads the segment files until it has caught up, and
 * subscribes again. Between the reply to that and the last record from the files, the socket is paused, so that at most one
 * chunk of pushed records waits in memory. The socket is also paused while the payload of a large record is read, of which
 * the keeper sends only the location.
 */
import type { JournalReader } from '../journal/journal-reader.js';
import { decodeRecord, probeRecord } from '../journal/record-codec.js';
import { gapOf, type JournalRecord } from '../journal/record.js';
import { KeeperError } from '../keeper-protocol/keeper-error.js';
import type { LargeRecordRef } from '../keeper-protocol/messages.js';
import { recordOf } from '../keeper-protocol/stored-record.js';

interface FeedSource {
  readonly journal: JournalReader;
  /**
   * The payload of a large record; the promise resolves with null if it is lost. Null instead of a promise: it is not
   * needed.
   */
  payload(note: LargeRecordRef): Promise<Buffer | null> | null;
  subscribe(): Promise<{ liveFrom: number }>;
  /** Stops and starts reading the socket. */
  pause(): void;
  resume(): void;
}

/**
 * Messages from the keeper, in order: records, a large record that has been written, or the first record that it no longer
 * pushes.
 */
type Pushed =
  | { readonly records: Buffer }
  | { readonly stored: LargeRecordRef }
  | { readonly laggingFrom: number };

export class LiveFeed {
  /** The next record to be delivered; 0 before the first subscription. */
  #next = 0;
  #catchingUp: Promise<void> | null = null;
  /** Pushed records that wait for older ones from the files; null while nothing waits. */
  #waiting: Pushed[] | null = null;
  /** Records that wait for a payload that is being read; null while none is. */
  #waitingForPayload: Pushed[] | null = null;
  #hasLaggedAgain = false;

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

  take(pushed: Pushed): void {
    if (this.#waitingForPayload !== null) {
      this.#waitingForPayload.push(pushed);
    } else if ('laggingFrom' in pushed) {
      this.#lagging(pushed.laggingFrom);
    } else if (this.#waiting !== null) {
      this.#waiting.push(pushed);
      this.source.pause();
    } else if ('records' in pushed) {
      this.#deliver(pushed.records);
    } else {
      this.#deliverStored(pushed.stored);
    }
  }

  #lagging(fromSeq: number): void {
    if (this.#catchingUp !== null) {
      this.#hasLaggedAgain = true;
      return;
    }
    this.#next = Math.max(this.#next, fromSeq);
    this.#catchingUp = this.#catchUp()
      .catch((error: unknown) => {
        if (!this.signal.aborted) this.onFailure(error instanceof Error ? error : new Error(String(error)));
      })
      .finally(() => {
        this.#catchingUp = null;
      });
  }

  async #catchUp(): Promise<void> {
    for (let more = true; more; more = this.#resumeLagged()) {
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
          waiting.forEach(pushed => this.take(pushed));
          this.#resume();
        }
      }
    }
  }

  #resumeLagged(): boolean {
    const again = this.#hasLaggedAgain;
    this.#hasLaggedAgain = false;
    return again;
  }

  async #readFiles(to: number): Promise<void> {
    // Without an end, it is unknown whether records are missing after damage; that is reported once the keeper has sent its
    // newest number.
    const newest = (): number => (Number.isFinite(to) ? to : 0);
    const options = { to, newest, signal: this.signal };
    for await (const batch of this.source.journal.readAcross(this.#next, options)) {
      for (const record of batch) {
        this.#next = (gapOf(record)?.toSeq ?? record.seq) + 1;
        this.onRecord(record);
      }
    }
  }

  #deliverStored(note: LargeRecordRef): void {
    if (note.seq < this.#next) {
      return; // The record was already read from the files.
    }
    const reading = this.source.payload(note);
    if (reading === null) {
      this.#next = note.seq + 1;
      this.onRecord(recordOf(note, null));
      return;
    }
    this.#waitingForPayload = [];
    this.source.pause();
    void reading.then(payload => {
      const behind = this.#waitingForPayload ?? [];
      this.#waitingForPayload = null;
      if (this.signal.aborted) return;
      try {
        this.#next = note.seq + 1;
        this.onRecord(recordOf(note, payload));
        behind.forEach(pushed => this.take(pushed));
        this.#resume();
      } catch (error) {
        this.onFailure(error as Error);
      }
    });
  }

  /** Resumes reading, unless records are still awaited. */
  #resume(): void {
    if (this.#waitingForPayload === null && (this.#waiting === null || this.#waiting.length === 0))
      this.source.resume();
  }

  #deliver(body: Buffer): void {
    for (let at = 0; at < body.length;) {
      const probe = probeRecord(body, at);
      if (probe.kind !== 'whole') {
        throw new KeeperError('keeper_protocol', 'A frame of journal records ends inside a record.');
      }
      const record = decodeRecord(body, at, probe.end);
      at = probe.end;
      // A record that was pushed while the feed was catching up has already been read from the files.
      if (record.seq >= this.#next) {
        this.#next = record.seq + 1;
        this.onRecord(record);
      }
    }
  }
}
