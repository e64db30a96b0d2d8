/** An error of ours: its code is stable, and meant for programs; its message is a sentence for users, with a remedy. */
export class CodedError<Code extends string> extends Error {
  /** `cause` is the system's error, if there is one. */
  constructor(
    readonly code: Code,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
  }
}

/** The other end refuses the handshake, with this status. */
export class HandshakeRefused extends Error {
  override readonly name = 'HandshakeRefused';
  constructor(readonly status: number) {
    super(`it answers ${status}`);
  }
}
