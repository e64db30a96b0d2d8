// @ts-check
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  failedTests,
  slowestTests,
  testsOfJunit,
  testsOfPlaywright,
  testsOfVitest
} from './reported-tests.mjs';

const VITEST = JSON.stringify({
  testResults: [
    {
      name: '/checkout/kernel-bridge/src/jupyter/frame.spec.ts',
      status: 'failed',
      assertionResults: [
        {
          fullName: 'a frame is read',
          status: 'failed',
          duration: 1200.5,
          failureMessages: [
            'Error: cut: {\n  "at": 3\n}\n    at expect (/checkout/node_modules/x.js:1:1)\n    at read (/checkout/src/frame.ts:7:5)'
          ]
        },
        { fullName: 'a frame is skipped', status: 'skipped', duration: null }
      ]
    },
    { name: '/checkout/broken.spec.ts', status: 'failed', message: 'SyntaxError: no', assertionResults: [] }
  ]
});
const PLAYWRIGHT = JSON.stringify({
  suites: [
    {
      specs: [
        {
          file: 'tests/a.spec.ts',
          title: 'opens',
          tests: [{ status: 'expected', results: [{ duration: 4000 }] }]
        }
      ],
      suites: [
        {
          specs: [
            {
              file: 'tests/a.spec.ts',
              title: 'closes',
              tests: [
                {
                  status: 'unexpected',
                  results: [
                    {
                      duration: 10,
                      error: {
                        message: '\u001b[31mError\u001b[39m: it stays\n\nLocator: x\nCall log:\n  - y',
                        location: { file: '/checkout/tests/steps.ts', line: 12 }
                      }
                    }
                  ]
                }
              ]
            }
          ]
        }
      ]
    }
  ]
});
const JUNIT =
  '<testsuites><testsuite name="pytest"><testcase classname="tests.ddpm.test_hosts" name="test_two[a&lt;b]" time="2.5"/>' +
  '<testcase classname="tests.ddpm.test_hosts" name="test_one" time="0.1"><failure message="assert 8 == 10&#10; +  where 8 = x">trace</failure></testcase></testsuite></testsuites>';

describe('reported tests', () => {
  /** @type {string} */
  let folder;
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'tpulab-reports-'));
  });
  afterEach(() => rm(folder, { recursive: true }));

  it('are read from the report of each runner, with the error of a failed one', () => {
    expect(testsOfVitest(VITEST)).toEqual([
      { name: 'frame.spec.ts: a frame is read', ms: 1200.5, error: 'Error: cut: { "at": 3 } (frame.ts:7:5)' },
      { name: 'frame.spec.ts: a frame is skipped', ms: 0 },
      { name: 'broken.spec.ts', ms: 0, error: 'SyntaxError: no' }
    ]);
    expect(testsOfPlaywright(PLAYWRIGHT)).toEqual([
      { name: 'a.spec.ts: opens', ms: 4000 },
      { name: 'a.spec.ts: closes', ms: 10, error: 'Error: it stays Locator: x (steps.ts:12)' }
    ]);
    expect(testsOfJunit(JUNIT)).toEqual([
      { name: 'test_hosts: test_two[a<b]', ms: 2500 },
      { name: 'test_hosts: test_one', ms: 100, error: 'assert 8 == 10' }
    ]);
  });

  it('are sorted over all parts, slowest first, each with its part', async () => {
    await writeFile(path.join(folder, 'unit.vitest.json'), VITEST);
    await writeFile(path.join(folder, 'browser.playwright.json'), PLAYWRIGHT);
    await writeFile(path.join(folder, 'recipes.junit.xml'), JUNIT);
    await writeFile(path.join(folder, 'check.json'), '[{"name":"lint","ok":true,"ms":88000}]');
    await writeFile(path.join(folder, 'notes.txt'), 'no report');
    expect((await slowestTests(folder, 3)).map(({ report, ms }) => [report, ms])).toEqual([
      ['check', 88_000],
      ['browser', 4000],
      ['recipes', 2500]
    ]);
  });

  it('are a line each where they failed', async () => {
    await writeFile(path.join(folder, 'recipes.junit.xml'), JUNIT);
    expect(await failedTests(path.join(folder, 'recipes.junit.xml'))).toEqual([
      'test_hosts: test_one: assert 8 == 10'
    ]);
    await writeFile(path.join(folder, 'check.json'), '[{"name":"lint","ok":false,"ms":1}]');
    expect(await failedTests(path.join(folder, 'check.json'))).toEqual(['lint: see above']);
  });

  it('are none before anything has run', async () => {
    expect(await slowestTests('/nowhere', 20)).toEqual([]);
  });
});
