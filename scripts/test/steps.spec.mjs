// @ts-check
import { describe, expect, it } from 'vitest';
import { playwright } from './steps.mjs';

const LEAVES_OUT = '--grep-invert=@long';

describe('a run of the browser tests', () => {
  it('leaves out the long ones', () => {
    expect(playwright('browser', 'chromium', []).args).toContain(LEAVES_OUT);
  });

  it('has the long tests of a file that is named, which may have no others', () => {
    expect(playwright('browser', 'chromium', ['diffusion.spec.ts']).args).not.toContain(LEAVES_OUT);
  });
});
