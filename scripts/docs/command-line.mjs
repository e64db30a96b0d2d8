// @ts-check
/** The reference of the command line, from the commands themselves: the output of `tpulab COMMAND --help`. */
import path from 'node:path';
import { checkout } from '../setup/checkout.mjs';

/** @typedef {import('commander').Command} Command */

/** @returns {Promise<string>} */
export async function commandLinePage() {
  const { programOf } = await import(path.join(checkout.root, 'kernel-bridge/lib/cli/program.js'));
  const quiet = { write: () => true };
  /** @type {Command} */
  const program = await programOf({ stdout: quiet, stderr: quiet });
  const sections = leaves(program).map(([name, command]) => {
    const title = `## tpulab ${name}`;
    const description = `${command.description().replace(/^./, first => first.toUpperCase())}.`;
    return `${title}\n\n::: v-pre\n${description.replaceAll('<', '&lt;')}\n:::\n\n\`\`\`text\n${command.helpInformation().trimEnd()}\n\`\`\``;
  });
  return `# Command line

Generated from the commands. In a checkout, write \`npx tpulab\` in its folder. \`tpulab COMMAND --help\` prints the same.

${sections.join('\n\n')}
`;
}

/** @param {Command} command @param {readonly string[]} path @returns {[string, Command][]} */
function leaves(command, path = []) {
  return command.commands.flatMap(child => {
    const name = [...path, child.name()];
    return child.commands.length > 0
      ? leaves(child, name)
      : [/** @type {[string, Command]} */ ([name.join(' '), child])];
  });
}
