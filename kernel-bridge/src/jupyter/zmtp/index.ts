export { ZmtpError, type ZmtpErrorCode } from './zmtp-error.js';
export { ZmtpSocket, type ZmtpSocketOptions } from './zmtp-socket.js';
