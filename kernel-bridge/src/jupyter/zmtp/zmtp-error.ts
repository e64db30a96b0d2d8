/** What can go wrong between us and the other end of a ZMTP connection. */
export type ZmtpErrorCode = 'zmtp_endpoint_invalid' | 'zmtp_peer_unsupported' | 'zmtp_frame_malformed';

export class ZmtpError extends Error {
  override readonly name = 'ZmtpError';

  constructor(
    readonly code: ZmtpErrorCode,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
  }
}
