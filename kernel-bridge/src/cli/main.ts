/** Entry of `bin/tpulab.js`. */
import { run } from './program.js';

const code = await run(process.argv.slice(2), process);
// Not `process.exit`: unwritten data in a pipe would be lost.
process.exitCode = code;
