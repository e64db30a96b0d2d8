// @ts-check
/** Chooses the port of JupyterLab. */
import { createServer } from 'node:net';
import { errnoOf, SetupProblem } from '../setup/setup-problem.mjs';

const FIRST = 8888;
const TRIED = 100;

/**
 * @param {number | null} wanted
 * @returns {Promise<number>}
 */
export async function choosePort(wanted) {
  if (wanted !== null) {
    const refused = await refusal(wanted);
    if (refused === null) return wanted;
    if (refused === 'EACCES') {
      throw new SetupProblem(
        'port-refused',
        `Port ${wanted} needs more rights than you have; choose one above 1023.`
      );
    }
    throw new SetupProblem(
      'port-taken',
      `Port ${wanted} is taken by another program; choose another with --port, or leave --port out.`
    );
  }
  for (let port = FIRST; port < FIRST + TRIED; port++) if ((await refusal(port)) === null) return port;
  throw new SetupProblem(
    'port-taken',
    `No port from ${FIRST} to ${FIRST + TRIED - 1} is free; name one with --port.`
  );
}

/**
 * @param {number} port
 * @returns {Promise<string | null>} null: the port is free
 */
function refusal(port) {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', error => {
      const errno = errnoOf(error);
      if (errno === 'EADDRINUSE' || errno === 'EACCES') resolve(errno);
      else reject(error);
    });
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(null)));
  });
}
