import { describe, expect, it } from 'vitest';
import {
  either,
  integer,
  isShaped,
  list,
  object,
  oneOf,
  orNull,
  pair,
  record,
  text,
  truth
} from './shape.js';

const Person = object(
  { name: text({ min: 1 }), age: orNull(integer({ min: 0 })), tags: list(text(), { min: 1 }) },
  { kind: oneOf('a', 'b'), names: record(text()), at: pair(integer(), text()) }
);
const good = { name: 'x', age: null, tags: ['t'] };

describe('the shape of a value', () => {
  it.each([[good], [{ ...good, age: 3, kind: 'b', names: { x: '' }, at: [1, ''], other: 1 }]])(
    'fits %j',
    value => expect(Person.fault(value)).toBeNull()
  );

  it.each([
    [null, '"" is not an object'],
    [[], '"" is not an object'],
    [{ ...good, name: '' }, '"/name" is not a text that is not empty'],
    [{ name: 'x', tags: ['t'] }, '"/age" is missing'],
    [{ ...good, age: 1.5 }, '"/age" is not a whole number'],
    [{ ...good, age: -1 }, '"/age" is not a whole number'],
    [{ ...good, tags: [] }, '"/tags" has less than 1 items'],
    [{ ...good, tags: ['t', 5] }, '"/tags/1" is not a text'],
    [{ ...good, kind: 'c' }, '"/kind" is not one of a, b'],
    [{ ...good, names: { x: 1 } }, '"/names/x" is not a text'],
    [{ ...good, at: [1] }, '"/at" is not a pair'],
    [{ ...good, at: [1, 2] }, '"/at/1" is not a text']
  ])('says what is wrong with %j', (value, fault) => expect(Person.fault(value)).toBe(fault));

  it('may be one of several, and may allow no other names', () => {
    const shape = either(object({ a: truth }, {}, { exact: true }), object({ b: text() }));
    expect(isShaped(shape, { a: true })).toBe(true);
    expect(isShaped(shape, { b: '', c: 1 })).toBe(true);
    expect(shape.fault({ a: true, c: 1 })).toBe('"/b" is missing');
    // Names that every object inherits do not count as its values.
    expect(object({ toString: text() }).fault({})).toBe('"/toString" is missing');
    expect(object({}, {}, { exact: true }).fault({ constructor: 1 })).toBe('"/constructor" is not known');
  });
});
