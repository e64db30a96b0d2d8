import { describe, expect, it } from 'vitest';
import { duplicateKey } from './definition.js';

describe('a name that an object contains twice', () => {
  it.each([
    ['{"a": 1, "b": 2, "a": 3}', '/a'],
    ['{"a": {"b": 1, "c": {"b": 2}, "b": 3}}', '/a/b'],
    ['[{"a": 1}, {"x": [{"a": 1, "a": 2}]}]', '/x/a'],
    [String.raw`{"a": 1, "\u0061" : 2}`, '/a']
  ])('%s is found by its path', (text, path) => {
    expect(duplicateKey(text)).toBe(path);
  });

  it.each([
    '{}',
    '[1, "a", "a"]',
    '{"a": {"a": {"a": 1}}}',
    '[{"a": 1}, {"a": 2}]',
    '{"a": "a", "b": "a"}',
    String.raw`{"a": "\": {\"b\": 1, \"b\"", "b": "}"}`
  ])('%s has none', text => {
    expect(duplicateKey(text)).toBeNull();
  });
});
