// @ts-check
/** Frames between the two processes of the bare relay: `u32 little-endian length | body`. */

/** @param {import('node:net').Socket} socket @param {Buffer} body */
export function putFrame(socket, body) {
  const head = Buffer.allocUnsafe(4);
  head.writeUInt32LE(body.length);
  socket.cork();
  socket.write(head);
  socket.write(body);
  socket.uncork();
}

/** A listener for `data`. @param {(frame: Buffer) => void} onFrame */
export function cutFrames(onFrame) {
  let rest = Buffer.alloc(0);
  return (/** @type {Buffer} */ chunk) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32LE(0)) {
      const end = 4 + bytes.readUInt32LE(0);
      onFrame(bytes.subarray(4, end));
      bytes = bytes.subarray(end);
    }
    rest = Buffer.from(bytes);
  };
}
