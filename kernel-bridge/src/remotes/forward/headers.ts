/** Which headers pass between a client and the gateway of a remote. Names, order and case of the others stay as they are. */

/** They speak of one connection (RFC 9110, 7.6.1), and there are two. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect'
]);

/** What is between the client and this gateway, and no business of the remote: our token above all. */
const OURS = new Set(['host', 'authorization', 'origin', 'cookie', 'referer', 'x-xsrftoken']);

/** What an answer says to the browser beyond itself: of cookies, of storage, of other answers. It holds for all of this machine. */
const FOR_BROWSERS = new Set([
  'set-cookie',
  'clear-site-data',
  'content-security-policy',
  'content-security-policy-report-only',
  'x-content-type-options',
  'refresh',
  'link',
  'alt-svc',
  'strict-transport-security',
  'service-worker-allowed',
  'nel',
  'report-to',
  'reporting-endpoints'
]);

/** An answer that is opened as a page is nobody's page, and is what it says that it is. */
export const GUEST_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'self'",
  'x-content-type-options': 'nosniff'
};

type RawHeaders = readonly string[];

/** For the remote: its own token in the place of ours. */
export function headersForRemote(raw: RawHeaders, token: string): string[] {
  const kept = filtered(raw, name => !OURS.has(name));
  return ['Host', 'localhost', 'Authorization', `token ${token}`, ...kept];
}

/** For the client: who may read an answer is said by this gateway alone, and a path begins with the remote's prefix. */
export function headersForClient(
  raw: RawHeaders,
  ours: Readonly<Record<string, string>>,
  prefix: string
): string[] {
  const headers: string[] = [];
  const kept = filtered(
    raw,
    (name, value) =>
      !name.startsWith('access-control-') &&
      !FOR_BROWSERS.has(name) &&
      !(name === 'vary' && value.toLowerCase() === 'origin')
  );
  eachHeader(kept, (name, value) => {
    const isOwnPath = name.toLowerCase() === 'location' && /^\/(?!\/)/.test(value);
    headers.push(name, isOwnPath ? prefix + value : value);
  });
  return [...headers, ...Object.entries(ours).flat()];
}

function filtered(raw: RawHeaders, keeps: (name: string, value: string) => boolean): string[] {
  const named = new Set(HOP_BY_HOP);
  eachHeader(raw, (name, value) => {
    if (name.toLowerCase() === 'connection') {
      for (const one of value.split(',')) named.add(one.trim().toLowerCase());
    }
  });
  const kept: string[] = [];
  eachHeader(raw, (name, value) => {
    const lower = name.toLowerCase();
    if (!named.has(lower) && keeps(lower, value)) kept.push(name, value);
  });
  return kept;
}

/** Names and values alternate. */
export function eachHeader(raw: RawHeaders, take: (name: string, value: string) => void): void {
  for (let index = 0; index < raw.length; index += 2) take(raw[index] ?? '', raw[index + 1] ?? '');
}

/** The target without our token. All else of it stays as it was written. */
export function withoutToken(target: string): string {
  const mark = target.indexOf('?');
  if (mark < 0) return target;
  const kept = target
    .slice(mark + 1)
    .split('&')
    .filter(pair => keyOf(pair) !== 'token');
  return kept.length === 0 ? target.slice(0, mark) : `${target.slice(0, mark)}?${kept.join('&')}`;
}

function keyOf(pair: string): string {
  const key = (pair.split('=', 1)[0] ?? '').replaceAll('+', ' ');
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}
