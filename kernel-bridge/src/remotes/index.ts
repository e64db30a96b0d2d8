export { Forwarder } from './forward/forwarder.js';
export { RequestedExecutions } from './forward/requested-executions.js';
