// @vitest-environment jsdom
import { expect, it } from 'vitest';
import { savedModels, savedText, STATE, referencedModels } from './widget-state.js';

const model = (model_name: string, state: object): object => ({
  model_name,
  model_module: '@jupyter-widgets/controls',
  model_module_version: '2.0.0',
  state
});

it('describes the last state of saved widgets, without their code or their markup', () => {
  // A tqdm bar for a user who does not trust the notebook yet.
  const widgets = {
    [STATE]: {
      state: {
        bar: model('HBoxModel', { children: ['IPY_MODEL_before', 'IPY_MODEL_line', 'IPY_MODEL_after'] }),
        before: model('HTMLModel', { value: '<b onclick=alert(1)>outer</b>: 100%' }),
        line: model('FloatProgressModel', { value: 3, max: 3 }),
        after: model('HTMLModel', { value: ' 3/3 [00:00&lt;00:00]' }),
        slider: model('IntSliderModel', { description: 'seven', value: 7 }),
        loop: model('HBoxModel', { children: ['IPY_MODEL_loop'] })
      }
    }
  };
  expect(savedText(widgets, 'bar')).toBe('outer: 100% 3/3 [00:00<00:00]');
  expect(savedText(widgets, 'slider')).toBe('seven 7');
  expect(savedText(widgets, 'loop')).toBe('');
  expect(savedText(undefined, 'bar')).toBe('');
});

it.each([
  ['no object', 'x'],
  ['no state', { [STATE]: null }],
  ['a state that is text', { [STATE]: { state: 'text' } }],
  ['models that are none', { [STATE]: { state: { a: null, b: 5, c: { state: null }, d: ['x'] } } }],
  [
    'names of objects',
    { [STATE]: JSON.parse('{"state":{"__proto__":null,"constructor":{"state":5}}}') as object }
  ]
])('finds no widgets in metadata with %s', (_, widgets) => {
  expect(savedModels(widgets)).toEqual({});
  expect(savedText(widgets, 'a')).toBe('');
  const links = savedModels(widgets);
  expect([...referencedModels(['a'], id => links[id]?.state, links)]).toEqual([]);
});
