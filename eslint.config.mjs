/**
 * The rules of Jupyter's own plugin, for what runs in JupyterLab. They need types, which only ESLint gives to a plugin; all other
 * rules are oxlint's (`.oxlintrc.json`). Warnings fail (`npm run check`).
 */
import jupyter from '@jupyter/eslint-plugin';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

// Its types are older than ESLint's own; what it exports is what ESLint wants.
const jupyterPlugin = /** @type {import('eslint').ESLint.Plugin} */ (/** @type {unknown} */ (jupyter));
const jupyterRecommended = /** @type {import('eslint').Linter.Config[]} */ (
  /** @type {unknown} */ (jupyter.configs.recommended)
);

export default defineConfig(
  {
    // Comments that switch off a rule of oxlint's say nothing here.
    linterOptions: { reportUnusedDisableDirectives: 'off' }
  },
  {
    files: ['extension/src/**/*.{ts,tsx}', 'extension/schema/*.json', 'ui-tests/**/*.ts'],
    plugins: { jupyter: jupyterPlugin },
    extends: [tseslint.configs.base, jupyterRecommended],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // The models are small and needed at once: the status bar shows them from the start.
      'jupyter/prefer-lazy-imports': 'off'
    }
  },
  {
    files: ['ui-tests/**/*.ts'],
    rules: {
      // What a test answers in the gateway's place is the gateway's text, which no page translates.
      'jupyter/no-untranslated-string': 'off'
    }
  }
);
