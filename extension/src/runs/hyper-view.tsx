/** The input that suits a hyperparameter: slider and number, switch, choice or text; with the requested and the present value. */
import type { Hyperparameter, HyperValue } from '@tpulab/protocol';
import {
  type ChangeEvent,
  type ComponentProps,
  type JSX,
  type KeyboardEvent,
  useEffect,
  useState
} from 'react';
import { valueText } from '../text/value.js';
import { Glyph } from '../ui/glyph.js';
import { useUniqueId } from '../ui/use-unique-id.js';
import { parseNumber, PLACES, placeOf, sliderBounds, valueAt } from './hyper-scale.js';
import { trans } from '../text/trans.js';

interface HyperViewProps {
  readonly parameter: Hyperparameter;
  /** Requested and not applied yet; null when the shown value is in effect. */
  readonly pending: HyperValue | null;
  /** Why the last request failed. */
  readonly failure: string | null;
  readonly disabled: boolean;
  readonly onSet: (value: HyperValue) => void;
}

export function HyperView(props: HyperViewProps): JSX.Element {
  const { parameter, pending, failure, onSet, disabled } = props;
  const id = useUniqueId();
  const { name, value, initial, description, recompiles } = parameter;
  const isChanged = value !== initial;
  const note =
    failure ??
    (pending !== null
      ? trans.__('%1 → %2 at the next step', valueText(value), valueText(pending))
      : recompiles
        ? trans.__('a new value may recompile the step')
        : '');
  return (
    <div className={`jp-TPULabHyper jp-mod-${parameter.kind}`}>
      <label htmlFor={id} title={description ?? name}>
        {name}
      </label>
      <Input {...props} id={id} />
      <button
        type="button"
        className="jp-TPULabHyper-back"
        title={trans.__('Back to %1', valueText(initial))}
        aria-label={trans.__('%1 back to %2', name, valueText(initial))}
        disabled={!isChanged || disabled}
        onClick={() => onSet(initial)}
      >
        <Glyph name="back" />
      </button>
      {note === '' ? null : (
        <p
          className={failure === null ? 'jp-TPULab-quiet' : 'jp-TPULab-failure'}
          role={failure === null ? undefined : 'alert'}
        >
          {note}
        </p>
      )}
    </div>
  );
}

type InputProps = HyperViewProps & { readonly id: string };

function Input(props: InputProps): JSX.Element {
  const { parameter, pending, disabled, onSet, id } = props;
  const shown = pending ?? parameter.value;
  switch (parameter.kind) {
    case 'boolean':
      return (
        <input
          id={id}
          type="checkbox"
          role="switch"
          checked={shown === true}
          disabled={disabled}
          onChange={event => onSet(event.currentTarget.checked)}
        />
      );
    case 'choice': {
      const choices = parameter.choices ?? [parameter.value];
      return (
        <select
          id={id}
          className="jp-TPULab-input"
          value={choices.indexOf(shown)}
          disabled={disabled}
          onChange={event => {
            const chosen = choices[Number(event.currentTarget.value)];
            if (chosen !== undefined) {
              onSet(chosen);
            }
          }}
        >
          {choices.map((choice, at) => (
            <option key={valueText(choice)} value={at}>
              {valueText(choice)}
            </option>
          ))}
        </select>
      );
    }
    case 'number':
    case 'integer':
      return <NumberInput {...props} />;
    case 'text':
      return <TextInput {...props} />;
  }
}

/** A slider sends on release, not while it moves: each value is a command in the run's log. */
function NumberInput({ parameter, pending, disabled, onSet, id }: InputProps): JSX.Element {
  const value = Number(pending ?? parameter.value);
  const bounds = sliderBounds(parameter);
  const [place, setPlace] = useState<number | null>(null);
  useEffect(() => setPlace(null), [value]);
  const send = (): void => {
    if (place !== null && bounds) {
      const wanted = valueAt(place, bounds, parameter);
      if (wanted !== value) {
        onSet(wanted);
      } else {
        setPlace(null);
      }
    }
  };
  const shown = place === null || !bounds ? value : valueAt(place, bounds, parameter);
  return (
    <div className="jp-TPULabHyper-number">
      {bounds ? (
        <input
          id={id}
          type="range"
          min={0}
          max={PLACES}
          step={1}
          value={place ?? placeOf(value, bounds, parameter.scale)}
          disabled={disabled}
          aria-valuetext={valueText(shown)}
          onChange={event => setPlace(Number(event.currentTarget.value))}
          onPointerUp={send}
          onKeyUp={send}
          onBlur={send}
        />
      ) : null}
      <NumberField
        id={bounds ? undefined : id}
        label={parameter.name}
        parameter={parameter}
        value={shown}
        disabled={disabled}
        onSet={onSet}
      />
    </div>
  );
}

interface NumberFieldProps {
  readonly id: string | undefined;
  readonly label: string;
  readonly parameter: Hyperparameter;
  readonly value: number;
  readonly disabled: boolean;
  readonly onSet: (value: number) => void;
}

/** An invalid value is marked and not sent. */
function NumberField(props: NumberFieldProps): JSX.Element {
  const { id, label, parameter, value, disabled, onSet } = props;
  const parse = (text: string): number | null => parseNumber(text, parameter);
  const [typed, input] = useDraft(value, valueText(value), parse, onSet);
  return (
    <input
      id={id}
      className="jp-TPULab-input jp-TPULab-number"
      type="text"
      inputMode="decimal"
      disabled={disabled}
      aria-label={id === undefined ? trans.__('%1, exactly', label) : undefined}
      aria-invalid={typed === null}
      title={typed === null ? boundsText(parameter) : undefined}
      {...input}
    />
  );
}

/**
 * What is typed is sent at Enter and when the field loses the focus; Escape discards it.
 *
 * @returns the typed value, null while it is invalid; and the properties of the field
 */
function useDraft<T extends HyperValue>(
  value: T,
  shown: string,
  parse: (text: string) => T | null,
  onSet: (value: T) => void
): [T | null, Pick<ComponentProps<'input'>, 'value' | 'onChange' | 'onKeyDown' | 'onBlur'>] {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => setText(null), [value]);
  const typed = text === null ? value : parse(text);
  const send = (): void => {
    if (typed !== null && typed !== value) {
      onSet(typed);
    } else if (typed !== null) {
      setText(null);
    }
  };
  const input = {
    value: text ?? shown,
    onChange: (event: ChangeEvent<HTMLInputElement>) => setText(event.currentTarget.value),
    onKeyDown: ({ key }: KeyboardEvent) => {
      if (key === 'Enter') {
        send();
      } else if (key === 'Escape') {
        setText(null);
      }
    },
    onBlur: send
  };
  return [typed, input];
}

function boundsText({ kind, min, max }: Hyperparameter): string {
  const what = kind === 'integer' ? trans.__('a whole number') : trans.__('a number');
  if (min !== null && max !== null) {
    return trans.__('%1 from %2 to %3', what, valueText(min), valueText(max));
  }
  return min === null && max === null
    ? what
    : min === null
      ? trans.__('%1 up to %2', what, valueText(max ?? 0))
      : trans.__('%1 from %2', what, valueText(min));
}

function TextInput({ parameter, pending, disabled, onSet, id }: InputProps): JSX.Element {
  const value = String(pending ?? parameter.value);
  const [, input] = useDraft(value, value, text => text, onSet);
  return (
    <input id={id} className="jp-TPULab-input" type="text" maxLength={1_000} disabled={disabled} {...input} />
  );
}
