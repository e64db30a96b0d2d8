/**
 * Type-aware lint for everything in TypeScript and for the scripts. Warnings fail (`npm run check`).
 * Where a rule of the strict set is relaxed, the reason stands beside it.
 */
import jupyter from '@jupyter/eslint-plugin';
import { defineConfig } from 'eslint/config';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

// Its types are older than ESLint's own; what it exports is what ESLint wants.
const jupyterPlugin = /** @type {import('eslint').ESLint.Plugin} */ (/** @type {unknown} */ (jupyter));
const jupyterRecommended = /** @type {import('eslint').Linter.Config[]} */ (
  /** @type {unknown} */ (jupyter.configs.recommended)
);

const typescript = [
  '{protocol,kernel-bridge,extension,ui-tests,tests/stand-in-vm}/**/*.{ts,tsx}',
  'vitest.config.mts'
];

export default defineConfig(
  {
    ignores: [
      '**/lib/**',
      '**/node_modules/**',
      '.tpulab/**',
      'extension/jupyterlab_tpulab/**',
      'kernel-bridge/session/**',
      'ui-tests/test-results/**',
      'ui-tests/playwright-report/**',
      'dist/**'
    ]
  },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: typescript,
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: {
      parserOptions: {
        projectService: { allowDefaultProject: ['vitest.config.mts'], defaultProject: 'tsconfig.base.json' },
        tsconfigRootDir: import.meta.dirname
      }
    },
    rules: {
      // Numbers in template strings are what messages are made of.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // `() => void call()` and one-line callbacks that return a void call read well.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // Interfaces of Jupyter and of Node often want a method that has nothing to wait for.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true }
      ],
      'no-console': 'error',
      eqeqeq: ['error', 'always', { null: 'ignore' }]
    }
  },
  {
    files: ['extension/src/**/*.{ts,tsx}', 'extension/schema/*.json', 'ui-tests/**/*.ts'],
    plugins: { jupyter: jupyterPlugin },
    extends: [jupyterRecommended],
    rules: {
      // The models are small and needed at once: the status bar shows them from the start.
      'jupyter/prefer-lazy-imports': 'off',
      // Lumino connects a slot as `signal.connect(this.slot, this)`, with the receiver given apart.
      '@typescript-eslint/unbound-method': 'off'
    }
  },
  {
    // As in the extension: Lumino connects slots with the receiver given apart.
    files: ['extension/session/**/*.{ts,tsx}'],
    rules: { '@typescript-eslint/unbound-method': 'off' }
  },
  {
    files: ['ui-tests/**/*.ts'],
    rules: {
      // What a test answers in the gateway's place is the gateway's text, which no page translates.
      'jupyter/no-untranslated-string': 'off'
    }
  },
  {
    files: ['extension/src/**/*.tsx', 'extension/session/**/*.{ts,tsx}'],
    plugins: { 'react-hooks': reactHooks },
    rules: reactHooks.configs.recommended.rules
  },
  {
    files: [
      '**/*.spec.{ts,tsx}',
      '**/*.spec-*.ts',
      '**/testing/**/*.ts',
      'ui-tests/**/*.ts',
      'tests/stand-in-vm/**/*.ts'
    ],
    rules: {
      // A test that fails on the assertion itself says enough.
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/unbound-method': 'off'
    }
  },
  {
    files: ['**/*.mjs', '**/*.cjs', 'kernel-bridge/bin/*.js'],
    extends: [tseslint.configs.disableTypeChecked],
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-undef': 'off',
      'no-unused-vars': ['error', { argsIgnorePattern: '^_' }]
    }
  }
);
