export { ZmtpError, type ZmtpErrorCode } from './frame-codec.js';
export { ZmtpSocket, type ZmtpSocketOptions } from './zmtp-socket.js';
