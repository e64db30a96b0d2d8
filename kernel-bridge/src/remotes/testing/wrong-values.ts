/** For specs: possible answers of a hostile gateway for a schema of the protocol. */
import type { TSchema } from '@sinclair/typebox';
import fc from 'fast-check';

/** Texts that would control a terminal, run in a page, end a line, or act as a path. */
export const HOSTILE_TEXT = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.constantFrom(
    '',
    '\x1b[2J\x1b]0;owned\x07',
    '\x1b]52;c;cm0gLXJmIH4=\x07',
    '\x9b31m',
    'one\r\ntwo\nssh-keygen -f x -R y; rm -rf ~',
    '\u202etxt.exe',
    '<img src=x onerror=alert(1)>',
    '<script>alert(1)</script>',
    '../../../../etc/passwd',
    '/dev/null',
    '-oProxyCommand=touch owned',
    '$(touch owned)',
    '__proto__',
    'x'.repeat(100_000)
  )
);

const HOSTILE_NUMBER = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(-1, 0, 1, 2 ** 31, 2 ** 53, 1e308, -1e308, 0.1)
);

const ANYTHING: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(null, true, [], {}, [[]], { length: 1e9 }),
  HOSTILE_TEXT,
  HOSTILE_NUMBER
);

interface Described {
  readonly type?: string;
  readonly const?: unknown;
  readonly anyOf?: readonly TSchema[];
  readonly items?: TSchema;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
}

/** Mostly values of the right shape, so that code that checks only the shape accepts them; sometimes another value, or none. */
export function wrongValuesOf(schema: TSchema): fc.Arbitrary<unknown> {
  return fc.oneof({ arbitrary: shaped(schema), weight: 12 }, { arbitrary: ANYTHING, weight: 1 });
}

function shaped(schema: TSchema): fc.Arbitrary<unknown> {
  const { type, anyOf, items, properties, patternProperties, ...rest } = schema as Described;
  if ('const' in rest) return fc.constant(rest.const);
  if (anyOf) return fc.oneof(...anyOf.map(each => wrongValuesOf(each)));
  if (type === 'array' && items) return fc.array(wrongValuesOf(items), { maxLength: 5 });
  if (properties) {
    const fields = Object.fromEntries(
      Object.entries(properties).map(([key, each]) => [key, wrongValuesOf(each)])
    );
    return fc.oneof(
      { arbitrary: fc.record(fields), weight: 4 },
      { arbitrary: fc.record(fields, { requiredKeys: [] }), weight: 1 }
    );
  }
  const [values] = Object.values(patternProperties ?? {});
  if (values) return fc.dictionary(HOSTILE_TEXT, wrongValuesOf(values), { maxKeys: 3 });
  if (type === 'string') return HOSTILE_TEXT;
  if (type === 'number' || type === 'integer') return HOSTILE_NUMBER;
  if (type === 'boolean') return fc.boolean();
  return ANYTHING;
}

/**
 * Replaces ssh: as a master, it creates the file of its control socket and waits; for a forwarding, it connects one socket
 * to the other.
 */
export const SSH_WITH_WRONG_ANSWERS = `#!/bin/sh
forward= control=
for word do
  case $word in ControlPath=*) control=\${word#ControlPath=};; *.s:/*) forward=$word;; esac
done
case " $* " in
  *" -O forward "*) ln -sf "\${forward#*:}" "\${forward%%:*}"; exit 0;;
  *" -O "*) exit 0;;
esac
: > "$control"; trap 'rm -f "$control"; exit 0' TERM; while :; do sleep 1; done
`;

const PRINTABLE = fc.string({ unit: 'binary-ascii', maxLength: 20 });
const LINE_END = fc.oneof(
  { arbitrary: fc.constant('\r\n'), weight: 20 },
  { arbitrary: fc.constantFrom('\n', '\r', '\n\r', '', '\r\n ', '\r\n\t'), weight: 1 }
);
const STATUS_LINE = fc
  .tuple(
    fc.oneof(
      { arbitrary: fc.constant('HTTP/1.1'), weight: 12 },
      fc.constantFrom('HTTP/1.0', 'HTTP/9.9', 'ICY', '')
    ),
    fc.oneof(
      { arbitrary: fc.constantFrom(200, 201, 204, 206, 400, 404, 409, 500, 503), weight: 6 },
      { arbitrary: fc.integer({ min: 0, max: 1200 }), weight: 2 },
      { arbitrary: fc.constantFrom(101, 100, 103, 301, 302, 303, 304, 307, 308, 401, 403, 407), weight: 3 }
    ),
    fc.oneof(
      fc.constant('OK'),
      PRINTABLE,
      fc.constantFrom('\x01', '\x7f', '\xff', '\x1b[2J', 'x'.repeat(9_000))
    )
  )
  .map(([version, status, reason]) => `${version} ${String(status).padStart(3, '0')} ${reason}`);
const HEADER = fc
  .tuple(
    fc.oneof(
      {
        arbitrary: fc.constantFrom(
          ...[
            'Content-Type',
            'ETag',
            'Cache-Control',
            'Last-Modified',
            'Content-Disposition',
            'Content-Encoding'
          ],
          ...[
            'Location',
            'Set-Cookie',
            'Clear-Site-Data',
            'Refresh',
            'Link',
            'Access-Control-Allow-Origin',
            'Vary'
          ],
          ...[
            'Content-Security-Policy',
            'Strict-Transport-Security',
            'Connection',
            'Keep-Alive',
            'Upgrade',
            'Alt-Svc'
          ],
          ...[
            'Transfer-Encoding',
            'Content-Length',
            'Sec-WebSocket-Extensions',
            'Sec-WebSocket-Protocol',
            'Trailer'
          ]
        ),
        weight: 10
      },
      PRINTABLE
    ),
    fc.oneof(
      {
        arbitrary: fc.constantFrom(
          ...[
            'text/html',
            'application/json',
            '"1"',
            'no-store',
            'gzip',
            'chunked',
            '0',
            '5',
            '-1',
            '1e9',
            'close'
          ],
          ...[
            '/../../bridge/v1/trash',
            'http://127.0.0.1:9/',
            '*',
            'evil=1; Path=/',
            'websocket',
            '99999999999999999999'
          ]
        ),
        weight: 8
      },
      PRINTABLE,
      fc.constantFrom(
        'a\x00b',
        'a\x01b',
        'a\x7fb',
        '\xff\xfe',
        'x'.repeat(20_000),
        'a\nSet-Cookie: b=c',
        'a\r\n b'
      )
    )
  )
  .map(([name, value]) => `${name}: ${value}`);

/** Bytes of an answer, mostly similar to HTTP. `ACCEPT` is replaced by the correct proof of a handshake. */
export const HOSTILE_ANSWER: fc.Arbitrary<string> = fc
  .tuple(
    fc.oneof({ arbitrary: STATUS_LINE, weight: 12 }, PRINTABLE),
    fc.array(HEADER, { maxLength: 6 }),
    fc.array(LINE_END, { minLength: 8, maxLength: 8 }),
    fc.oneof(
      { arbitrary: fc.constant('Content-Length: 2\r\n\r\n{}'), weight: 4 },
      fc.constant('Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n'),
      fc.constant('Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}'),
      fc.constant('Content-Length: 900000000\r\n\r\n{}'),
      fc.constant(
        'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n\x81\x02hi\x88\x02\x03\xe8'
      ),
      fc.constant(
        'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n\xff\x7f\xff\xff\xff\xff\xff\xff\xff\xff'
      ),
      PRINTABLE
    )
  )
  .map(
    ([status, headers, ends, body]) =>
      [status, ...headers].map((line, at) => line + (ends[at] ?? '')).join('') + body
  );
