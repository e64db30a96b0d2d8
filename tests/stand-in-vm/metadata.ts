/** A stand-in for the metadata server of Google's cloud, on its address in the VM's own network. */

/** Path below `/computeMetadata/v1/` to its text; a missing path is 404. */
export type Metadata = Readonly<Record<string, string>>;

/** Serves a file that may change; `wait_for_change` and `timeout_sec` work like the real one's. */
export const METADATA_PROGRAM = `'use strict';
const { createServer } = require('node:http');
const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const file = process.argv[2];
const read = key => {
  try { return JSON.parse(readFileSync(file, 'utf8'))[key]; } catch { return undefined; }
};
createServer((request, response) => {
  const url = new URL(request.url, 'http://metadata.google.internal');
  if (request.headers['metadata-flavor'] !== 'Google') return response.writeHead(403).end();
  if (!url.pathname.startsWith('/computeMetadata/v1/')) return response.writeHead(404).end();
  const key = url.pathname.slice('/computeMetadata/v1/'.length);
  const first = read(key);
  const etag = value => createHash('md5').update(String(value)).digest('hex').slice(0, 16);
  const answer = value => {
    if (value === undefined) return response.writeHead(404).end();
    response.writeHead(200, { 'metadata-flavor': 'Google', etag: etag(value), 'content-type': 'application/text' });
    response.end(value);
  };
  const known = url.searchParams.get('last_etag');
  const isNews = known !== null && known !== '0' && known !== etag(first);
  if (url.searchParams.get('wait_for_change') !== 'true' || isNews) return answer(first);
  const until = Date.now() + 1000 * Number(url.searchParams.get('timeout_sec') ?? 3600);
  const timer = setInterval(() => {
    const now = read(key);
    if (now === first && Date.now() < until) return;
    clearInterval(timer);
    answer(now);
  }, 50);
  response.on('close', () => clearInterval(timer));
}).listen(80, '169.254.169.254');
`;
