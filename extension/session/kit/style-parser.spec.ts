import postcss from 'postcss';
import { expect, it } from 'vitest';
import { parse } from './style-parser.js';

const attribute = (text: string): unknown[] =>
  parse(`span {${text}}`).nodes[0].nodes.map(({ prop, value, important }) => [
    prop,
    value,
    ...(important ? ['!'] : [])
  ]);
/** The library that the page replaces. */
const oracle = (text: string): unknown[] => {
  const rule = postcss.parse(`span {${text}}`).nodes[0];
  const nodes = rule?.type === 'rule' ? rule.nodes : [];
  return nodes.map(node =>
    node.type === 'decl' ? [node.prop, node.value, ...(node.important ? ['!'] : [])] : [node.type]
  );
};

it.each([
  '',
  ';;',
  'color: red',
  'color:red;background-color : rgb(1, 2, 3) ;',
  'font-weight: bold !important; width: calc(100% - (2px + 1px))',
  `font-family: "a; b", 'c:d'; width: 1px`,
  'background: url(data:image/png;base64,AAAA); height: 2em',
  'grid-area: [a b] / 1;\n  top: 0'
])('takes a style apart as postcss does: %s', text => expect(attribute(text)).toEqual(oracle(text)));

it.each([
  'color: red } body { color: blue',
  'color: red; /* ; */ width: 1px',
  'co\\6cor: red',
  'width: calc(1px; color: red',
  'content: "a; color: red',
  'color: red) ; width: 1px',
  'red',
  ': red'
])('refuses what is more, or less, than declarations: %s', text => expect(() => attribute(text)).toThrow());
