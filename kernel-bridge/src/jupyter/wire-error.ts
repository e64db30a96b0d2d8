/** Every way in which bytes from a kernel or a client can fail to be a Jupyter message. */
export type WireErrorCode =
  | 'frame_malformed'
  | 'frame_too_large'
  | 'channel_unknown'
  | 'header_invalid'
  | 'signature_invalid'
  | 'scheme_unsupported';

/** Bytes that are not a Jupyter message. The message never contains the bytes themselves. */
export class WireError extends Error {
  override readonly name = 'WireError';

  constructor(
    readonly code: WireErrorCode,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
  }
}
