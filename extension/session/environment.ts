/** Before anything else: names of Node that packages read without asking. */
const scope = globalThis as { process?: unknown };
scope.process ??= { env: {}, cwd: () => '/' };

export {};
