/** Limits that a client may check before a request. */

/** Size of one file that `/bridge/v1/files` reads or writes. */
export const MAX_FILE_BYTES = 64 * 2 ** 20;
