/** Version of the `/bridge/v1` API and of the telemetry messages. A breaking change raises it. */
export const PROTOCOL_VERSION = 1;
