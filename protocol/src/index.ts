export * from './events.js';
export * from './rest.js';
export * from './telemetry.js';
export * from './version.js';
