export * from './channels.js';
export * from './devices.js';
export * from './events.js';
export * from './journal.js';
export * from './outputs.js';
export * from './rest.js';
export * from './telemetry.js';
export * from './version.js';
