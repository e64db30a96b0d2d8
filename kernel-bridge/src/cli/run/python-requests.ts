/** What `tpulab execute` asks of a Python kernel beside the cells. A kernel of another language is asked nothing. */

/** Silent, before the cells: `exit` and `quit` end the notebook: IPython's own would only tell a terminal to close, and the next cell would run. */
export const EXIT_ENDS_RUN = `
def _tpulab_run():
    from IPython.core.autocall import IPyAutocall
    class Exit(IPyAutocall):
        rewrite = False
        def __call__(self, *args):
            raise SystemExit(*(args or ("exit() was called",)))
    get_ipython().user_ns.update(exit=Exit(), quit=Exit())
_tpulab_run()
del _tpulab_run
`;

/**
 * Evaluated after the last cell and as a part of it: threads that would keep a Python program alive keep the run alive too, for a minute.
 * What they print meanwhile belongs to that cell.
 */
export const THREADS_END = `exec(${JSON.stringify(`
import sys, threading, time
end = time.monotonic() + 60
own = (threading.main_thread(), threading.current_thread())
threads = [thread for thread in threading.enumerate() if not thread.daemon and thread not in own]
for thread in threads:
    thread.join(max(0.0, end - time.monotonic()))
left = sum(thread.is_alive() for thread in threads)
if left:
    print(f"tpulab execute: {left} threads still run 60 s after the last cell; what they print later is not saved.", file=sys.stderr)
`)}, {})`;

const NAME = /^[A-Za-z_]\w*$/;

/** papermill's cell: `name = value` a line. @throws TypeError for what is no name of Python */
export function parametersCode(parameters: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(parameters).map(([name, value]) => {
    if (!NAME.test(name)) throw new TypeError(`"${name}" is not a valid parameter name`);
    return `${name} = ${literal(value)}`;
  });
  return ['# Parameters', ...lines].join('\n');
}

/** A value of the command line: a number, True, False or None as Python has them, else a text. */
export function parameterValue(text: string): unknown {
  if (/^true$/i.test(text)) return true;
  if (/^false$/i.test(text)) return false;
  if (/^(none|null)$/i.test(text)) return null;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? new Digits(text) : text;
}

/** As it was written: 1e-3, 1.0 and numbers beyond JavaScript's stay what they are. */
class Digits {
  constructor(readonly text: string) {}
}

function literal(value: unknown): string {
  if (value instanceof Digits) return value.text;
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : `float("${value}")`;
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${literal(each)}`);
  return `{${entries.join(', ')}}`;
}
