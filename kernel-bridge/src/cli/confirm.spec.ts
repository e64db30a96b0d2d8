import { expect, it } from 'vitest';
import { agree } from './output.js';

const streams = { stdout: { write: () => true }, stderr: { write: () => true } };
const plan = { plan: 'delete a.txt', question: 'Delete it?' };

it('runs when a person confirms, or a script passes --yes', async () => {
  await agree(streams, {}, plan, async () => true);
  await agree(streams, { yes: true }, plan, async () => {
    throw new Error('nobody is asked');
  });
});

it('does nothing when a person declines, and shows the plan if there is no terminal', async () => {
  await expect(agree(streams, {}, plan, async () => false)).rejects.toMatchObject({
    code: 'not_confirmed',
    message: 'Nothing was done.'
  });
  await expect(agree(streams, {}, plan, async () => null)).rejects.toMatchObject({
    code: 'not_confirmed',
    message: expect.stringMatching(/delete a\.txt[\s\S]*--yes/) as unknown
  });
});
