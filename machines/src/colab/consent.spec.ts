import { describe, expect, it } from 'vitest';
import { balanceCheck, colabConsent, colabFigures, consentText, hoursLeft } from './consent.js';

const PAID = { balance: 8.8, ratePerHour: 1.76, runtimes: 1 };
const FREE = { balance: 0, ratePerHour: 0, runtimes: 0 };

describe('the consent of a person', () => {
  it('begins with the terms, and shows the remaining hours', () => {
    const consent = colabConsent('v5e1', PAID, []);
    expect(consent.terms[0]).toMatch(/positive balance of compute units/);
    expect(consent.terms.join(' ')).not.toMatch(/balance is 0/);
    expect(consent.figures.map(({ name, value }) => [name, value])).toEqual([
      ['balance', 8.8],
      ['rate', 1.76],
      ['hours-left', 5],
      ['runtimes', 1]
    ]);
  });

  it('states plainly that the balance is 0, and does not guess the hours', () => {
    const consent = colabConsent('v6e1', FREE, []);
    expect(consent.terms.join(' ')).toMatch(/Your balance is 0\..* You decide/);
    expect(hoursLeft(FREE)).toBeNull();
    expect(consentText(consent)).toMatch(/Time left at this rate: unknown/);
  });

  it('names the runtimes that already run on the account', () => {
    const others = [{ session: null, endpoint: 'tpu-v5e1-s-x', hardware: 'V5E1' }];
    expect(colabConsent('v5e1', PAID, others).terms.at(-1)).toContain('tpu-v5e1-s-x (V5E1)');
  });

  it('has a unit for every figure except counts', () => {
    expect(
      colabFigures(PAID)
        .filter(({ unit }) => unit === '')
        .map(({ name }) => name)
    ).toEqual(['runtimes']);
  });
});

describe('the remaining balance while the runtime runs', () => {
  it.each([
    ['with 5 hours is fine', PAID, 'ok', /about 5 h/],
    ['with less than an hour is a warning', { ...PAID, balance: 0.5 }, 'warning', /about 0\.28 h/],
    [
      'without a balance is a warning without hours',
      { ...FREE, ratePerHour: 1.76 },
      'warning',
      /does not report/
    ]
  ])('%s', (_what, usage, state, message) => {
    expect(balanceCheck(usage)).toMatchObject({ state, message: expect.stringMatching(message) as string });
  });
});
