export * from '../processes/process-identity.js';
