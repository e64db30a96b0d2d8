import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const SOURCES = new URL('../', import.meta.url);
const TEXT = readFileSync(new URL('../../docs/threats.md', SOURCES), 'utf8');

/** Last cell of each line: a spec, and the title of one of its tests. */
const named = TEXT.split('\n')
  .map(line => /^\|.*\| `([\w./-]+\.(?:spec\.ts|py))`(?:: (.+?))?\s+\|$/.exec(line))
  .filter(match => match !== null)
  .map(match => ({ file: match[1] ?? '', test: match[2] }));

describe('docs/threats.md', () => {
  it('names a spec for each threat, and for each possible attacker', () => {
    const rows = TEXT.split('\n').filter(line => line.startsWith('| ') && !/^\| (threat|who|---)/.test(line));
    expect(rows.length).toBeGreaterThan(25);
    expect(named).toHaveLength(rows.length);
    for (const who of [
      'page of JupyterLab',
      'another origin',
      'user of this machine',
      'network',
      'remote machine',
      'notebook file'
    ])
      expect(TEXT).toMatch(new RegExp(`^\\| (A|Another|Somebody)[^|]*${who}`, 'm'));
  });

  it.each(named)('$file has the test "$test"', ({ file, test }) => {
    const spec = new URL(file, SOURCES);
    expect(existsSync(spec)).toBe(true);
    if (test !== undefined) expect(readFileSync(spec, 'utf8')).toContain(test);
  });
});

const SECURITY = readFileSync(new URL('../../docs/security.md', SOURCES), 'utf8');
const UI = '../../ui-tests/tests/session-outputs.spec.ts';
const SHARING = 'sharing/narrowed-access.spec.ts';
const TWO_NOTEBOOKS =
  'has executions of the shared one, and of the other no code, outputs, questions, answers, sessions or steps';
const LEVELS = 'opens what its level and its notebooks name, and refuses the rest with a reason';
const FRAMED_WIDGETS = 'code of a widget runs in a frame, and of a strange notebook only once it is trusted';

/** The beginning of each sentence of these sections, and where it is tested. */
const SENTENCES: Readonly<
  Record<string, readonly (readonly [begins: string, file: string, test: string])[]>
> = {
  'Notebooks and outputs of others': [
    [
      '**Running a cell on a remote trusts',
      '../../extension/src/reattach/trust.spec.ts',
      'are trusted where the bridge on this machine has passed the request on, and nowhere else'
    ],
    [
      "A widget's code is also loaded",
      '../../ui-tests/tests/reattach.spec.ts',
      'the widgets of a running cell are restored after a reload, with their captured outputs, and respond'
    ],
    [
      'Open notebooks from machines',
      '../../ui-tests/tests/reattach.spec.ts',
      'the widgets of a running cell are restored after a reload, with their captured outputs, and respond'
    ],
    ['In the session page such code runs in frames', UI, FRAMED_WIDGETS],
    ['**The state of widgets in a notebook file**', UI, FRAMED_WIDGETS],
    [
      'JupyterLab loads it when',
      '../../extension/src/widgets/untrusted-state.spec.ts',
      'is visible to JupyterLab once every cell is trusted'
    ],
    ['The session page loads it for outputs', UI, FRAMED_WIDGETS],
    [
      '**The token** is out of reach',
      UI,
      'run in a frame that reaches nothing, and only where the notebook is trusted'
    ],
    [
      'The session page keeps a key',
      'http/authentication.spec.ts',
      'is useless without the cookie, and the cookie is useless without the key'
    ],
    [
      'In a browser without cookies',
      '../../extension/session/page/access.spec.ts',
      'keeps its token in memory where the browser keeps no cookies, and never stores it'
    ]
  ],
  'What a link shows': [
    ['Limits first', 'sharing/sharing.spec.ts', "sees others' executions live"],
    ['The view is cut by cells', SHARING, TWO_NOTEBOOKS],
    ['A display of the notebook shows', SHARING, 'has output that other code puts into its displays'],
    [
      'Executions without a cell id',
      SHARING,
      'output without a cell while no other document uses the kernel'
    ],
    [
      'The server makes what',
      'sharing/sharing.spec.ts',
      'gives access to the routes that show that notebook, and to no other'
    ],
    [
      "the notebook's file",
      'sharing/sharing.spec.ts',
      'gives access to the routes that show that notebook, and to no other'
    ],
    ['outputs of its cells', SHARING, 'has the whole output of a cell that ran when the link was made'],
    ['Before that the file', SHARING, TWO_NOTEBOOKS],
    ['steps, runs', SHARING, TWO_NOTEBOOKS],
    ['whether the kernel', 'sharing/sharing.spec.ts', 'receives events of its kernel, and none of others'],
    ['Not its journal', SHARING, TWO_NOTEBOOKS],
    ['A link ends', SHARING, 'ends with its notebook: a later notebook at its path is not shared'],
    ['A notebook that is saved over', SHARING, 'a saved version of it is'],
    ['Holders have', SHARING, 'has its own limit of 16 sockets and 64 KiB a message'],
    [
      'Nothing that they send',
      'sharing/sharing.spec.ts',
      'gets nothing to the kernel, by no message and no channel'
    ]
  ],
  'Tokens with less than all rights': [
    ['`tpulab token add NAME', SHARING, LEVELS],
    ['Each level includes', SHARING, LEVELS],
    ['`read`: look', SHARING, LEVELS],
    ['`run`: also', SHARING, LEVELS],
    ['`steer`: also', SHARING, LEVELS],
    ['`spend`: also', SHARING, LEVELS],
    ['`--notebooks`', 'http/token-store.spec.ts', 'with the pattern %s names these and no others'],
    ['From `run` on, every', SHARING, LEVELS],
    ['Everything else', SHARING, LEVELS],
    ['**`read` is a real border', SHARING, LEVELS],
    ['From `run` on, a level', SHARING, LEVELS],
    [
      '`tokens.json` has',
      'http/token-store.spec.ts',
      'gives the file a version that an earlier server refuses as a whole'
    ]
  ],
  'Origins, cookies and Colab': [
    [
      'A page may use',
      'http/access.spec.ts',
      'a page that is not allowed is refused, for REST and for upgrades'
    ],
    [
      '`ServerApp.allow_credentials`',
      'gateway/colab.spec.ts',
      'without allow_credentials a token in the query is refused, and credentials mode is not allowed'
    ]
  ]
};

describe.each(Object.entries(SENTENCES))('docs/security.md, "%s"', (section, sentences) => {
  it('has a test for each sentence', () => {
    const [, text = ''] = new RegExp(`^## ${section}\\n([^]*?)(?=^## |(?![^]))`, 'm').exec(SECURITY) ?? [];
    const found = text
      .split(/\n\n|\n(?=- )/)
      .flatMap(part =>
        part
          .replace(/^- /, '')
          .replaceAll('\n', ' ')
          .trim()
          .split(/(?<=[.:])\s+(?=[A-Z_`*])/)
      )
      .filter(sentence => sentence !== '');
    const untested = found.filter(sentence => !sentences.some(([begins]) => sentence.startsWith(begins)));
    expect(untested).toEqual([]);
    expect(found).toHaveLength(sentences.length);
  });

  it.each(sentences)('%s … is tested in %s', (_, file, test) => {
    expect(readFileSync(new URL(file, SOURCES), 'utf8')).toContain(test);
  });
});
