#!/usr/bin/env node
/**
 * Runs between a creation and the real uv and never lets a package installation end, so that a test can interrupt
 * one in the middle. `TEST_REAL_UV` is the path of the real uv; this program writes its pid to `TEST_PID_FILE` at that point.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const args = process.argv.slice(2);
if (args[0] === 'pip') {
  process.stderr.write('Resolved 62 packages in 5ms\n');
  writeFileSync(process.env.TEST_PID_FILE, String(process.pid));
  setInterval(() => undefined, 60_000);
} else {
  process.exitCode = spawnSync(process.env.TEST_REAL_UV, args, { stdio: 'inherit' }).status ?? 1;
}
