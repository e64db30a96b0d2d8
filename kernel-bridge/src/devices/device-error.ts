/** Why the description of chips that a user gave cannot be used. */
export type DeviceErrorCode = 'chip_table_unusable';

export class DeviceError extends Error {
  override readonly name = 'DeviceError';

  constructor(
    readonly code: DeviceErrorCode,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
  }
}
