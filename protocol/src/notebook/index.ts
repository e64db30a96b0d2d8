export * from './json-edit.js';
export * from './kernel-choice.js';
export { fileOutput, sorted, wellFormed } from './nbformat-values.js';
export * from './notebook-text.js';
