export * from './kernel-message.js';
export * from './legacy-frame.js';
export * from './v1-frame.js';
export * from './zmq-signing.js';
