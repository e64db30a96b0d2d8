/** The input of a hyperparameter in plain elements: slider and number, switch, choice or text. */
import type { Hyperparameter, HyperValue } from '@tpulab/protocol';
import { parseNumber, PLACES, placeOf, sliderBounds, valueAt } from '../runs/hyper-scale.js';
import { valueText } from '../text/value.js';
import { make, setText } from './dom.js';

export interface HyperInput {
  readonly element: HTMLElement;
  update(
    parameter: Hyperparameter,
    pending: HyperValue | null,
    failure: string | null,
    disabled: boolean
  ): void;
}

export function hyperInput(first: Hyperparameter, onSet: (value: HyperValue) => void): HyperInput {
  const value = make('span', { class: 'tpulab-num' });
  const note = make('span', { class: 'tpulab-quiet' });
  const name = make('span', { title: first.description }, first.name);
  const field = fieldOf(first, onSet);
  const element = make(
    'div',
    { class: 'tpulab-hyper' },
    make('div', { class: 'tpulab-row' }, name, value),
    field.element,
    note
  );
  return {
    element,
    update(parameter, pending, failure, disabled) {
      setText(
        value,
        pending === null
          ? valueText(parameter.value)
          : `${valueText(parameter.value)} → ${valueText(pending)}`
      );
      setText(note, failure ?? (pending === null ? '' : 'applied at the next step'));
      note.className = failure === null ? 'tpulab-quiet' : 'tpulab-fail';
      field.update(pending ?? parameter.value, disabled);
    }
  };
}

interface Field {
  readonly element: HTMLElement;
  update(value: HyperValue, disabled: boolean): void;
}

function fieldOf(parameter: Hyperparameter, onSet: (value: HyperValue) => void): Field {
  switch (parameter.kind) {
    case 'boolean': {
      const box = make('input', { type: 'checkbox', role: 'switch', 'aria-label': parameter.name });
      box.addEventListener('change', () => onSet(box.checked));
      return {
        element: box,
        update(value, disabled) {
          box.checked = value === true;
          box.disabled = disabled;
        }
      };
    }
    case 'choice':
      return choice(parameter, onSet);
    case 'number':
    case 'integer':
      return number(parameter, onSet);
    case 'text': {
      const text = make('input', { type: 'text', 'aria-label': parameter.name });
      return { element: text, update: editable(text, onSet, String) };
    }
  }
}

function choice(parameter: Hyperparameter, onSet: (value: HyperValue) => void): Field {
  const choices = parameter.choices ?? [parameter.value];
  const select = make('select', { 'aria-label': parameter.name });
  select.append(...choices.map((one, at) => make('option', { value: at }, valueText(one))));
  select.addEventListener('change', () => {
    const chosen = choices[Number(select.value)];
    if (chosen !== undefined) {
      onSet(chosen);
    }
  });
  return {
    element: select,
    update(value, disabled) {
      select.value = String(choices.indexOf(value));
      select.disabled = disabled;
    }
  };
}

function number(parameter: Hyperparameter, onSet: (value: HyperValue) => void): Field {
  const bounds = sliderBounds(parameter);
  const slider = bounds
    ? make('input', { type: 'range', min: 0, max: PLACES, step: 1, 'aria-label': parameter.name })
    : null;
  const text = make('input', {
    type: 'text',
    inputmode: 'decimal',
    'aria-label': bounds ? `${parameter.name}, exactly` : parameter.name
  });
  slider?.addEventListener('input', () => {
    if (bounds) {
      text.value = valueText(valueAt(Number(slider.value), bounds, parameter));
      slider.setAttribute('aria-valuetext', text.value);
    }
  });
  slider?.addEventListener('change', () => {
    if (bounds) {
      onSet(valueAt(Number(slider.value), bounds, parameter));
    }
  });
  const commit = (words: string): void => {
    const typed = parseNumber(words, parameter);
    text.setAttribute('aria-invalid', String(typed === null));
    if (typed !== null) {
      onSet(typed);
    }
  };
  const updateText = editable(text, commit, valueText);
  return {
    element: make('div', { class: 'tpulab-inputs' }, slider, text),
    update(value, disabled) {
      updateText(value, disabled);
      if (slider && bounds && document.activeElement !== slider) {
        slider.value = String(placeOf(Number(value), bounds, parameter.scale));
      }
      if (slider) {
        slider.setAttribute('aria-valuetext', valueText(value));
        slider.disabled = disabled;
      }
    }
  };
}

/**
 * A field that sends at Enter and when it is left. What somebody types is not taken from under their hands, whatever else
 * happens to the focus in the page around.
 */
function editable(
  input: HTMLInputElement,
  onCommit: (text: string) => void,
  text: (value: HyperValue) => string
): (value: HyperValue, disabled: boolean) => void {
  let isTyping = false;
  let newest = '';
  const commit = (): void => {
    if (isTyping) {
      isTyping = false;
      onCommit(input.value);
    }
  };
  input.addEventListener('input', () => {
    isTyping = true;
  });
  input.addEventListener('change', commit);
  input.addEventListener('keydown', event => {
    if (event.key === 'Enter') {
      commit();
    } else if (event.key === 'Escape') {
      isTyping = false;
      input.value = newest;
    }
  });
  return (value, disabled) => {
    newest = text(value);
    if (!isTyping && input.value !== newest) {
      input.value = newest;
    }
    input.disabled = disabled;
  };
}
