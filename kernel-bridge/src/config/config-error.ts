/** Why the settings of a gateway cannot be used. Shown by the command line. */
export type ConfigErrorCode = 'config_unreadable' | 'config_unknown_setting' | 'config_invalid';

export class ConfigError extends Error {
  override readonly name = 'ConfigError';

  constructor(
    readonly code: ConfigErrorCode,
    message: string,
    options?: ErrorOptions
  ) {
    super(message, options);
  }
}
