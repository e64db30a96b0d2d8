/**
 * The program that ssh runs to ask for something. It passes the question to the gateway over a unix socket and writes the
 * answer, which is on no command line and in no file. Written out as text, so that it is there in every kind of package.
 */
export const ASKPASS_SCRIPT = `'use strict';
const { connect } = require('node:net');
const socket = connect(process.env.TPULAB_ASKPASS_SOCKET);
let answer = '';
socket.setEncoding('utf8');
socket.on('connect', () => {
  const question = {
    key: process.env.TPULAB_ASKPASS_KEY,
    text: process.argv.slice(2).join(' '),
    hint: process.env.SSH_ASKPASS_PROMPT || ''
  };
  socket.write(JSON.stringify(question) + '\\n');
});
socket.on('data', text => { answer += text; });
socket.on('error', () => process.exit(1));
socket.on('close', () => {
  let value = null;
  try { value = JSON.parse(answer).value; } catch {}
  if (typeof value !== 'string') process.exit(1);
  process.stdout.write(value + '\\n', () => process.exit(0));
});
`;

/** What ssh starts; it takes the path of one program without arguments. */
export function askpassStarter(node: string, script: string): string {
  return `#!/bin/sh\nexec ${quoted(node)} ${quoted(script)} "$@"\n`;
}

function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}
