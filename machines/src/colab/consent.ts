/** The text that a person reads before a Colab runtime is created: the terms, the remaining balance, and the price. */
import type { ColabAccelerator, ConsentFigure, RemoteCheck, RemoteConsent } from '@tpulab/protocol';
import type { ColabUsage, ListedRuntime } from './colab-command.js';

/** "What limits does Colab have"; it also lists the features that need a positive balance of compute units. */
const FAQ = 'https://research.google.com/colaboratory/faq.html';

export function colabConsent(
  accelerator: ColabAccelerator,
  usage: ColabUsage,
  others: readonly ListedRuntime[]
): RemoteConsent {
  const running = others.map(({ endpoint, hardware }) => `${endpoint} (${hardware})`).join(', ');
  return {
    title: `Create a Colab runtime with a TPU ${accelerator}?`,
    terms: [
      'Colab allows SSH and other web interfaces only with a positive balance of compute units.',
      ...(usage.balance > 0
        ? []
        : [
            'Your balance is 0. Colab does not allow this without a positive balance, and may refuse or end the runtime. You decide whether to continue.'
          ]),
      'The runtime uses compute units until you end it, even while nothing runs and while this computer is off. End it with Disconnect and end runtime, or "tpulab disconnect NAME --stop".',
      'Colab may reclaim it at any time and without notice, also in the middle of a training run. TPULab does not fake activity. Outputs are copied to this computer; files there are lost, so save checkpoints elsewhere.',
      ...(others.length === 0
        ? []
        : [`Already running on your account, and not started by this machine: ${running}.`])
    ],
    figures: colabFigures(usage),
    accept: 'Create runtime',
    source: FAQ
  };
}

export function colabFigures(usage: ColabUsage): ConsentFigure[] {
  const { balance, ratePerHour, runtimes } = usage;
  return [
    { name: 'balance', label: 'Balance', value: balance, unit: 'compute units' },
    { name: 'rate', label: 'Used now', value: ratePerHour, unit: 'compute units/h' },
    { name: 'hours-left', label: 'Time left at this rate', value: hoursLeft(usage), unit: 'h' },
    { name: 'runtimes', label: 'Running runtimes', value: runtimes, unit: '' }
  ];
}

/** null if unknown: while nothing runs, and for the free allowance, which Colab does not report. */
export function hoursLeft({ balance, ratePerHour }: ColabUsage): number | null {
  return balance > 0 && ratePerHour > 0 ? balance / ratePerHour : null;
}

export function consentText({ title, terms, figures, source }: RemoteConsent): string {
  const shown = figures.map(({ label, value, unit }) => `  ${label}: ${figureText(value, unit)}`);
  return [
    title,
    ...terms,
    ...shown,
    ...(source === null ? [] : [`Terms: ${source}`]),
    'Create it? (yes/no)'
  ].join('\n');
}

/** The remaining balance, while the runtime runs. */
export function balanceCheck(usage: ColabUsage): RemoteCheck {
  const hours = hoursLeft(usage);
  const balanceText = `${figureText(usage.balance, 'compute units')} left, ${figureText(usage.ratePerHour, 'compute units/h')} used`;
  if (usage.balance <= 0) {
    return {
      name: 'compute-units',
      state: 'warning',
      message: 'Your balance of compute units is 0. Colab does not report how long its free allowance lasts.',
      remedy: 'Save your work elsewhere: Colab may end the runtime at any time.'
    };
  }
  const isShort = hours !== null && hours < 1;
  return {
    name: 'compute-units',
    state: isShort ? 'warning' : 'ok',
    message: hours === null ? balanceText : `${balanceText}: about ${figureText(hours, 'h')}`,
    remedy: isShort ? 'Save your work elsewhere, or buy compute units.' : null
  };
}

function figureText(value: number | null, unit: string): string {
  if (value === null) return 'unknown';
  const text = String(Math.round(value * 100) / 100);
  return unit === '' ? text : `${text} ${unit}`;
}
