/** For specs: what a gateway of a hostile machine may answer where the protocol has this schema. */
import type { TSchema } from '@sinclair/typebox';
import fc from 'fast-check';

/** Texts that would steer a terminal, run in a page, end a line, or be a path. */
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

/** Mostly of the right shape, so that what looks only at the shape takes it; here and there something else, or nothing. */
export function liesOf(schema: TSchema): fc.Arbitrary<unknown> {
  return fc.oneof({ arbitrary: shaped(schema), weight: 12 }, { arbitrary: ANYTHING, weight: 1 });
}

function shaped(schema: TSchema): fc.Arbitrary<unknown> {
  const { type, anyOf, items, properties, patternProperties, ...rest } = schema as Described;
  if ('const' in rest) return fc.constant(rest.const);
  if (anyOf) return fc.oneof(...anyOf.map(each => liesOf(each)));
  if (type === 'array' && items) return fc.array(liesOf(items), { maxLength: 5 });
  if (properties) {
    const fields = Object.fromEntries(Object.entries(properties).map(([key, each]) => [key, liesOf(each)]));
    return fc.oneof(
      { arbitrary: fc.record(fields), weight: 4 },
      { arbitrary: fc.record(fields, { requiredKeys: [] }), weight: 1 }
    );
  }
  const [values] = Object.values(patternProperties ?? {});
  if (values) return fc.dictionary(HOSTILE_TEXT, liesOf(values), { maxKeys: 3 });
  if (type === 'string') return HOSTILE_TEXT;
  if (type === 'number' || type === 'integer') return HOSTILE_NUMBER;
  if (type === 'boolean') return fc.boolean();
  return ANYTHING;
}
