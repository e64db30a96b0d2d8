/** For specs: sends bytes that no HTTP client would send to a gateway, and returns the bytes that come back until the end. */
import { connect } from 'node:net';

const DEADLINE_MS = 60_000;

interface RawAnswer {
  /** 0 when the connection ended without an answer. */
  readonly status: number;
  readonly text: string;
}

/** Fails unless the gateway ends the connection: a malformed request must not keep one open. */
export function rawRequest(
  url: string,
  bytes: string | Buffer,
  options: { half?: boolean } = {}
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error('the gateway did not end the connection'));
    }, DEADLINE_MS);
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => (text += chunk));
    // A reset is also an end: the peer has closed while bytes were in flight.
    socket.on('error', () => socket.destroy());
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      clearTimeout(timer);
      resolve({ status: Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0), text });
    });
    socket.write(bytes);
    if (options.half === true) socket.end();
  });
}
