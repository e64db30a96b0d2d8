/** Counts crashes in a row, to tell a kernel that crashed from one that cannot run. */
import { STABLE_MS } from '../keeper-protocol/contract.js';

export class CrashCount {
  #count = 0;

  /** `limit`: automatic restarts in a row. */
  constructor(private readonly limit: number) {}

  /** After a crash of a process that had been ready for so long. */
  mayRestart(readyForMs: number): boolean {
    this.#count = readyForMs >= STABLE_MS ? 1 : this.#count + 1;
    return this.#count <= this.limit;
  }

  /** Somebody asked for a restart, and so for another try. */
  forget(): void {
    this.#count = 0;
  }
}
