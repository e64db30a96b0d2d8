/** For specs: random outputs of a cell. */
import fc from 'fast-check';

export interface Message {
  readonly msgType: string;
  readonly content: Record<string, unknown>;
}

/** Few characters, so that carriage returns and backspaces often overwrite something. */
const text = fc
  .array(fc.constantFrom('a', 'bc', '\n', '\r', '\b', 'é', '🙂', ' ', '\r\n', '50%'), {
    minLength: 1,
    maxLength: 8
  })
  .map(parts => parts.join(''));
const displayId = fc.constantFrom('one', 'two');
const data = fc.record({ 'text/plain': fc.string({ maxLength: 6 }) });

export function output(
  msgType: string,
  content: fc.Arbitrary<Record<string, unknown>>
): fc.Arbitrary<Message> {
  return content.map(each => ({ msgType, content: each }));
}

const display = fc.record({ data, metadata: fc.constantFrom({}, { a: 1 }), transient: fc.constant({}) });
const namedDisplay = fc.record({
  data,
  metadata: fc.constant({}),
  transient: fc.record({ display_id: displayId })
});

export const OUTPUTS: fc.Arbitrary<Message>[] = [
  output('stream', fc.record({ name: fc.constantFrom('stdout', 'stderr'), text })),
  output('stream', fc.record({ name: fc.constant('stdout'), text })),
  output('display_data', display),
  output('display_data', namedDisplay),
  output('update_display_data', namedDisplay),
  output('clear_output', fc.record({ wait: fc.boolean() })),
  output('execute_result', fc.record({ data, metadata: fc.constant({}), execution_count: fc.constant(3) })),
  output(
    'error',
    fc.record({
      ename: fc.constant('E'),
      evalue: fc.string({ maxLength: 5 }),
      traceback: fc.constant(['a', 'b'])
    })
  )
];

export const sequence: fc.Arbitrary<Message[]> = fc.array(fc.oneof(...OUTPUTS), { maxLength: 25 });
