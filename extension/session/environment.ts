/** Loaded before anything else: Node's globals that packages read without a check. */
const scope = globalThis as { process?: unknown };
scope.process ??= { env: {}, cwd: () => '/' };

export {};
