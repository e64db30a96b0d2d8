// @ts-check
/** The required version of Node. */
import { SetupProblem } from './setup-problem.mjs';

const OLDEST_NODE = Object.freeze({ major: 20, minor: 19 });

/** @param {string} version in the form of `process.versions.node` */
export function requireNode(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST_NODE.major || (major === OLDEST_NODE.major && minor >= OLDEST_NODE.minor)) return;
  throw new SetupProblem(
    'wrong-node',
    `This is Node ${version}, and TPULab needs ${OLDEST_NODE.major}.${OLDEST_NODE.minor} or newer (20, 22 or 24); install one from your system or from nodejs.org and start again.`
  );
}
