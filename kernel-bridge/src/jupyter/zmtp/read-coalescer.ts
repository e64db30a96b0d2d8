/**
 * Tells when a socket is better read a moment later. A peer that sends one message after another wakes its reader for each, and
 * being woken is most of what a small message costs, there and in every process further on. Once many have come in a row, reading
 * pauses, and what has gathered meanwhile is taken in one go. A message that comes alone, or among a few, never waits; and a peer
 * that sends much does not wait for us, because the pause ends before the socket's buffer is full.
 */

/** So many in a row are a flood. */
const STREAK = 16;
/** With fewer in a pause, the pause was not worth it. */
const WORTHWHILE = 3;
/** A local socket of Linux is full with 48 KiB in pieces of 8 KiB, which is how libzmq writes. */
const FILLED_BYTES = 36 * 1024;
/** A read that brings as much may have left something behind: a peer that found the socket full is writing again. */
const MORE_BYTES = 24 * 1024;

export class ReadCoalescer {
  #streak = 0;
  #isPausing = false;
  #isCalm = false;
  #last = -Infinity;
  /** When the last pause began, and how many bytes have come since then. */
  #since = 0;
  #bytes = 0;

  constructor(private readonly longestMs: number) {}

  /** What has come is no part of a flood: the next message must not wait. */
  flushNow(): void {
    this.#isCalm = true;
  }

  /** After each read, with the messages that it has completed: milliseconds to wait until the next, 0 for none. */
  after(messages: number, bytes: number, now: number): number {
    const goesOn = this.#isPausing
      ? messages >= WORTHWHILE
      : messages > 0 && now - this.#last < this.longestMs;
    const isFlood = goesOn && !this.#isCalm;
    this.#isCalm = false;
    this.#isPausing = false;
    this.#last = now;
    if (!isFlood) {
      this.#streak = 0;
      this.#since = now;
      this.#bytes = 0;
      return 0;
    }
    this.#streak++;
    this.#bytes += bytes;
    if (this.#streak < STREAK || bytes > MORE_BYTES) return 0;
    const untilFilledMs = (FILLED_BYTES * (now - this.#since)) / this.#bytes;
    const pauseMs = Math.min(Math.floor(untilFilledMs), this.longestMs);
    this.#isPausing = pauseMs > 0;
    this.#since = now;
    this.#bytes = 0;
    return pauseMs;
  }
}
