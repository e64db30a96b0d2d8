import { expect, it } from 'vitest';
import { missingFile } from './missing-file.js';

const error = (ename: string, evalue: string): Parameters<typeof missingFile>[0][number] => ({
  output_type: 'error',
  ename,
  evalue,
  traceback: []
});

it('is named by the error of the cell, whatever else was printed', () => {
  const words = "[Errno 2] No such file or directory: 'data/digits.npz'";
  expect(missingFile([{ output_type: 'stream', text: 'x' }, error('FileNotFoundError', words)])).toBe(
    'data/digits.npz'
  );
});

it("is null if another error ended the cell, or the path is not below the notebook's folder", () => {
  expect(missingFile([])).toBeNull();
  expect(missingFile([error('ValueError', "No such file or directory: 'a'")])).toBeNull();
  expect(
    missingFile([error('FileNotFoundError', "[Errno 2] No such file or directory: '/etc/x'")])
  ).toBeNull();
  expect(missingFile([error('FileNotFoundError', 'gone')])).toBeNull();
});
