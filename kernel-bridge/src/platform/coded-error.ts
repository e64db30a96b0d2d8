/** An error of ours: its code is stable, and what programs look at; its message is a sentence for people, with what to do. */
export class CodedError<Code extends string> extends Error {
  /** `cause` holds the system's error, if there is one. */
  constructor(
    readonly code: Code,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
  }
}
