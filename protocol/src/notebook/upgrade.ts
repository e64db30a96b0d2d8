/** Converts notebooks of nbformat 3, which IPython 1 to 2 wrote, to nbformat 4 as Jupyter's `nbformat` does. */
import { listOf, objectOf, textOf } from './nbformat-values.js';

type Json = Record<string, unknown>;

/** Format names of nbformat 3, and their current names. */
const MIME_TYPES: Readonly<Record<string, string>> = {
  text: 'text/plain',
  html: 'text/html',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpeg: 'image/jpeg',
  latex: 'text/latex',
  json: 'application/json',
  javascript: 'application/javascript'
};

export function upgraded(old: Json): Json {
  const { worksheets, orig_nbformat: _, orig_nbformat_minor: __, metadata, ...others } = old;
  const { name: ___, signature: ____, ...remaining } = objectOf(metadata);
  const sheets = listOf(worksheets).map(objectOf);
  return {
    ...others,
    cells: sheets.flatMap(({ cells }) => listOf(cells).map(cell => upgradedCell(objectOf(cell)))),
    metadata: remaining,
    nbformat: 4,
    nbformat_minor: 5
  };
}

function upgradedCell({ cell_type, ...cell }: Json): Json {
  const metadata = objectOf(cell['metadata']);
  if (cell_type === 'code') {
    const { language: _, collapsed, input, prompt_number, outputs, ...others } = cell;
    return {
      ...others,
      cell_type,
      metadata: collapsed === undefined ? metadata : { ...metadata, collapsed },
      source: textOf(input),
      execution_count: prompt_number ?? null,
      outputs: listOf(outputs).map(output => upgradedOutput(objectOf(output)))
    };
  }
  const source = textOf(cell['source']);
  if (cell_type === 'heading') {
    const { level, ...others } = cell;
    const marks = '#'.repeat(typeof level === 'number' && level >= 1 ? Math.min(level, 6) : 1);
    const line = source.replace(/\n$/, '').split('\n').join(' ');
    return { ...others, cell_type: 'markdown', metadata, source: `${marks} ${line}` };
  }
  return { ...cell, cell_type: cell_type === 'html' ? 'markdown' : cell_type, metadata, source };
}

function upgradedOutput({ output_type, ...output }: Json): Json {
  switch (output_type) {
    case 'pyout':
    case 'display_data': {
      const { prompt_number, metadata, ...data } = output;
      const result = output_type === 'pyout' ? { execution_count: prompt_number ?? null } : {};
      return {
        output_type: output_type === 'pyout' ? 'execute_result' : output_type,
        ...result,
        data: upgradedData(data),
        metadata: renamed(objectOf(metadata))
      };
    }
    case 'pyerr':
      return { ...output, output_type: 'error' };
    case 'stream': {
      const { stream, ...others } = output;
      return { ...others, output_type, name: typeof stream === 'string' ? stream : 'stdout' };
    }
    default:
      return { ...output, output_type };
  }
}

function upgradedData(data: Json): Json {
  const types = renamed(data);
  const json = types['application/json'];
  if (json === undefined) return types;
  try {
    return { ...types, 'application/json': JSON.parse(textOf(json)) };
  } catch {
    // Invalid JSON stays a text.
    return types;
  }
}

function renamed(data: Json): Json {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [MIME_TYPES[key] ?? key, value]));
}
