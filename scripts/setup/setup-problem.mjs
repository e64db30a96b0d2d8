// @ts-check
/** A failure of the setup that a person can fix: one sentence, with the remedy in it. */

export class SetupProblem extends Error {
  /**
   * @param {string} code stable, for tests and programs
   * @param {string} message the failure and its remedy
   * @param {{ details?: readonly string[], cause?: unknown }} [more] details: last lines of a program's output
   */
  constructor(code, message, { details = [], cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'SetupProblem';
    this.code = code;
    this.details = details;
  }
}

/** Thrown when a signal ended the work. */
export class Interrupted extends Error {
  constructor() {
    super('Interrupted.');
    this.name = 'Interrupted';
  }
}

/**
 * The `code` of a Node error, for example ENOSPC.
 *
 * @param {unknown} error
 * @returns {string | undefined}
 */
export function errnoOf(error) {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
