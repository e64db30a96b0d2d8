export * from './json-edit.js';
export * from './kernel-choice.js';
export { fileOutput, sorted, wellFormed, wellFormedValues } from './nbformat-values.js';
export { LINES_ABOVE, StreamText } from './stream-text.js';
export * from './notebook-text.js';
